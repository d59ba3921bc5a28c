// What went over the wire in one case, in the form that judges read. It comes from the case's capture, or,
// with `--capture none`, from what RawPeer sent and received; judges cannot tell the difference.
//
// Headers are read loosely here, field by field and without any check: a judge has to see wrong frames too.
// (It is also the one reader of FPDUs in the project that shares nothing with the RNIC's codecs but the
// layout.)

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "conformance/profile.h"
#include "proto/wire/completion.h"
#include "proto/wire/hello.h"

namespace kbtp::conformance {

enum class Side : std::uint8_t {
  suite,
  target,
};

/// Connections of a case are numbered in the order in which the suite opened them.
using ConnectionIndex = std::uint32_t;

struct Event {
  enum class Kind : std::uint8_t {
    setup_frame,  ///< an MPA Request or Reply Frame, whole
    fpdu,         ///< `octets` is the ULPDU, without length, pad and CRC
    unframed,     ///< octets that are no (whole) set-up frame or FPDU
    fin,
    reset,
  };
  Kind kind = Kind::unframed;
  Side from = Side::target;
  ConnectionIndex connection = 0;
  std::uint64_t frame = 0;  ///< of the capture, the one that completed it; 0 when nothing was captured
  bool crc_good = true;     ///< fpdu only
  std::vector<std::byte> octets = {};
  std::optional<std::uint32_t> immediate = {};  ///< of an RDMA Write with Immediate (InfiniBand)
};

/// DDP and RDMAP header of one ULPDU (RFC 5041 4, RFC 5040 4.1).
struct Segment {
  std::size_t position = 0;  ///< index of its event: order in the trace
  std::uint64_t frame = 0;
  Side from = Side::target;
  bool crc_good = true;
  bool tagged = false;
  bool last = false;
  std::uint8_t ddp_version = 0;
  std::uint8_t rdmap_version = 0;
  std::uint8_t opcode = 0;
  std::uint32_t stag = 0;  ///< tagged
  std::uint64_t tagged_offset = 0;
  std::uint32_t invalidate = 0;  ///< untagged
  std::uint32_t queue = 0;
  std::uint32_t msn = 0;
  std::uint32_t message_offset = 0;
  std::optional<std::uint32_t> immediate = {};  ///< tagged: that came with it
  Octets header;                                ///< 14 or 18 octets
  Octets payload;                               ///< what follows
};
inline constexpr std::uint8_t kOpWrite = 0x0;  // RFC 5040 4.3 and RFC 7306 4.2
inline constexpr std::uint8_t kOpReadRequest = 0x1;
inline constexpr std::uint8_t kOpReadResponse = 0x2;
inline constexpr std::uint8_t kOpSend = 0x3;
inline constexpr std::uint8_t kOpSendInvalidate = 0x4;
inline constexpr std::uint8_t kOpSendSolicitedInvalidate = 0x6;
inline constexpr std::uint8_t kOpTerminate = 0x7;
inline constexpr std::uint8_t kOpAtomicResponse = 0xB;

/// Nothing when `ulpdu` is shorter than its header.
[[nodiscard]] std::optional<Segment> read_segment(Octets ulpdu);

/// RFC 5040 4.4.
struct ReadRequest {
  std::size_t position = 0;
  std::uint64_t frame = 0;
  std::uint32_t size = 0;
  std::uint32_t source_stag = 0;
  std::uint64_t source_offset = 0;
};

/// RFC 5040 4.8, as the figures lay it out.
struct Terminate {
  std::size_t position = 0;
  std::uint64_t frame = 0;
  std::uint32_t control = 0;  ///< the first four octets as they came
  std::uint8_t layer = 0;
  std::uint8_t type = 0;
  std::uint8_t code = 0;
  bool m = false, d = false, r = false;
  std::uint16_t reserved = 0;                ///< 13 bits
  std::vector<std::byte> ddp_header = {};    ///< as far as there are octets
  std::vector<std::byte> rdmap_header = {};  ///< the 28 of a Read Request
};

/// The Set-up frame of one side (RFC 5044 7.1.1), read loosely.
struct SetupFrame {
  std::size_t position = 0;
  std::uint64_t frame = 0;
  bool markers = false, crc = false, reject = false, enhanced = false;
  std::uint8_t reserved = 0;  ///< bits without a meaning in that revision
  std::uint8_t revision = 0;
  std::uint16_t ird = 0, ord = 0;  ///< of the enhanced fields
  bool peer_to_peer = false, rtr_send = false, rtr_write = false, rtr_read = false;
};

struct CompletionSeen {
  std::size_t position = 0;
  std::uint64_t frame = 0;
  std::uint8_t version = 0;
  std::uint8_t opcode = kOpSend;  ///< RDMAP's
  std::optional<std::uint32_t> invalidate = {};
  wire::Completion completion = {};
};

/// One connection, read once and then asked.
struct Conversation {
  std::optional<SetupFrame> request, reply;
  std::vector<Segment> segments;  ///< of both sides, in the order of the trace
  std::vector<CompletionSeen> completions;
  std::optional<wire::HelloAck> hello_ack;
  std::uint64_t hello_ack_frame = 0;
  std::vector<ReadRequest> reads;  ///< the target's
  std::vector<Terminate> terminates;
  /// When the target's FIN or RST, and the suite's own, stand in the trace.
  std::optional<std::size_t> target_closed, suite_closed;
  std::uint64_t target_closed_frame = 0;
  bool target_reset = false;
  bool target_unframed = false;  ///< octets of the target that are neither a Reply nor an FPDU

  /// RDMA Writes of the target that name `stag`.
  [[nodiscard]] std::vector<const Segment*> writes_to(std::uint32_t stag) const;
  [[nodiscard]] std::vector<const CompletionSeen*> completions_of(std::uint64_t request_id) const;
};

class Evidence {
 public:
  explicit Evidence(std::vector<Event> events, wire::Assignment assignment = wire::kProposed,
                    const Allowances& allowances = {});
  Evidence(const Evidence&) = delete;  // segments point into the events
  Evidence& operator=(const Evidence&) = delete;

  [[nodiscard]] const Conversation& on(ConnectionIndex connection) const;
  [[nodiscard]] const wire::Assignment& assignment() const { return assignment_; }

 private:
  void read(Conversation& conversation, std::size_t position);
  void read_target_segment(Conversation& conversation, const Segment& segment,
                           std::vector<std::byte>& send_so_far);

  std::vector<Event> events_;
  wire::Assignment assignment_;
  Allowances allowances_;
  std::vector<Conversation> conversations_;
  std::vector<std::vector<std::byte>> partial_sends_;
};

}  // namespace kbtp::conformance
