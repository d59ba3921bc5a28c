// RFC 5041 (DDP).

#include "conformance/catalogue.h"

namespace kbtp::conformance::tables {

namespace {

using enum Level;

constexpr Rule kRules[] = {
    {"RFC5041-4.1-05", must, "both", "RFC 5041 4.1",
     "The reserved bits of the DDP control octet are not looked at.",
     "A request travels in a segment with all four reserved bits set.", "A Terminate, a close or no answer."},
    {"RFC5041-4.1-06", must, "both", "RFC 5041 4.1, 7.2",
     "The DDP version is 1 in every segment; another one is an error of the tagged or untagged kind.",
     "An untagged segment with version 2, and a tagged one with version 0.",
     "A Terminate other than 1/2/06 (untagged) or 1/1/04 (tagged), or an answer."},
    {"RFC5041-4.3-05", must, "both", "RFC 5041 4.3",
     "Message sequence numbers of a queue begin with 1 and go up by one.",
     "A Send that repeats the sequence number of the one before.",
     "The message is delivered a second time (a second COMPLETION)."},
    {"RFC5041-5.2-09", must_not, "receiver", "RFC 5041 5.2",
     "STag and Tagged Offset of a tagged message without payload are not checked.",
     "An RDMA Write of no octets with a made-up STag.", "A Terminate or a close."},
    {"RFC5041-7.1-01", must, "receiver", "RFC 5041 7.1",
     "The queue number of an untagged segment is checked.", "A Send on queue number 77.",
     "A Terminate other than 1/2/01, or an answer."},
    {"RFC5041-7.1-03", must, "receiver", "RFC 5041 7.1",
     "The message offset of an untagged segment lies in the buffer.",
     "The next Send comes with a message offset of a megabyte.",
     "A Terminate other than 1/2/04 (1/2/05 is tolerated), or an answer."},
    {"RFC5041-7.1-04", must, "receiver", "RFC 5041 7.1",
     "Message offset and payload length together fit the buffer.",
     "A Send that is larger than anything HELLO_ACK allows.", "A Terminate other than 1/2/05."},
    {"RFC5041-7.1-05", must, "receiver", "RFC 5041 7.1",
     "The message sequence number of an untagged segment lies in the range of posted buffers.",
     "A Send whose sequence number is 100,000 too high.",
     "A Terminate other than 1/2/03 (1/2/02 is tolerated), or an answer."},
    {"RFC5041-7.1-06", must, "receiver", "RFC 5041 7.1", "The STag of a tagged segment is valid.",
     "An RDMA Write of sixteen octets to an STag that the target never told.",
     "A Terminate other than 1/1/00, or none while the stream goes on."},
    {"RFC5041-7.1-09", must, "receiver", "RFC 5041 7.1",
     "Tagged Offset and payload length together stay inside the buffer.",
     "A Read of the target is answered with a Read Response that ends one octet behind the sink.",
     "A Terminate other than 1/1/01, or a store that succeeds."},
    {"RFC5041-7.1-10", must, "receiver", "RFC 5041 7.1", "Tagged Offset and payload length do not wrap.",
     "A Read of the target is answered with a Read Response at Tagged Offset 2^64 - 4.",
     "A Terminate other than 1/1/03 (1/1/01 is tolerated), or a store that succeeds."},
    {"RFC5041-7.1-13", must, "receiver", "RFC 5041 7.1",
     "After an error later segments of the stream are silently dropped.",
     "Behind the Write to an unknown STag comes a good request.", "A COMPLETION for that request."},
};

}  // namespace

std::span<const Rule> ddp() { return kRules; }

}  // namespace kbtp::conformance::tables
