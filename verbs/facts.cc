#include "verbs/facts.h"

#include <algorithm>

namespace kbtp::verbs {

namespace {

// The soft iWARP driver of Linux: the vendor id is "bmt" in ASCII.
constexpr std::uint32_t kSiwVendor = 0x626d74;

constexpr bool speaks_ib(Wire wire) { return wire == Wire::roce || wire == Wire::infiniband; }

}  // namespace

const char* to_string(Wire wire) {
  switch (wire) {
    case Wire::iwarp:
      return "iWARP";
    case Wire::roce:
      return "RoCE";
    case Wire::infiniband:
      return "InfiniBand";
    case Wire::other:
      return "other";
  }
  return "other";
}

Quirks quirks_of(const DeviceFacts& facts) {
  Quirks quirks;
  if (facts.wire == Wire::iwarp && facts.vendor_id == kSiwVendor) {
    quirks.sends_stag_zero = true;
    quirks.revokes_untold = true;
    quirks.offset_is_address = true;
    quirks.wraps_private_data = true;
    quirks.swaps_depths = true;
    quirks.reads_without_right = true;
    quirks.blames_requests_for_ends = true;
  }
  return quirks;
}

std::uint32_t max_private_data(const DeviceFacts& facts) {
  switch (facts.wire) {
    case Wire::iwarp:
      return quirks_of(facts).wraps_private_data ? 251 : 252;
    case Wire::roce:
    case Wire::infiniband:
      return 56;
    case Wire::other:
      break;
  }
  return 0;
}

rdma::Capabilities capabilities_of(const DeviceFacts& facts) {
  const Quirks quirks = quirks_of(facts);
  const bool ib = speaks_ib(facts.wire);
  rdma::Capabilities c;
  c.invalidate_tx = facts.memory_management && !quirks.sends_stag_zero;
  // InfiniBand revokes windows of type 2 only, and a buffer is bound through one; iWARP revokes any STag of
  // the stream (RFC 5040 5.3). What nobody is told of is left for the upper layer to do by itself (G-12).
  c.invalidate_rx = ib ? facts.windows_of_type_2 : facts.memory_management && !quirks.revokes_untold;
  c.atomics = facts.atomics ? rdma::Atomics::plain : rdma::Atomics::none;
  c.atomic_scope = facts.atomics_with_cpu ? rdma::AtomicScope::cpu : rdma::AtomicScope::device;
  c.write_immediate = ib;
  c.ordered_write_visibility = ib;
  c.read_sink_needs_remote_write = facts.wire == Wire::iwarp;  // RFC 5040 8.1.1
  c.offset_is_address = quirks_of(facts).offset_is_address;
  c.max_private_data = max_private_data(facts);
  // struct rdma_conn_param has an octet for each.
  constexpr std::uint32_t kMostDepth = 255;
  c.ird = std::min(facts.ird, kMostDepth);
  c.ord = std::min(facts.ord, kMostDepth);
  c.inline_limit = facts.inline_limit;
  return c;
}

std::vector<Use> uses_of(const DeviceFacts& facts) {
  const rdma::Capabilities c = capabilities_of(facts);
  const Quirks quirks = quirks_of(facts);
  const bool ib = speaks_ib(facts.wire);
  if (facts.wire == Wire::other)
    return {{"operations", false, "no reliable connections with RDMA Read and Write"}};
  std::vector<Use> uses;
  const bool reads = c.ird > 0 && c.ord > 0;
  uses.push_back({"operations", reads,
                  reads ? "LOAD, STORE, ALLOC_STORE, FREE"
                        : "no depth for RDMA Reads: only LOAD, FREE and inline stores"});
  uses.push_back({"INVALIDATE sent", c.invalidate_tx,
                  c.invalidate_tx          ? ""
                  : quirks.sends_stag_zero ? "Send with Invalidate leaves with STag 0; a plain COMPLETION "
                                             "is sent, and the initiator revokes by itself"
                                           : "the driver has no memory management extensions"});
  uses.push_back({"INVALIDATE received", c.invalidate_rx,
                  c.invalidate_rx         ? (ib ? "through memory windows of type 2" : "")
                  : quirks.revokes_untold ? "the device revokes but does not tell which STag, so the "
                                            "initiator revokes by itself as well"
                  : ib                    ? "no memory windows of type 2"
                                          : "the driver has no memory management extensions"});
  uses.push_back({"DIRECT_LOAD", reads,
                  !reads ? "no depth for RDMA Reads"
                  : quirks.reads_without_right
                      ? "but mind that the device lets peers read any region of the session, rights or not"
                      : ""});
  if (!facts.atomics) {
    uses.push_back({"DIRECT_ALLOC", false, ib ? "no atomics" : "no atomics (RFC 7306)"});
  } else if (!ib) {
    uses.push_back({"DIRECT_ALLOC", false, "no masked FetchAdd, which KBTP 9.1 counts with (RFC 7306)"});
  } else {
    uses.push_back({"DIRECT_ALLOC", true,
                    facts.atomics_with_cpu
                        ? "plain FetchAdd (KBTP 9.2)"
                        : "plain FetchAdd (KBTP 9.2); the target counts through a loopback queue pair"});
  }
  uses.push_back({"RECORD_COMPLETION", ib,
                  ib ? "RDMA Write with Immediate (KBTP 9.2)"
                     : "RDMAP does not order what a Write shows (KBTP 6.5, 9.1)"});
  return uses;
}

}  // namespace kbtp::verbs
