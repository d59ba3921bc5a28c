// KBTP's rules that cases check. Ids follow the section that states the rule; G-nn are gaps of the draft for
// which this project has settled a behaviour (docs/draft-notes.md).

#include "conformance/catalogue.h"

namespace kbtp::conformance::tables {

namespace {

using enum Level;

constexpr Rule kRules[] = {
    {"KBTP-3.2-05", implied, "target", "3.2",
     "The Generation of a block table entry is never zero, bound or not; counting up from 0xFFFF lands on 1.",
     "One handle is allocated and freed 32,770 times, so that its Generation runs through the whole 16-bit "
     "range; every completion is looked at.",
     "A COMPLETION for a handle inside the range with Generation 0, usually right after one with 0xFFFF."},
    {"KBTP-3.4-05", implied, "target", "3.4",
     "One unit of quota comes back when a FREE completes (or an abandoned ticket is reclaimed).",
     "The session fills its quota, frees one handle and allocates again at once.",
     "NO_SPACE for an ALLOC_STORE that follows the COMPLETION of a FREE."},
    {"KBTP-3.4-14", implied, "target", "3.4",
     "An allocation beyond the initiator's Allocation Quota is completed with NO_SPACE.",
     "The session binds as many handles as its quota has units and asks for one more.",
     "SUCCESS for allocation quota + 1, another status, or no COMPLETION at all."},
    {"KBTP-5.1-01", implied, "both", "5.1",
     "The Version octet of every message is 1; a request with another version is answered with "
     "UNSUPPORTED_VERSION in a message of version 1.",
     "A LOAD with Version 2 is sent in an open session.",
     "SUCCESS, another status, silence, or an answer whose own Version is not 1."},
    {"KBTP-5.1-02", implied, "both", "5.1",
     "Opcodes are those of the opcode table; an unknown request opcode is refused and has no effect.",
     "A well-formed message with an unassigned opcode is sent in an open session.",
     "The message is ignored, carried out, or ends the session without an answer."},
    {"KBTP-5.1-03", implied, "target", "5.1",
     "The Request ID is chosen by the initiator and comes back unchanged, all 64 bits of it, in the one "
     "completion of the request.",
     "Requests carry random 64-bit ids, all ones and others that lose bits when truncated or swapped.",
     "A COMPLETION whose Request ID was never sent, or a request that gets none or two."},
    {"KBTP-5.1-04", implied, "target", "5.1",
     "A non-zero Generation in a request is the one that the initiator expects: when the entry has another "
     "one, the request is refused and changes nothing. Zero means any.",
     "LOAD, STORE and FREE are sent with a wrong Generation; then the block is loaded again and compared.",
     "SUCCESS although the Generation differs; the block overwritten or unbound."},
    {"KBTP-5.1-05", implied, "target", "5.1",
     "The Generation in a completion is the entry's own at that moment, after the operation.",
     "The completions of LOAD, STORE and a refused request are compared with the allocation's; the one of "
     "FREE must already show the next Generation.",
     "The request's Generation echoed, or the value from before the operation."},
    {"KBTP-5.1-07", implied, "both", "5.1",
     "Flags have a meaning per opcode; a bit that the opcode does not define is not silently accepted.",
     "A LOAD with the unassigned flag 0x8000, and one with SEAL, are sent.",
     "SUCCESS for a request with undefined flags."},
    {"KBTP-5.1-09", implied, "target", "5.1",
     "With SEAL the block is sealed once the store has completed: it can be loaded without ALLOW_UNSEALED "
     "and no longer stored to.",
     "ALLOC_STORE with SEAL, then a plain LOAD (must work) and a STORE (must be refused).",
     "NOT_SEALED for the LOAD, or SUCCESS for the STORE."},
    {"KBTP-5.1-11", implied, "target", "5.1",
     "INVALIDATE asks for the completion as Send with Invalidate that names the STag of the request's Data "
     "Descriptor; without the flag the completion invalidates nothing.",
     "One LOAD with INVALIDATE and one without; the RDMAP opcode and Invalidate STag of both completions are "
     "read from the trace.",
     "A plain Send (opcode 3 or 5) although INVALIDATE was set, another STag, or an invalidation that "
     "nobody asked for."},
    {"KBTP-5.1-12", implied, "target", "5.1", "ALLOW_UNSEALED lets a LOAD return a block that is not sealed.",
     "An unsealed block is loaded with the flag.", "NOT_SEALED although the flag is set."},
    {"KBTP-5.2-03", implied, "target", "5.2",
     "For a store without INLINE the target reads the data with RDMA Read from the Data Descriptor, and "
     "nothing outside it.",
     "The Read Requests of a store are summed up: STag, first Tagged Offset and octets must be the "
     "descriptor's.",
     "A Read Request for another STag, or for octets before or behind the described buffer."},
    {"KBTP-6.1-01", must, "target", "6.1", "A block can be loaded only while its entry is VALID.",
     "A LOAD of a handle that was never bound, and of one that was freed.",
     "SUCCESS, or an RDMA Write into the descriptor's buffer."},
    {"KBTP-6.1-02", must, "target", "6.1", "Without ALLOW_UNSEALED only a SEALED block can be loaded.",
     "A LOAD without the flag of a block that was stored without SEAL.",
     "SUCCESS, or an RDMA Write of the unsealed data."},
    {"KBTP-6.1-03", implied, "target", "6.1",
     "A LOAD writes exactly Data Length octets of the block, starting at the descriptor's Tagged Offset.",
     "The descriptor is longer than the data. All RDMA Writes of the target are put together and compared "
     "octet by octet; those behind Data Length must not be touched.",
     "Writes that cover the descriptor's Length or the whole Block Size, or miss octets."},
    {"KBTP-6.1-04", must_not, "target", "6.1",
     "A block whose Data Length exceeds the descriptor's Length is not loaded.",
     "A LOAD whose descriptor is one octet too short; the session must go on.",
     "A truncated RDMA Write with SUCCESS, or a Write beyond the descriptor."},
    {"KBTP-6.1-05", implied, "target", "6.1",
     "The completion of a LOAD has the entry's Block Offset, Data Length and Generation.",
     "The completion is compared with that of the allocation of the same handle.",
     "Fields that are zero or differ from the allocation's."},
    {"KBTP-6.1-06", implied, "target", "6.1",
     "The RDMA Writes of a LOAD stand before its COMPLETION in the stream.",
     "The order of FPDUs in the trace.", "A Write FPDU for the descriptor's STag after the COMPLETION."},
    {"KBTP-6.2-01", must, "target", "6.2", "A STORE needs a VALID entry.",
     "A STORE without INLINE to a handle that was never bound.",
     "SUCCESS (the target allocates by itself), or a Read Request for the data of a store that must fail."},
    {"KBTP-6.2-02", must, "target", "6.2", "A STORE to a SEALED block is refused.",
     "A sealed block is stored to; a LOAD afterwards must return the first data.",
     "SUCCESS, or changed data in the LOAD that follows."},
    {"KBTP-6.2-03", must, "target", "6.2", "A STORE is allowed only in the initiator's own handle range.",
     "A second session stores to a handle of the first one; the first one loads it and compares.",
     "SUCCESS for the second session, or changed data for the first."},
    {"KBTP-6.2-04", implied, "target", "6.2",
     "A STORE puts the data, inline or read with RDMA Read, into the block.",
     "Data is stored both ways and loaded again.", "A LOAD that returns other octets."},
    {"KBTP-6.2-05", implied, "target", "6.2", "A STORE replaces Data Length and, with SEAL, sets SEALED.",
     "A shorter STORE with SEAL over a longer block; the LOAD must return the short length.",
     "The larger of both lengths is kept; the block is not sealed."},
    {"KBTP-6.2-06", implied, "target", "6.2", "A STORE completes after its data has been taken.",
     "The suite holds the Read Response back for a moment: the COMPLETION must not come before it.",
     "A COMPLETION in the trace before the last Read Response segment."},
    {"KBTP-6.3-01", must, "target", "6.3", "An ALLOC_STORE is allowed only in the initiator's own range.",
     "An ALLOC_STORE for a handle of another session's range.", "SUCCESS."},
    {"KBTP-6.3-02", must_not, "target", "6.3", "An ALLOC_STORE of a handle that is already bound is refused.",
     "Two ALLOC_STOREs of one handle; a LOAD afterwards must return the first data.",
     "SUCCESS for the second, a new Block Offset, or the second data."},
    {"KBTP-6.3-05", implied, "target", "6.3",
     "Binding a handle increments its Generation by one, skipping zero.",
     "The Generation in the completion of ALLOC_STORE is compared with the one that the unbound entry showed "
     "before.",
     "An unchanged or arbitrary Generation."},
    {"KBTP-6.3-06", implied, "target", "6.3",
     "The completion of ALLOC_STORE carries the Block Offset and the new Generation.",
     "Two allocations: their Block Offsets must differ and be no all-ones value.",
     "Zeroes, all ones, or one Block Offset for two handles."},
    {"KBTP-6.4-01", must, "target", "6.4", "FREE needs a VALID handle in the initiator's own range.",
     "A handle is freed twice, and a second session tries to free a handle of the first.",
     "SUCCESS for the second FREE or for the foreign one."},
    {"KBTP-6.4-02", implied, "target", "6.4",
     "FREE clears VALID and SEALED and increments the Generation, skipping zero.",
     "The Generation in the completion of FREE is compared with the one before; a LOAD must be refused.",
     "An unchanged Generation, or a handle that can still be loaded."},
    {"KBTP-6.5-01", implied, "target", "6.5", "A request is completed with a COMPLETION message.",
     "Each request of a session gets exactly one.", "No COMPLETION, two of them, or another message."},
    {"KBTP-6.5-02", implied, "target", "6.5", "When the completion is delivered the loaded data is in place.",
     "A LOAD of 30,000 octets whose completion is a record: its Writes stand in front of it (of a COMPLETION "
     "see KBTP-6.1-06).",
     "Data that is not complete yet."},
    {"KBTP-6.5-03", implied, "target", "6.5",
     "Where RECORD_COMPLETION is granted, a request with RECORD is completed by a record of 24 octets at its "
     "Completion Descriptor and nothing else.",
     "Over RoCE: requests of several kinds with RECORD, good ones and such that are refused.",
     "A record and a COMPLETION, neither, or a record in another place."},
    {"KBTP-6.5-04", implied, "target", "6.5",
     "A record is Request ID, Status, Generation, Data Length and Block Offset.",
     "Over RoCE: the record of a LOAD, compared with the COMPLETION of the ALLOC_STORE before it.",
     "Another layout, or fields of another request."},
    {"KBTP-6.5-05", must, "target", "6.5, 9.1",
     "Completion records are for bindings with ordered visibility of Writes; on RDMAP a request with RECORD "
     "still gets a COMPLETION message and nothing is written to its Completion Descriptor.",
     "A LOAD with RECORD and a Completion Descriptor.",
     "An RDMA Write that names the Completion Descriptor's STag."},
    {"KBTP-6.5-06", must_not, "target", "6.5", "RECORD_COMPLETION is not advertised in the RDMAP binding.",
     "A HELLO that asks for every feature; the granted features in HELLO_ACK are read.",
     "Feature bit 0x0001 set in HELLO_ACK."},
    {"KBTP-9.2-03", must, "target", "9.2",
     "Completion records over InfiniBand and RoCE go by RDMA Write with Immediate.",
     "The packets of a record over RoCE.", "A plain RDMA Write."},
    {"G-05", implied, "target", "4 (not in the excerpt)",
     "The first message of a session is a well-formed HELLO; anything else, and a second HELLO, ends the "
     "connection without an answer.",
     "A session that begins with a LOAD.", "A COMPLETION or a HELLO_ACK, or a connection that stays open."},
    {"G-38", implied, "target", "5.1",
     "A message shorter than the common header cannot be answered: the target disconnects.",
     "A Send of 23 octets in an open session.", "An answer, or a session that goes on."},
    {"G-09", implied, "target", "5.2",
     "A request has exactly the length that its form asks for; trailing or missing octets are "
     "INVALID_REQUEST and change nothing.",
     "An inline store whose Length says more than follows, and a LOAD with one octet too many.",
     "SUCCESS, or data that was made up for the missing octets."},
    {"G-11", implied, "target", "5.1, 9.2 (gap)",
     "RECORD and INVALIDATE exclude each other, for a Write with Immediate invalidates nothing: "
     "INVALID_REQUEST.",
     "Over RoCE: a LOAD with both.", "SUCCESS, or an RDMA Write to the request's buffer."},
    {"G-42", should, "target", "9.2 (gap)",
     "The Immediate Data of a completion record is the low half of the Request ID; an initiator goes by the "
     "record.",
     "The packets of a record over RoCE.", "Another value."},
    {"G-25", implied, "target", "3.4, 6 (gap)",
     "A handle of another trust domain, or of no range at all, is invisible: NO_SUCH_HANDLE with all fields "
     "zero.",
     "A LOAD far outside every range that HELLO_ACK told.",
     "Data of the other domain, or a status that tells whether the handle exists."},
    {"G-24", implied, "target", "3.4, 4 (gap)",
     "An initiator with a configured identity keeps its handles, blocks and usage when it disconnects, and "
     "finds them "
     "again with its next HELLO; meanwhile nobody else may change them.",
     "A named initiator binds a block and disconnects; another one tries to free it; the first returns and "
     "loads it.",
     "HELLO_ACK with another range or Usage 0, a block that is gone, or SUCCESS for the stranger."},
    {"G-51", implied, "target", "3.4, 4 (gap)",
     "An identity counts only when the target knows it and something proves it; the initiator's word is not "
     "enough.",
     "A HELLO with an identity whose proof, an address, is not the suite's.",
     "HELLO_ACK with SUCCESS: whoever knows a UUID gets another initiator's blocks."},
    {"G-52", implied, "target", "6.2 (gap), RFC 5042 6.2.2",
     "The buffer that the target names as the sink of its RDMA Read takes the matching Read Response only.",
     "While a Read Request of the target is open, an RDMA Write is sent to its sink STag; the block must not "
     "show it.",
     "The Write is accepted (no Terminate), or its octets appear in the block."},
};

}  // namespace

std::span<const Rule> kbtp() { return kRules; }

}  // namespace kbtp::conformance::tables
