// KBTP 5, 6 and 9: what remains of messages, operations, direct modes and bindings beside the rules that
// cases check now (catalogue_kbtp.cc).

#include "conformance/catalogue.h"

namespace kbtp::conformance::tables {

namespace {

using enum Level;

constexpr Rule kRules[] = {
    {"KBTP-5.1-06", implied, "initiator", "5.1", "Status is zero in requests.",
     "Requests of a trace; a target ignores it.", "A request with another Status."},
    {"KBTP-5.1-08", implied, "both", "5.1",
     "INLINE says that the data follows the request in the same message.", "See KBTP-6.2-04.",
     "Data in a Send of its own."},
    {"KBTP-5.1-10", implied, "both", "5.1",
     "RECORD says that a Completion Descriptor is there and a record is wanted.",
     "Lengths of messages of a trace; see KBTP-6.5-05.",
     "The flag without the descriptor, or the other way round."},
    {"KBTP-5.2-01", implied, "both", "5.2", "A Data Descriptor is STag, Tagged Offset and Length, 16 octets.",
     "Requests of a trace.", "Padding between the fields."},
    {"KBTP-5.2-02", implied, "target", "5.2", "For LOAD the descriptor is where the RDMA Write goes.",
     "STag and Tagged Offset of the Writes (see KBTP-6.1-03).", "Another STag or offset."},
    {"KBTP-5.2-04", implied, "initiator", "5.2",
     "With INLINE the descriptor's STag and Tagged Offset are zero and Length is that of the data that "
     "follows.",
     "Requests of a trace; the judge reports, a target accepts (P-12).",
     "A Length that differs from what follows."},
    {"KBTP-5.2-05", implied, "both", "5.2",
     "A Completion Descriptor is STag, Tagged Offset and 32 reserved bits.", "Over RoCE.", "Another layout."},
    {"KBTP-6.3-03", implied, "target", "6.3",
     "The block comes from the ring, and its slot is marked consumed.",
     "White-box, or with DIRECT_ALLOC by reading the ring.", "A slot that stays full."},
    {"KBTP-6.3-04", implied, "target", "6.3", "The data is in the block before the entry shows VALID.",
     "With DIRECT_LOAD: the entry is polled, and with VALID the block must be complete.",
     "VALID before the data."},
    {"KBTP-6.4-03", implied, "target", "6.4",
     "The block returns to the ring it came from, after the entry update is visible.",
     "With DIRECT_ALLOC: the blocks of each initiator stay the same set.",
     "A block that wanders to another partition."},
    {"KBTP-6.4-04", implied, "target", "6.4", "FREE is completed.", "See KBTP-6.4-02.", "No COMPLETION."},
    {"KBTP-6.4-05", implied, "initiator", "6.4",
     "Who loads while the block is freed notices by the changed Generation.", "White-box, at the initiator.",
     "Stale data taken for good."},
    {"KBTP-6.4-06", implied, "target", "6.4",
     "A block that may go to another trust domain is cleared before it returns to the ring.",
     "With DIRECT_LOAD: the old Block Offset is read after the FREE; white-box until then.",
     "Another tenant's octets."},
    {"KBTP-6.6-01", may, "target", "6.6", "The direct modes are optional.", "Features of HELLO_ACK.", "-"},
    {"KBTP-6.6-02", must, "target", "6.6",
     "Direct modes are offered only to initiators that are trusted with every block behind the exposed "
     "STags.",
     "A HELLO of an untrusted identity: bits clear, STags zero.", "Feature bits for everybody."},
    {"KBTP-6.6-03", implied, "target", "6.6", "Table and Pool STags can be read only.",
     "With DIRECT_LOAD: Writes and Atomics to them must end in a Terminate.", "They are taken."},
    {"KBTP-6.6-04", implied, "initiator", "6.6",
     "Entry, block and entry are read one strictly after the other.",
     "Read Requests and Responses of a trace.", "Reads that overlap."},
    {"KBTP-6.6-05", implied, "initiator", "6.6",
     "A direct load counts only if both entry reads agree (all 16 octets, E-2) with VALID and SEALED set.",
     "White-box, at the initiator.", "Data taken although the entry changed."},
    {"KBTP-6.6-06", implied, "target", "6.6",
     "A sealed block does not change until it is freed; the free changes the Generation.",
     "STORE after SEAL (see KBTP-6.2-02).", "Changed octets under the same Generation."},
    {"KBTP-6.6-07", implied, "initiator", "6.6",
     "A direct allocation begins with a FetchAdd on the own Head.", "A trace.",
     "A slot used without a ticket."},
    {"KBTP-6.6-08", implied, "initiator", "6.6",
     "The slot is read until it matches, and once more to confirm.",
     "A trace: two equal slot reads before the first Write.", "One read."},
    {"KBTP-6.6-09", implied, "initiator", "6.6",
     "The data is written first, then BIND is sent on the same stream.", "A trace.",
     "BIND before the Write."},
    {"KBTP-6.6-10", implied, "target", "6.6",
     "BIND is checked: the ticket is not abandoned, its slot holds that Block Offset, the quota allows it "
     "(and E-9).",
     "BIND with a foreign offset, a future ticket, a used one.", "An arbitrary block is bound."},
    {"KBTP-6.6-11", implied, "target", "6.6",
     "A good BIND consumes the slot, writes the entry and completes.", "With both direct modes.",
     "A slot that stays full, or no COMPLETION."},
    {"KBTP-6.6-12", implied, "initiator", "6.6", "The initiator never writes ring slots.",
     "A trace; a Write to the Ring STag must end in a Terminate.", "A Write to the ring."},
    {"KBTP-6.6-13", implied, "initiator", "6.6", "Blocks are always freed by FREE.", "A trace.",
     "Another way."},
    {"KBTP-9.1-01", implied, "binding", "9.1", "KBTP runs over an RDMAP Stream on DDP on MPA.", "A trace.",
     "Another stack."},
    {"KBTP-9.1-02", should, "both", "9.1", "Peers use the enhanced connection establishment of RFC 6581.",
     "Start-up frames of a trace (see RFC6581-10-01).", "Revision 1 although both sides know better."},
    {"KBTP-9.1-03", must, "target", "9.1",
     "A target that advertises DIRECT_ALLOC, or allocates in its RDMA interface, supports the atomics of RFC "
     "7306.",
     "Where DIRECT_ALLOC is granted: a FetchAdd of 0 on Head.", "Terminate 0/2/06."},
    {"KBTP-9.1-04", implied, "both", "9.1",
     "Messages travel in Send or Send with Solicited Event; INVALIDATE uses Send with Invalidate.",
     "Opcodes of a trace.", "Signalling by Write."},
    {"KBTP-9.1-05", implied, "target", "9.1",
     "Loads use RDMA Write, stores without INLINE use RDMA Read by the target.",
     "Opcodes of a trace (see KBTP-6.1-03, KBTP-5.2-03).", "Data in Sends."},
    {"KBTP-9.1-06", implied, "binding", "9.1", "Ring counters use FetchAdd with the Add Mask of 3.3.",
     "Atomic Requests of a trace.", "An unmasked add over iWARP."},
    {"KBTP-9.1-07", implied, "target", "9.1", "Completions are always COMPLETION messages.",
     "See KBTP-6.5-05.", "A record."},
    {"KBTP-9.1-08", must, "binding", "9.1",
     "Over a network that is not trusted IPsec is used as RFC 5042 says.",
     "A trace under the secure profile: nothing but ESP between the peers.", "MPA in clear."},
    {"KBTP-9.2-01", implied, "binding", "9.2",
     "Over InfiniBand and RoCEv2 the same messages use Send, RDMA Write and RDMA Read.", "A RoCE trace.",
     "Another mapping."},
    {"KBTP-9.2-02", implied, "binding", "9.2",
     "With an unmasked FetchAdd the counter has the Ticket in its high half and zero below; the slot is "
     "ticket mod N.",
     "A RoCE trace; DIRECT_ALLOC over RoCE.", "A Slot Offset where there is none."},
};

}  // namespace

std::span<const Rule> kbtp_rest() { return kRules; }

}  // namespace kbtp::conformance::tables
