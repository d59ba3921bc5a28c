// One direction of a connection as iWARP: cuts the octets of a stream into a start-up frame and FPDUs,
// decodes them, and puts Sends together. Pure; one thread.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "pcap/event.h"
#include "pcap/reassembly.h"
#include "proto/wire/assignment.h"

namespace kbtp::trace {

struct DecodeOptions {
  wire::Assignment assignment = wire::kProposed;
  wire::Lengths lengths = wire::Lengths::lenient;
  std::size_t max_kept = std::numeric_limits<std::size_t>::max();  ///< ULPDU octets kept of each data segment
  std::size_t max_message = std::size_t{16} << 20;                 ///< longer Sends are not put together
  Reassembler::Limits reassembly;
};

/// What the start-up frames of both directions have said so far.
struct Agreement {
  struct Said {
    bool markers = false, crc = false, reject = false;
    mpa::StartupKind kind = mpa::StartupKind::request;
  };
  std::array<std::optional<Said>, 2> said;  ///< by Side

  [[nodiscard]] const std::optional<Said>& of(Side side) const {
    return said[static_cast<std::size_t>(side)];
  }
  [[nodiscard]] bool crc_on() const;   ///< one of them said C=1
  [[nodiscard]] bool crc_off() const;  ///< both said C=0
  [[nodiscard]] bool rejected() const;
  /// Whether `sender` puts markers into its FPDUs: the receiver asked for them.
  [[nodiscard]] bool markers_from(Side sender) const;
};

class IwarpStream {
 public:
  using Sink = std::function<void(Event&&)>;

  /// `agreement` is shared by both directions of the connection and outlives them.
  IwarpStream(Side from, Agreement& agreement, const DecodeOptions& options, Sink sink);

  /// The next run of the stream, in order.
  void take(const Run& run);
  /// No more comes: tells of a frame that was begun.
  void end(FrameRef frame);

 private:
  enum class State : std::uint8_t {
    startup,
    fpdus,
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

  void unit_grew(FrameRef frame);
  void startup_grew(FrameRef frame);
  void fpdu_complete(FrameRef frame, Extent extent);
  void judge_crc(Fpdu& fpdu) const;
  void decode_ulpdu(Fpdu& fpdu, Octets ulpdu) const;
  void put_together(const Fpdu& fpdu, Octets ulpdu, FrameRef frame);
  void stop(FrameRef frame, std::string why);
  void emit(decltype(Event::what) what, FrameRef frame,
            std::shared_ptr<const std::vector<std::byte>> octets = {});
  void next_unit();

  Side from_;
  Agreement& agreement_;
  const DecodeOptions& options_;
  Sink sink_;
  State state_ = State::startup;
  std::vector<std::byte> unit_;  ///< the frame that is being received; octets that are lacking are zero
  std::size_t wanted_ = mpa::kStartupHeaderSize;  ///< octets of the unit, as far as is known yet
  std::optional<std::size_t> lacking_from_;       ///< the first lacking octet of the unit
  std::uint64_t offset_ = 0;                      ///< of the unit's first octet
  FrameRef first_;                                ///< that brought it
  std::uint64_t skipped_ = 0;
  std::optional<Partial> partial_;
};

}  // namespace kbtp::trace
