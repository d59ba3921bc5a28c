// RFC 5040 (RDMAP) and RFC 7306 (its atomic operations and immediate data).

#include "conformance/catalogue.h"

namespace kbtp::conformance::tables {

namespace {

using enum Level;

constexpr Rule kRules[] = {
    {"RFC5040-4.1-06", must, "both", "RFC 5040 4.1",
     "The reserved bits of the RDMAP control octet are not looked at.",
     "A request travels in a Send with both reserved bits set.", "A Terminate, a close or no answer."},
    {"RFC5040-4.8-01", must, "sender", "RFC 5040 4.8",
     "A Terminate begins with its control field: layer and error type in the first octet, the code, then M, "
     "D and R "
     "in the high bits of the third.",
     "A Send on queue number 77; the answer is known to the bit.",
     "Anything but the octets 12 01 C0 00, such as 21 01 03 00 of a machine that laid out bit fields its own "
     "way."},
    {"RFC5040-4.8-04", must, "sender", "RFC 5040 4.8", "The thirteen reserved bits of a Terminate are zero.",
     "The Terminates that other stimuli provoke.", "A reserved bit set."},
    {"RFC5040-5.2.1-03", implied, "responder", "RFC 5040 5.2.1", "A bad Read Request is told as an error.",
     "A Read Request of no octets on queue 0.", "A Read Response."},
    {"RFC5040-5.2.1-09", must_not, "responder", "RFC 5040 5.2.1",
     "Source STag and Tagged Offset of a Read Request of no octets are not validated; it is answered with a "
     "Read Response of no octets.",
     "A Read Request of size 0 with a made-up source.", "A Terminate, a close or no Read Response."},
    {"RFC5040-5.4-03", must, "receiver", "RFC 5040 5.4",
     "A Terminate is delivered: the session is over and the connection is closed.",
     "The suite sends a Terminate.", "A connection that stays open, or a Terminate in return."},
    {"RFC5040-5.4-04", must_not, "sender", "RFC 5040 5.4", "Nothing is sent after a Terminate.",
     "An error frame, and behind it requests that would be answered.",
     "Any FPDU of the target after its Terminate."},
    {"RFC5040-7-01", must_not, "both", "RFC 5040 7", "An erroneous stream moves nothing any more.",
     "Behind the error frame come a good Send and a Read Request of no octets.",
     "A COMPLETION or a Read Response for them."},
    {"RFC5040-7.1-03", must, "receiver", "RFC 5040 7.1",
     "The Terminate for an incoming Send, Write or Read Response carries that message's DDP header and no "
     "RDMAP header.",
     "The header copy of the Terminate is compared with the octets that were sent.",
     "M or D clear, R set, or a copy of another header."},
    {"RFC5040-7.1-04", must, "receiver", "RFC 5040 7.1",
     "The Terminate for a delivered Read Request carries its DDP and RDMAP headers.",
     "Both copies are compared with the octets that were sent.", "D or R clear, or copies that differ."},
    {"RFC5040-7.1-05", must, "receiver", "RFC 5040 7.1",
     "The first message found wrong is the one that the Terminate tells of.",
     "Two bad segments back to back, a bad queue number and then a bad DDP version.",
     "Two Terminates, or one with the second segment's code or header."},
    {"RFC5040-7.2-02", must, "receiver", "RFC 5040 7.2", "The RDMAP opcode is checked.",
     "A segment with opcode 0xC.", "A Terminate other than 0/2/06, or an answer."},
    {"RFC5040-7.2-03", must, "receiver", "RFC 5040 7.2", "The RDMAP version is checked.",
     "A Send with RDMAP version 2.", "A Terminate other than 0/2/05, or an answer."},
    {"RFC5040-7.2-04", must, "receiver", "RFC 5040 7.2",
     "A Send with Invalidate names an STag that can be invalidated.",
     "A Send with Invalidate for an STag that the target never told.",
     "A Terminate other than 0/1/09 or 0/2/09 (0/1/00 is tolerated), or a COMPLETION with SUCCESS."},
    {"RFC5040-7.2-06", must, "responder", "RFC 5040 7.2", "The source STag of a Read Request is valid.",
     "A Read Request for an STag that the target never told.",
     "A Terminate other than 0/1/00, or a Read Response with octets."},
    {"RFC5040-7.2-11", implied, "responder", "RFC 5040 7.2", "Reading without the right to read is an error.",
     "A Read Request for the sink of a Read that the target itself has under way.",
     "A Read Response: memory that was opened for writing only is read. This is a security hole."},
    {"RFC7306-8.2-03", implied, "responder", "RFC 7306 8.2",
     "The STag of an Atomic Request is checked as that of a Read Request.",
     "A FetchAdd on an STag that the target never told.",
     "A Terminate other than 0/1/00 (0/2/06 where the extension is not supported), or an Atomic Response."},
};

}  // namespace

std::span<const Rule> rdmap() { return kRules; }

}  // namespace kbtp::conformance::tables
