// What happened on one connection, read from a capture: MPA start-up frames, FPDUs with their DDP and RDMAP
// headers, ends of the TCP stream, octets that the capture lacks; InfiniBand packets and what the
// Communication Manager said; on either, Sends put together and decoded as KBTP.
//
// Decoding is lenient where the codecs are strict: an FPDU is an event whatever is wrong with it, and carries
// the error that a right receiver would answer with as far as that needs no state.
//
// A decoder lends its events: their spans are valid until the callback returns. owned() makes one that keeps
// what it points to; copies of that share the octets.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "pcap/ib_event.h"
#include "pcap/reassembly.h"
#include "pcap/record.h"
#include "proto/wire/message.h"
#include "rdmap_binding/ddp/segment.h"
#include "rdmap_binding/mpa/startup.h"
#include "rdmap_binding/rdmap/headers.h"
#include "rdmap_binding/rdmap/opcode.h"
#include "rdmap_binding/rdmap/terminate.h"
#include "rdmap_binding/terminate_code.h"

namespace kbtp::trace {

/// Ends of a connection: the client opened TCP. When the opening is not in the capture, the sender of the
/// first segment counts as the client, unless that is an MPA Reply, or comes from a port below 32768 and goes
/// to one above.
enum class Side : std::uint8_t {
  client,
  server,
};
[[nodiscard]] constexpr Side other(Side side) { return side == Side::client ? Side::server : Side::client; }

/// A well-formed MPA Request or Reply (RFC 5044 7.1.1).
struct Startup {
  mpa::StartupFrame frame;

  /// IRD and ORD as middleware told them before RFC 6581 did.
  struct Depths {
    std::uint32_t ird = 0, ord = 0;
  };
  /// A guess, for a frame without enhanced data: private data of 8 octets that hold two plausible depths, as
  /// SMB Direct has them (MS-SMBD 6.1), or little-endian, as Linux's cifs wrote them.
  [[nodiscard]] std::optional<Depths> guessed_depths() const;
};

/// What stands where a start-up frame is due. The direction is not decoded any further.
struct BadStartup {
  std::optional<mpa::StartupError> error;  ///< nothing: the stream, or the capture, ended inside the frame
};

enum class CrcState : std::uint8_t {
  good,
  bad,
  off,      ///< both start-up frames said C=0 (RFC 5044 7.1.1): the field is not looked at
  unknown,  ///< octets are lacking; or it does not match and the capture does not say whether CRCs are on
};

enum class Extent : std::uint8_t {
  whole,
  broken_off,  ///< the stream ended inside it
  lacking,     ///< the capture lacks some of its octets
};

/// One FPDU. Header fields are as on the wire, right or wrong.
struct Fpdu {
  std::uint16_t ulpdu_length = 0;  ///< as the length field says
  Extent extent = Extent::whole;
  CrcState crc = CrcState::unknown;
  bool pad_zero = true;
  std::uint16_t markers = 0;       ///< that stood in it, the one in front of its length included
  std::uint16_t first_marker = 0;  ///< octets of the stream in front of the first, when there are any
  std::optional<ddp::Header> ddp;  ///< nothing: the ULPDU is shorter than the header, or that is lacking
  rdmap::Control rdmap;            ///< meaningful with `ddp`
  std::uint32_t payload_length =
      0;  ///< behind the DDP header, by the length field: RDMAP header or ULP payload
  /// The RDMAP header, when the opcode has one, the segment is untagged and has just the right size.
  std::variant<std::monostate, rdmap::ReadRequest, rdmap::Immediate, rdmap::AtomicRequest,
               rdmap::AtomicResponse, rdmap::Terminate>
      header;
  /// What a receiver without state must find wrong in the ULPDU. Only for whole FPDUs whose CRC is not bad.
  std::optional<WireError> error;
  Octets ulpdu;  ///< without markers, as far as it is there

  [[nodiscard]] const ddp::TaggedHeader* tagged() const {
    return ddp ? std::get_if<ddp::TaggedHeader>(&*ddp) : nullptr;
  }
  [[nodiscard]] const ddp::UntaggedHeader* untagged() const {
    return ddp ? std::get_if<ddp::UntaggedHeader>(&*ddp) : nullptr;
  }
  [[nodiscard]] bool is(rdmap::Opcode opcode) const {
    return ddp.has_value() && rdmap.opcode == static_cast<std::uint8_t>(opcode);
  }
  [[nodiscard]] const rdmap::Terminate* terminate() const { return std::get_if<rdmap::Terminate>(&header); }
  /// Behind the DDP header, as far as it was kept.
  [[nodiscard]] Octets payload() const;
};

/// A whole message of the Send family (QN 0, or InfiniBand's Sends): comes right behind the FPDU or packet
/// that completed it. Only messages that a receiver can deliver: segments in sequence, CRCs not bad, no error
/// in their headers.
struct Message {
  /// The kind of Send. InfiniBand's map to RDMAP's: with the SE bit those with Solicited Event.
  rdmap::Opcode opcode = rdmap::Opcode::send;
  std::uint32_t msn = 0;                         ///< iWARP
  std::optional<std::uint32_t> invalidate_stag;  ///< or R_Key: Send with Invalidate
  Octets octets;
  wire::Decoded<wire::Message> kbtp;
  std::optional<std::uint32_t> psn = std::nullopt;        ///< InfiniBand: of its first packet
  std::optional<std::uint32_t> immediate = std::nullopt;  ///< InfiniBand: that came with it
};

/// The stream ends here.
struct TcpEnd {
  enum class Kind : std::uint8_t {
    fin,
    rst,
  };
  Kind kind = Kind::fin;
};

/// The capture lacks octets of this direction.
struct Missing {
  std::uint64_t length = 0;
};

/// Something for people, such as why a direction is not decoded any further.
struct Note {
  std::string text;
  std::optional<FindingWord> finding = std::nullopt;  ///< of what deserves an eye
};

struct Event {
  Side from = Side::client;
  FrameRef first;            ///< that brought its first octet
  FrameRef frame;            ///< with which it was whole and in order
  std::uint64_t offset = 0;  ///< stream offset of its first octet; TCP only
  std::variant<Startup, BadStartup, Fpdu, Message, TcpEnd, Missing, Note, IbPacket, CmMessage> what;
  /// What it was read from: the start-up frame, the FPDU from its first marker or length to its CRC, the
  /// message put together, the packet from BTH to ICRC, the MAD; as far as it is there. Else empty.
  Octets octets;
  std::shared_ptr<const std::vector<std::byte>> storage;  ///< of an owned event

  template <class T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&what);
  }
};

/// The same event with octets of its own, of an FPDU that carries data at most `max_kept` of its ULPDU.
[[nodiscard]] Event owned(const Event& event, std::size_t max_kept = std::numeric_limits<std::size_t>::max());

/// One line without frame number and time: "RDMA Write STag 0x00001234 TO 0x1000, 4096 octets, last, CRC
/// good".
[[nodiscard]] std::string describe(const Event& event);
/// "LOAD request 7 handle 3 ..."
[[nodiscard]] std::string describe(const wire::Message& message);
/// "#12 +0.001234 client: " and describe(); the time is told from `start_ns`.
[[nodiscard]] std::string to_line(const Event& event, std::int64_t start_ns);

}  // namespace kbtp::trace
