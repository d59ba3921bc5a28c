// What a case expects to see in its trace, each expectation with the rule it stands for. An expectation is a
// sentence and a pure function from evidence to a finding: it knows what was sent and what is due, and
// nothing of what RawPeer believes to have received.

#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/evidence.h"
#include "proto/wire/header.h"

namespace kbtp::conformance {

enum class Grade : std::uint8_t {
  exact,  ///< what the rule asks
  weak,   ///< tolerated: closed without the Terminate that was due, a code or status that a row tolerates
  wrong,  ///< a violation
  unsupported,  ///< the target refused in the way of one that does not have this
  unclear,      ///< the trace does not say
};
/// As reports name it: "pass", "pass-weak", "fail", "unsupported", "inconclusive".
[[nodiscard]] std::string_view to_string(Grade grade);

struct Finding {
  Grade grade = Grade::unclear;
  std::string observed;
  std::vector<std::uint64_t> frames;  ///< that show it
};

struct Expectation {
  std::string rule;
  std::string expected;
  std::function<Finding(const Evidence&)> judge;
};

/// Layer, error type and code of a Terminate (RFC 5040 4.8).
struct Triple {
  std::uint8_t layer = 0;
  std::uint8_t type = 0;
  std::uint8_t code = 0;
  friend bool operator==(const Triple&, const Triple&) = default;
};
/// "1/2/03", the code in hexadecimal.
[[nodiscard]] std::string to_string(const Triple& triple);

using RequestId = std::uint64_t;

// Completions
// ------------------------------------------------------------------------------------------------

/// One COMPLETION with exactly this status.
[[nodiscard]] Expectation completes(std::string rule, ConnectionIndex c, RequestId id, wire::Status due);
/// One COMPLETION that refuses: `due` is exact, any other status but SUCCESS is weak (the draft's excerpt
/// names only NO_SPACE and TICKET_ABANDONED).
[[nodiscard]] Expectation refuses(std::string rule, ConnectionIndex c, RequestId id, wire::Status due);
/// One COMPLETION, with SUCCESS or INVALID_REQUEST (a flag that is not offered may be ignored or refused).
[[nodiscard]] Expectation refuses_or_completes(std::string rule, ConnectionIndex c, RequestId id);
/// No COMPLETION for this request at all.
[[nodiscard]] Expectation stays_unanswered(std::string rule, ConnectionIndex c, RequestId id);
/// Every COMPLETION is for a request that was sent, and no request has two.
[[nodiscard]] Expectation echoes_request_ids(std::string rule, ConnectionIndex c);
/// The COMPLETION is Send with Invalidate of `stag`; without a value a Send that invalidates nothing.
[[nodiscard]] Expectation invalidates(std::string rule, ConnectionIndex c, RequestId id,
                                      std::optional<std::uint32_t> stag);

/// What the completion of one request must have in common with that of an earlier one.
struct Relation {
  std::optional<std::uint32_t> data_length = {};
  bool same_block = false;
  bool same_generation = false;
  bool next_generation = false;
  bool other_block = false;  ///< a different Block Offset, and a real one
};
[[nodiscard]] Expectation relates(std::string rule, ConnectionIndex c, RequestId earlier, RequestId later,
                                  Relation relation);
/// The COMPLETION has no Generation, Data Length or Block Offset: it tells nothing of the handle (G-16).
[[nodiscard]] Expectation tells_nothing(std::string rule, ConnectionIndex c, RequestId id);
/// No COMPLETION of the connection has Generation 0, and the Generation has gone once round.
[[nodiscard]] Expectation generations_wrap_without_zero(std::string rule, ConnectionIndex c);

// Completion records
// ------------------------------------------------------------------------------------------

/// One RDMA Write to the STag of `slot`: a record of 24 octets at its Tagged Offset, of this request and with
/// this status. Where a refusal is due another one is weak.
[[nodiscard]] Expectation records(std::string rule, ConnectionIndex c, RequestId id,
                                  const wire::CompletionDescriptor& slot, wire::Status due);
/// The record tells this Data Length, and the entry that the COMPLETION of `earlier` told.
[[nodiscard]] Expectation records_entry(std::string rule, ConnectionIndex c, RequestId earlier,
                                        const wire::CompletionDescriptor& slot, std::uint32_t data_length);
/// The record comes by RDMA Write with Immediate.
[[nodiscard]] Expectation records_with_immediate(std::string rule, ConnectionIndex c,
                                                 const wire::CompletionDescriptor& slot);
/// Its Immediate Data is the low half of the Request ID.
[[nodiscard]] Expectation immediate_names(std::string rule, ConnectionIndex c, RequestId id,
                                          const wire::CompletionDescriptor& slot);
/// The Writes for `stag` stand before the record.
[[nodiscard]] Expectation places_before_recording(std::string rule, ConnectionIndex c, std::uint32_t stag,
                                                  const wire::CompletionDescriptor& slot);
/// A refusal by COMPLETION or by record: `due` is exact, any other status but SUCCESS is weak.
[[nodiscard]] Expectation refuses_either_way(const std::string& rule, ConnectionIndex c, RequestId id,
                                             const wire::CompletionDescriptor& slot, wire::Status due);

// Data
// -------------------------------------------------------------------------------------------------------

/// All RDMA Writes of the target that name `stag` put together are exactly `data` at `offset`: no octet is
/// missing, none is anywhere else.
[[nodiscard]] Expectation places(std::string rule, ConnectionIndex c, std::uint32_t stag,
                                 std::uint64_t offset, std::vector<std::byte> data);
[[nodiscard]] Expectation places_nothing(std::string rule, ConnectionIndex c, std::uint32_t stag);
/// The Writes for `stag` stand before the COMPLETION of `id`.
[[nodiscard]] Expectation places_before_completing(std::string rule, ConnectionIndex c, std::uint32_t stag,
                                                   RequestId id);
[[nodiscard]] Expectation reads_nothing(std::string rule, ConnectionIndex c, std::uint32_t stag);
/// The Read Requests of the target for `stag` cover exactly [offset, offset + length).
[[nodiscard]] Expectation reads(std::string rule, ConnectionIndex c, std::uint32_t stag, std::uint64_t offset,
                                std::uint32_t length);
/// The last Read Response of the suite stands before the COMPLETION of `id`.
[[nodiscard]] Expectation completes_after_reading(std::string rule, ConnectionIndex c, RequestId id);
/// Never more than `limit` Read Requests of the target without their Read Response.
[[nodiscard]] Expectation keeps_reads_within(std::string rule, ConnectionIndex c, std::uint32_t limit);

// Set-up
// -----------------------------------------------------------------------------------------------------

struct ReplySpec {
  std::optional<bool> enhanced = {};
  std::uint8_t min_revision = 1;
  std::uint8_t max_revision = 255;
  std::optional<std::uint16_t> max_ord = {};
  std::optional<std::uint16_t> ird = {};
  std::optional<std::uint8_t> reserved = {};
  std::optional<bool> peer_to_peer = {};  ///< then with some kind of RTR
};
/// An accepting MPA Reply Frame.
[[nodiscard]] Expectation accepts(std::string rule, ConnectionIndex c, ReplySpec spec = {});
/// The target closes; `may_reject` tolerates a Reply with R set before (weak). No FPDU, no accepting Reply.
[[nodiscard]] Expectation closes_in_setup(std::string rule, ConnectionIndex c, bool may_reject = false);
/// A HELLO_ACK with this status came.
[[nodiscard]] Expectation refuses_session(std::string rule, ConnectionIndex c, wire::Status due);
/// A HELLO_ACK with SUCCESS came.
[[nodiscard]] Expectation opens_session(std::string rule, ConnectionIndex c);
/// The HELLO_ACK of `later` has the handle range of that of `earlier`, and `usage` blocks in use.
[[nodiscard]] Expectation keeps_range(std::string rule, ConnectionIndex earlier, ConnectionIndex later,
                                      std::uint32_t usage);
/// A HELLO_ACK with SUCCESS came, and the feature is not granted.
[[nodiscard]] Expectation withholds(std::string rule, ConnectionIndex c, wire::Feature feature);

// Errors
// -----------------------------------------------------------------------------------------------------

/// The stream ends with a Terminate out of `due`; one out of `tolerated`, or a close without any, is weak.
/// One out of `without` is how a target refuses what it does not support.
[[nodiscard]] Expectation terminates(std::string rule, ConnectionIndex c, const std::vector<Triple>& due,
                                     const std::vector<Triple>& tolerated = {},
                                     const std::vector<Triple>& without = {});
/// The Terminate carries this DDP header (M and D set), and this RDMAP header or none (R).
[[nodiscard]] Expectation copies_headers(
    std::string rule, ConnectionIndex c, const std::vector<std::byte>& ddp_header,
    const std::optional<std::vector<std::byte>>& read_header = std::nullopt);
/// One Terminate at most, with its reserved bits zero, and no FPDU behind it.
[[nodiscard]] Expectation falls_silent(std::string rule, ConnectionIndex c);
/// The first four octets of the Terminate are these, as they stand on the wire whatever the profile allows.
[[nodiscard]] Expectation terminates_with_octets(std::string rule, ConnectionIndex c, std::uint32_t octets);
/// The reserved bits of the target's Terminate are zero.
[[nodiscard]] Expectation keeps_terminate_reserved_zero(std::string rule, ConnectionIndex c);
/// The target ends the connection: FIN, RST, or a Terminate and then either (G-53). `plain` allows no
/// Terminate.
[[nodiscard]] Expectation disconnects(std::string rule, ConnectionIndex c, bool plain = false);
/// No FPDU of the target on this connection.
[[nodiscard]] Expectation sends_no_fpdu(std::string rule, ConnectionIndex c);
/// Exactly `count` Read Responses (tagged segments with L set) and no octet in them.
[[nodiscard]] Expectation answers_empty_reads(std::string rule, ConnectionIndex c, std::size_t count);
/// No Read Response holds `data`.
[[nodiscard]] Expectation reveals_nothing_of(std::string rule, ConnectionIndex c,
                                             const std::vector<std::byte>& data);
/// No Read Response and no Atomic Response.
[[nodiscard]] Expectation answers_no_read(std::string rule, ConnectionIndex c);
/// The stream is not ended by the target: no Terminate, no FIN, no RST before the suite's own.
[[nodiscard]] Expectation stays_open(std::string rule, ConnectionIndex c);

}  // namespace kbtp::conformance
