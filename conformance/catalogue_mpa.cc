// RFC 5044 (MPA) and RFC 6581 (enhanced connection set-up).

#include "conformance/catalogue.h"

namespace kbtp::conformance::tables {

namespace {

using enum Level;

constexpr Rule kRules[] = {
    {"RFC5044-3-06", must, "receiver", "RFC 5044 3",
     "A ULPDU goes up only once it is valid, and its length with it: nothing of an FPDU is placed before its "
     "CRC is "
     "checked.",
     "A store to a bound block is answered with a Read Response whose CRC is wrong; a later session loads "
     "the block.",
     "An octet of that Read Response in the block."},
    {"RFC5044-4.1-03", must, "receiver", "RFC 5044 4.1",
     "What the pad octets of an FPDU hold is of no account, apart from their part in the CRC.",
     "A request travels in an FPDU whose pad octets are 0xA5, with the CRC that fits.",
     "A Terminate, a close or no answer."},
    {"RFC5044-4.3-01", must, "sender", "RFC 5044 4.3",
     "A sender puts in markers when its receiver has asked for them.",
     "A Request with M set, then a HELLO; the target's octets are read with their markers.",
     "A rejecting Reply, a close, or a stream without markers."},
    {"RFC5044-4.4-11", must, "receiver", "RFC 5044 4.4",
     "The receiver computes the CRC over each FPDU and takes one whose CRC differs as invalid.",
     "After good FPDUs one travels with a flipped payload bit; it carries a request that would be answered.",
     "The request is answered, or the Terminate names anything but MPA / CRC error (2/0/02)."},
    {"RFC5044-5.1-03", must, "receiver", "RFC 5044 5.1",
     "The receiver works when FPDUs and TCP segments do not coincide.",
     "The set-up frame and a request are sent one octet a TCP segment, then many FPDUs in one segment.",
     "No answer, a close, or answers to some of the requests only."},
    {"RFC5044-7.1.1-02", must, "responder", "RFC 5044 7.1.1",
     "A set-up frame whose key is not that of a Request Frame ends the connection.",
     "Requests whose key has its first, tenth or last octet changed.",
     "An MPA Reply Frame, a Terminate, or a connection that stays open."},
    {"RFC5044-7.1.1-10", implied, "responder", "RFC 5044 7.1.1", "The R bit of a Request is not looked at.",
     "A Request with R set.", "A close or a rejecting Reply instead of an accepting one."},
    {"RFC5044-7.1.1-11", must, "both", "RFC 5044 7.1.1, RFC 6581 6",
     "The reserved bits of a set-up frame are not looked at.", "A Request with all four reserved bits set.",
     "A close or a rejecting Reply instead of an accepting one."},
    {"RFC5044-7.1.1-13", must, "receiver", "RFC 5044 7.1.1",
     "The revision is looked at; a peer of a revision that one cannot work with is dropped.",
     "A Request of revision 255.", "An accepting Reply."},
    {"RFC5044-7.1.1-15", must, "receiver", "RFC 5044 7.1.1",
     "A Private Data Length above 512, or one that the frame does not fill, ends the connection.",
     "Requests with lengths 513 and 65535, and one that ends too early with a FIN.",
     "A Reply Frame, or waiting for 65,535 octets."},
    {"RFC5044-7.1.2-03", must, "responder", "RFC 5044 7.1.2",
     "A malformed Request makes the responder close.", "Nineteen octets of a Request, then FIN.",
     "A Reply, or a connection that stays half open."},
    {"RFC5044-7.1.2-11", must, "responder", "RFC 5044 7.1.2",
     "The responder sends no FPDU before it has received a valid one. So a bad first FPDU can only be "
     "answered "
     "by a plain close.",
     "The very first FPDU has a wrong CRC.", "Any FPDU of the target: a Terminate here breaks the rule."},
    {"RFC5044-7.1.2-17", must, "receiver", "RFC 5044 7.1.2",
     "All legal lengths of Private Data are accepted, up to 512 octets.",
     "A Request with 512 octets of Private Data that mean nothing to KBTP.", "A close or a rejecting Reply."},
    {"RFC5044-7.1.5-02", must, "both", "RFC 5044 7.1.5",
     "TCP's own rules hold across the change from set-up to full operation: no octet is lost or left lying.",
     "Two FPDUs in one segment follow the Reply at once, many times over.",
     "A HELLO without an answer on a connection that stays open."},
    {"RFC5044-8-06", must_not, "receiver", "RFC 5044 8",
     "After an error no later FPDU of that direction is delivered.",
     "Behind the FPDU with the wrong CRC comes a good request.", "A COMPLETION for that request."},
    {"RFC6581-6-03", must, "responder", "RFC 6581 6, 10",
     "Requests of revision 1 are still accepted and answered without the enhanced fields.",
     "A Request of revision 1.", "A close, a rejecting Reply, or the S bit in the Reply."},
    {"RFC6581-6-04", must, "both", "RFC 6581 6",
     "With S set the Private Data begins with the four enhanced octets.",
     "A Request with S set and three octets of Private Data.",
     "An accepting Reply, as if the fields were there."},
    {"RFC6581-6-05", must, "both", "RFC 6581 6", "The four reserved bits are sent as zero and not looked at.",
     "A Request with all four set.", "A Reply with one of them set."},
    {"RFC6581-9.1-03", must, "responder", "RFC 6581 9.1",
     "The responder's ORD is at most the initiator's IRD, and never more Reads than that are outstanding.",
     "A Request with IRD 1; then several stores without INLINE at once, whose Read Responses are held back.",
     "A Reply with an ORD above 1, or a second Read Request before the first is answered."},
    {"RFC6581-9.1-10", must, "responder", "RFC 6581 9.1",
     "To an ORD of 0x3FFF a responder keeps its IRD as it is and answers IRD 0x3FFF.",
     "A Request whose ORD is 0x3FFF.", "A Reply with another IRD."},
    {"RFC6581-9.2-04", must, "responder", "RFC 6581 9.2", "A peer-to-peer Request gets a peer-to-peer Reply.",
     "A Request with A and all kinds of RTR set; the RTR that the Reply names; a HELLO.",
     "A Reply with A clear or without a kind of RTR, or a session that does not open."},
    {"RFC6581-10-01", must, "responder", "RFC 6581 10",
     "An enhanced Request gets an enhanced Reply of revision 2 or later.",
     "A Request of revision 2 with S set, IRD and ORD 8.", "A Reply without S, or of revision 1."},
};

}  // namespace

std::span<const Rule> mpa() { return kRules; }

}  // namespace kbtp::conformance::tables
