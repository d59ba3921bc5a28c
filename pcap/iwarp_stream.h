// One direction of a connection as iWARP: cuts the octets of a stream into a start-up frame and FPDUs,
// decodes them, and puts Sends together. FPDUs that lie whole in a run are decoded where they are. Pure; one
// thread.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "pcap/event.h"
#include "pcap/fpdu_decode.h"
#include "pcap/reassembly.h"
#include "proto/wire/assignment.h"

namespace kbtp::trace {

class EspStage;

struct DecodeOptions {
  wire::Assignment assignment = wire::kProposed;
  wire::Lengths lengths = wire::Lengths::lenient;
  /// Every connection is iWARP: what does not begin with a start-up frame is a BadStartup. Otherwise it is
  /// iWARP when its octets show it, and else left alone.
  bool expect_iwarp = true;
  std::size_t max_kept = std::numeric_limits<std::size_t>::max();  ///< ULPDU octets of an owned data segment
  std::size_t max_message = std::size_t{16} << 20;                 ///< longer Sends are not put together
  Reassembler::Limits reassembly;
  EspStage* esp = nullptr;  ///< opens ESP, when there is one; it outlives the decoder
};

/// What both directions of a connection have shown so far.
struct Agreement {
  struct Said {
    bool markers = false, crc = false, reject = false;
    mpa::StartupKind kind = mpa::StartupKind::request;
  };
  std::array<std::optional<Said>, 2> said;  ///< by Side, in start-up frames
  bool crc_seen = false;                    ///< an FPDU found without start-up frames had a right CRC

  [[nodiscard]] const std::optional<Said>& of(Side side) const {
    return said[static_cast<std::size_t>(side)];
  }
  /// On when one of them said C=1, off when both said C=0 (RFC 5044 7.1.1).
  [[nodiscard]] CrcUse crc() const;
  [[nodiscard]] bool rejected() const;
  /// Whether `sender` puts markers into its FPDUs: the receiver asked for them.
  [[nodiscard]] bool markers_from(Side sender) const;
};

class IwarpStream {
 public:
  /// Called with each event in turn; its spans are valid during the call.
  using Sink = std::function<void(const Event&)>;

  /// `agreement` is shared by both directions of the connection and outlives them.
  IwarpStream(Side from, Agreement& agreement, const DecodeOptions& options, Sink sink);

  /// The next run of the stream, in order.
  void take(const Run& run);
  /// No more comes: tells of a frame that was begun.
  void end(FrameRef frame);

  /// A start-up frame was seen, or FPDUs were recognised.
  [[nodiscard]] bool is_iwarp() const { return iwarp_; }
  /// Octets that are held back until more of their frame or message comes.
  [[nodiscard]] std::size_t held_octets() const {
    return unit_.capacity() + scratch_.capacity() + (partial_ ? partial_->octets.capacity() : 0);
  }

 private:
  enum class State : std::uint8_t {
    unknown,  ///< nothing seen
    startup,
    fpdus,
    searching,    ///< for the beginning of an FPDU, in `unit_`
    not_decoded,  ///< octets are skipped
  };
  /// A Send of which the last segment is still to come.
  struct Partial {
    std::uint32_t msn = 0;
    rdmap::Opcode opcode = rdmap::Opcode::send;
    FrameRef first;
    std::uint64_t offset = 0;
    std::vector<std::byte> octets;
  };

  void begin(Octets octets);
  void begin_unit(const Run& run, std::uint64_t done);
  [[nodiscard]] std::size_t take_whole_fpdu(Octets octets, FrameRef frame);
  void gather(const Run& run, std::uint64_t& done);
  void unit_grew(FrameRef frame);
  void startup_grew(FrameRef frame);
  void startup_failed(const mpa::StartupError& error, FrameRef frame);
  void measure(FrameRef frame);
  void search(FrameRef frame, bool last);
  void fpdu(const RawFpdu& raw, FrameRef frame);
  void put_together(const Fpdu& fpdu, FrameRef frame);
  void lost_boundary(FrameRef frame, const char* why);
  void stop(FrameRef frame, std::string why);
  void emit(decltype(Event::what) what, FrameRef frame, Octets octets = {});
  void enter(State state);
  void next_unit();

  Side from_;
  Agreement& agreement_;
  const DecodeOptions& options_;
  Sink sink_;
  State state_ = State::unknown;
  bool iwarp_ = false;
  std::vector<std::byte> unit_;  ///< the frame that is being received; octets that are lacking are zero
  std::size_t wanted_ = 0;       ///< octets of the unit, as far as is known yet
  bool measured_ = false;        ///< wanted_ is the size of an FPDU
  std::optional<std::size_t> lacking_from_;  ///< the first lacking octet of the unit
  std::uint64_t offset_ = 0;                 ///< of the unit's first octet
  FrameRef first_;                           ///< that brought it
  std::optional<mpa::MarkerClock> markers_;  ///< at the unit's first octet
  std::vector<std::byte> scratch_;           ///< an FPDU without its markers
  std::uint64_t skipped_ = 0;
  std::optional<Partial> partial_;
};

}  // namespace kbtp::trace
