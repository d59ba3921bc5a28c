// Every code of a Terminate (rdmap_binding/terminate_code.h): what provokes it, with its header copies octet
// by octet; or why this RNIC never sends it. One row for each thing that provokes a code.

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "base/hex.h"
#include "rdmap_binding/rnic/engine_target_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::CloseReason;

/// What a row shows of the offending message.
enum class Copy : std::uint8_t {
  none,         // M, D and R clear
  header,       // M and D: segment length and DDP header
  header_read,  // and R: the RDMAP header of a Read Request
};

/// Octets to feed, and the segment that the Terminate is about.
struct Stimulus {
  std::vector<std::byte> octets;
  std::vector<std::byte> offender;
  std::size_t answers = 0;  // to legal requests in front of it
};

Stimulus ulpdu(const std::vector<std::byte>& segment) { return {mpa::encode_fpdu(segment), segment}; }
Stimulus behind(const std::vector<std::vector<std::byte>>& good, const std::vector<std::byte>& bad,
                std::size_t answers = 0) {
  Stimulus s{{}, bad, answers};
  for (const auto& segment : good) s.octets = joined({s.octets, mpa::encode_fpdu(segment)});
  s.octets = joined({s.octets, mpa::encode_fpdu(bad)});
  return s;
}

struct Row {
  const char* name;
  TerminateCode code;
  Copy copy;
  std::function<Stimulus(MemoryTarget&)> stimulus;
};

constexpr std::uint64_t kEnd = kBase + 8192;  // behind the memory
constexpr std::uint64_t kTop = ~std::uint64_t{0};

Untagged send(std::uint32_t msn = 2, std::size_t size = 8) { return {.msn = msn, .body = pattern(size)}; }
Tagged write(rdma::STag stag, std::uint64_t to = kBase, std::size_t size = 8) {
  return {.stag = stag, .to = to, .body = pattern(size)};
}
Tagged response(rdma::STag stag, std::uint64_t to, std::size_t size, std::uint8_t ddp_control = 0xC1) {
  return {.ddp_control = ddp_control, .rdmap_control = 0x42, .stag = stag, .to = to, .body = pattern(size)};
}
rdmap::AtomicRequest atomic(rdma::STag stag, std::uint64_t to,
                            rdmap::AtomicOpcode operation = rdmap::AtomicOpcode::fetch_add) {
  return {operation, 42, stag, to, 1, 0};
}
Untagged atomic_response(std::uint32_t identifier, std::uint32_t msn = 1) {
  const auto body = rdmap::encode(rdmap::AtomicResponse{identifier, 9});
  return {.rdmap_control = 0x4B, .qn = 3, .msn = msn, .body = to_vector(body)};
}
Untagged invalidate(rdma::STag stag, std::uint8_t rdmap_control = 0x44) {
  return {.rdmap_control = rdmap_control, .invalidate = stag, .msn = 2, .body = pattern(8)};
}
Untagged terminating(std::vector<std::byte> body, std::uint32_t msn = 1) {
  return {.rdmap_control = 0x47, .qn = 2, .msn = msn, .body = std::move(body)};
}
template <class H>
H resized(H message, std::size_t size) {
  message.body.resize(size);
  return message;
}

/// The target reads 80 octets from its peer; its Read Request.
rdmap::ReadRequest reads(MemoryTarget& t) {
  static std::vector<std::byte> sink(80);
  t.stream().post({rdma::Read{1, sink, {0x99, 0}}});
  const auto out = t.target.drained();
  return rdmap::decode_read_request(Octets(out.at(0)).subspan(18).first<28>());
}
/// The target does an Atomic at its peer; its Request Identifier.
std::uint32_t adds(MemoryTarget& t) {
  t.stream().post({rdma::FetchAdd{1, {0x99, 0}, 1, 0}});
  const auto out = t.target.drained();
  return rdmap::decode_atomic_request(Octets(out.at(0)).subspan(18).first<52>()).request_identifier;
}

std::vector<Row> rows() {
  using namespace terminate;
  using rdmap::AtomicOpcode;
  std::vector<Row> all;
  const auto add = [&all](const char* name, TerminateCode code, Copy copy, auto stimulus) {
    all.push_back({name, code, copy, stimulus});
  };
  using T = MemoryTarget;

  // --- LLP ---
  add("CrcError", kMpaCrcError, Copy::none, [](T&) {
    auto s = ulpdu(send().ulpdu());
    s.octets.back() ^= std::byte{1};
    return s;
  });
  add("LengthAboveTheLargestUlpdu", kMpaMarkerMismatch, Copy::none,
      [](T&) { return Stimulus{to_vector(mpa::encode_length(0xFD01)), {}}; });

  // --- DDP, tagged ---
  add("WriteUnknownStag", kDdpTaggedInvalidStag, Copy::header,
      [](T&) { return ulpdu(write(0x12345678).ulpdu()); });
  add("WriteStagZero", kDdpTaggedInvalidStag, Copy::header, [](T&) { return ulpdu(write(0).ulpdu()); });
  add("WriteWithoutTheRight", kDdpTaggedInvalidStag, Copy::header,
      [](T& t) { return ulpdu(write(t.readable).ulpdu()); });
  add("WriteToWords", kDdpTaggedInvalidStag, Copy::header,
      [](T& t) { return ulpdu(write(t.counters, 0).ulpdu()); });
  add("WriteRevokedStag", kDdpTaggedInvalidStag, Copy::header, [](T& t) {
    t.stream().revoke(t.writable);
    return ulpdu(write(t.writable).ulpdu());
  });
  add("WriteIntoTheSinkOfARead", kDdpTaggedInvalidStag, Copy::header,
      [](T& t) { return ulpdu(write(reads(t).sink_stag, 0).ulpdu()); });
  add("ResponseUnknownStag", kDdpTaggedInvalidStag, Copy::header,
      [](T&) { return ulpdu(response(0x1234, 0, 8).ulpdu()); });
  add("WriteBelowTheBase", kDdpTaggedBaseOrBounds, Copy::header,
      [](T& t) { return ulpdu(write(t.writable, kBase - 1).ulpdu()); });
  add("WriteOneOctetBeyond", kDdpTaggedBaseOrBounds, Copy::header,
      [](T& t) { return ulpdu(write(t.writable, kEnd - 7).ulpdu()); });
  add("WriteBehindTheEnd", kDdpTaggedBaseOrBounds, Copy::header,
      [](T& t) { return ulpdu(write(t.writable, kEnd, 1).ulpdu()); });
  add("ResponseBeyondTheSink", kDdpTaggedBaseOrBounds, Copy::header, [](T& t) {
    const auto request = reads(t);
    return ulpdu(response(request.sink_stag, request.sink_to, 81).ulpdu());
  });
  add("ResponseAtAnotherOffset", kDdpTaggedBaseOrBounds, Copy::header, [](T& t) {
    const auto request = reads(t);
    return ulpdu(response(request.sink_stag, request.sink_to + 8, 8).ulpdu());
  });
  add("WriteOtherDomain", kDdpTaggedStagNotAssociated, Copy::header,
      [](T& t) { return ulpdu(write(t.other_domain).ulpdu()); });
  add("WriteOtherStream", kDdpTaggedStagNotAssociated, Copy::header,
      [](T& t) { return ulpdu(write(t.other_stream).ulpdu()); });
  add("WriteWraps", kDdpTaggedToWrap, Copy::header,
      [](T& t) { return ulpdu(write(t.writable, kTop - 3, 16).ulpdu()); });
  add("ResponseWraps", kDdpTaggedToWrap, Copy::header,
      [](T& t) { return ulpdu(response(reads(t).sink_stag, kTop - 3, 16).ulpdu()); });
  for (const std::uint8_t version : {0, 2, 3}) {
    add("TaggedVersion", kDdpTaggedInvalidVersion, Copy::header, [version](T& t) {
      auto segment = write(t.writable);
      segment.ddp_control = 0xC0 | version;
      return ulpdu(segment.ulpdu());
    });
  }
  add("TaggedVersionOfNothing", kDdpTaggedInvalidVersion, Copy::header,
      [](T&) { return ulpdu(Tagged{.ddp_control = 0xC0, .stag = 0xDEAD}.ulpdu()); });

  // --- DDP, untagged ---
  for (const std::uint32_t qn : {4U, 5U, 0x100U, 0x8000'0000U, ~0U}) {
    add("QueueNumber", kDdpUntaggedInvalidQn, Copy::header,
        [qn](T&) { return ulpdu(Untagged{.qn = qn, .body = pattern(8)}.ulpdu()); });
  }
  add("SendWithoutReceive", kDdpUntaggedNoBuffer, Copy::header, [](T&) {
    std::vector<std::vector<std::byte>> good;
    for (std::uint32_t msn = 2; msn <= 8; ++msn) good.push_back(Untagged{.msn = msn}.ulpdu());
    return behind(good, send(9).ulpdu());
  });
  add("ImmediateWithoutReceive", kDdpUntaggedNoBuffer, Copy::header, [](T&) {
    std::vector<std::vector<std::byte>> good;
    for (std::uint32_t msn = 2; msn <= 8; ++msn) good.push_back(Untagged{.msn = msn}.ulpdu());
    return behind(good, Untagged{.rdmap_control = 0x48, .msn = 9, .body = pattern(8)}.ulpdu());
  });
  for (const bool last_is_atomic : {false, true}) {
    add("RequestsAboveTheIrd", kDdpUntaggedNoBuffer, Copy::header, [last_is_atomic](T& t) {
      std::vector<std::vector<std::byte>> good;
      for (std::uint32_t msn = 1; msn <= 4; ++msn) {
        good.push_back(msn % 2 == 0 ? atomic_request(msn, atomic(t.counters, 0)).ulpdu()
                                    : read_request(msn, reading(t.readable, kBase, 8)).ulpdu());
      }
      t.words[0] -= 2;  // what the two Atomics add
      return behind(good,
                    last_is_atomic ? atomic_request(5, atomic(t.counters, 0)).ulpdu()
                                   : read_request(5, reading(t.readable, kBase, 8)).ulpdu(),
                    4);
    });
  }
  add("UnsolicitedAtomicResponse", kDdpUntaggedNoBuffer, Copy::header,
      [](T&) { return ulpdu(atomic_response(42).ulpdu()); });
  for (const std::uint32_t msn : {0U, 1U, 3U, 0x8000'0002U, ~0U}) {  // 2 is due
    add("SendMsn", kDdpUntaggedMsnRange, Copy::header, [msn](T&) { return ulpdu(send(msn).ulpdu()); });
  }
  add("ReadRequestMsn", kDdpUntaggedMsnRange, Copy::header,
      [](T& t) { return ulpdu(read_request(2, reading(t.readable, kBase, 8)).ulpdu()); });
  add("AtomicRequestMsnIsThatOfReads", kDdpUntaggedMsnRange, Copy::header, [](T& t) {
    return behind({read_request(1, reading(t.readable, kBase, 8)).ulpdu()},
                  atomic_request(1, atomic(t.counters, 0)).ulpdu(), 1);
  });
  add("TerminateMsn", kDdpUntaggedMsnRange, Copy::header,
      [](T&) { return ulpdu(terminating(std::vector<std::byte>(4), 2).ulpdu()); });
  add("AtomicResponseMsn", kDdpUntaggedMsnRange, Copy::header,
      [](T& t) { return ulpdu(atomic_response(adds(t), 2).ulpdu()); });
  for (const std::uint32_t mo : {1U, 8U, 4096U, ~0U}) {
    add("MoOfAFirstSegment", kDdpUntaggedInvalidMo, Copy::header,
        [mo](T&) { return ulpdu(Untagged{.msn = 2, .mo = mo, .body = pattern(8)}.ulpdu()); });
  }
  for (const std::uint32_t mo : {0U, 39U, 41U, 80U, ~0U}) {  // 40 is due
    add("MoOfASecondSegment", kDdpUntaggedInvalidMo, Copy::header, [mo](T&) {
      return behind({Untagged{.ddp_control = 0x01, .msn = 2, .body = pattern(40)}.ulpdu()},
                    Untagged{.msn = 2, .mo = mo, .body = pattern(8)}.ulpdu());
    });
  }
  add("MoOfAReadRequest", kDdpUntaggedInvalidMo, Copy::header, [](T& t) {
    auto request = read_request(1, reading(t.readable, kBase, 8));
    request.mo = 28;
    return ulpdu(request.ulpdu());
  });
  add("SendTooLong", kDdpUntaggedTooLong, Copy::header, [](T&) { return ulpdu(send(2, 4097).ulpdu()); });
  add("SecondSegmentTooLong", kDdpUntaggedTooLong, Copy::header, [](T&) {
    return behind({Untagged{.ddp_control = 0x01, .msn = 2, .body = pattern(4000)}.ulpdu()},
                  Untagged{.ddp_control = 0x01, .msn = 2, .mo = 4000, .body = pattern(97)}.ulpdu());
  });
  for (const std::uint8_t version : {0, 2, 3}) {
    add("UntaggedVersion", kDdpUntaggedInvalidVersion, Copy::header, [version](T&) {
      auto segment = send();
      segment.ddp_control = 0x40 | version;
      return ulpdu(segment.ulpdu());
    });
  }

  // --- DDP, no header to show ---
  for (const std::size_t size : {1U, 5U, 17U}) {
    add("ShorterThanItsHeader", kDdpLocalCatastrophic, Copy::none,
        [size](T&) { return ulpdu(to_vector(Octets(send().ulpdu()).first(size))); });
  }
  add("ShorterThanItsTaggedHeader", kDdpLocalCatastrophic, Copy::none,
      [](T& t) { return ulpdu(to_vector(Octets(write(t.writable).ulpdu()).first(13))); });

  // --- RDMAP, protection ---
  add("ReadUnknownStag", kRdmapInvalidStag, Copy::header_read,
      [](T&) { return ulpdu(read_request(1, reading(0x1234, kBase, 8)).ulpdu()); });
  add("ReadOneOctetBeyond", kRdmapBaseOrBounds, Copy::header_read,
      [](T& t) { return ulpdu(read_request(1, reading(t.readable, kBase + 1, 8192)).ulpdu()); });
  add("ReadBelowTheBase", kRdmapBaseOrBounds, Copy::header_read,
      [](T& t) { return ulpdu(read_request(1, reading(t.readable, kBase - 1, 8)).ulpdu()); });
  add("ReadOfAlmost4GiB", kRdmapBaseOrBounds, Copy::header_read,
      [](T& t) { return ulpdu(read_request(1, reading(t.readable, kBase, ~0U)).ulpdu()); });
  add("ReadWithoutTheRight", kRdmapAccessRights, Copy::header_read,
      [](T& t) { return ulpdu(read_request(1, reading(t.writable, kBase, 8)).ulpdu()); });
  add("ReadOtherStream", kRdmapStagNotAssociated, Copy::header_read,
      [](T& t) { return ulpdu(read_request(1, reading(t.other_stream, kBase, 8)).ulpdu()); });
  add("ReadOtherDomain", kRdmapStagNotAssociated, Copy::header_read,
      [](T& t) { return ulpdu(read_request(1, reading(t.other_domain, kBase, 8)).ulpdu()); });
  add("ReadWraps", kRdmapToWrap, Copy::header_read,
      [](T& t) { return ulpdu(read_request(1, reading(t.readable, kTop - 3, 8)).ulpdu()); });
  add("AtomicUnknownStag", kRdmapInvalidStag, Copy::header,
      [](T&) { return ulpdu(atomic_request(1, atomic(0x1234, 0)).ulpdu()); });
  add("AtomicBeyondTheEnd", kRdmapBaseOrBounds, Copy::header,
      [](T& t) { return ulpdu(atomic_request(1, atomic(t.counters, 64)).ulpdu()); });
  add("AtomicWithoutTheRight", kRdmapAccessRights, Copy::header,
      [](T& t) { return ulpdu(atomic_request(1, atomic(t.both, kBase)).ulpdu()); });
  add("AtomicOtherStream", kRdmapStagNotAssociated, Copy::header,
      [](T& t) { return ulpdu(atomic_request(1, atomic(t.other_stream, kBase)).ulpdu()); });
  add("AtomicOtherDomain", kRdmapStagNotAssociated, Copy::header,
      [](T& t) { return ulpdu(atomic_request(1, atomic(t.other_domain, kBase)).ulpdu()); });
  add("AtomicWraps", kRdmapToWrap, Copy::header,
      [](T& t) { return ulpdu(atomic_request(1, atomic(t.counters, kTop - 3)).ulpdu()); });
  for (const std::uint8_t control : {0x44, 0x46}) {
    add("InvalidateUnknownStag", kRdmapStagCannotBeInvalidated, Copy::header,
        [control](T&) { return ulpdu(invalidate(0x1234, control).ulpdu()); });
    add("InvalidateOfADomain", kRdmapStagCannotBeInvalidated, Copy::header,
        [control](T& t) { return ulpdu(invalidate(t.of_domain, control).ulpdu()); });
    add("InvalidateOtherStream", kRdmapStagCannotBeInvalidated, Copy::header,
        [control](T& t) { return ulpdu(invalidate(t.other_stream, control).ulpdu()); });
    add("InvalidateWithoutTheRight", kRdmapStagCannotBeInvalidated, Copy::header,
        [control](T& t) { return ulpdu(invalidate(t.writable, control).ulpdu()); });
  }

  // --- RDMAP, operation ---
  for (const std::uint8_t version : {0x00, 0x80, 0xC0}) {
    add("Version", kRdmapInvalidVersion, Copy::header, [version](T&) {
      auto segment = send();
      segment.rdmap_control = 0x03 | version;
      return ulpdu(segment.ulpdu());
    });
    add("VersionOfAnAtomic", kRdmapInvalidVersion, Copy::header, [version](T& t) {
      auto segment = atomic_request(1, atomic(t.counters, 0));
      segment.rdmap_control = 0x0A | version;
      return ulpdu(segment.ulpdu());
    });
  }
  for (const std::uint8_t opcode : {0x4C, 0x4D, 0x4E, 0x4F}) {
    add("OpcodeWithoutAMeaning", kRdmapUnexpectedOpcode, Copy::header, [opcode](T&) {
      auto segment = send();
      segment.rdmap_control = opcode;
      return ulpdu(segment.ulpdu());
    });
  }
  add("TaggedSend", kRdmapUnexpectedOpcode, Copy::header, [](T& t) {
    auto segment = write(t.writable);
    segment.rdmap_control = 0x43;
    return ulpdu(segment.ulpdu());
  });
  add("UntaggedWrite", kRdmapUnexpectedOpcode, Copy::header, [](T&) {
    auto segment = send();
    segment.rdmap_control = 0x40;
    return ulpdu(segment.ulpdu());
  });
  add("SendOnTheRequestQueue", kRdmapUnexpectedOpcode, Copy::header,
      [](T&) { return ulpdu(Untagged{.qn = 1, .body = pattern(8)}.ulpdu()); });
  for (const std::uint32_t qn : {0U, 2U, 3U}) {
    add("AtomicOnAnotherQueue", kRdmapUnexpectedOpcode, Copy::header, [qn](T& t) {
      auto segment = atomic_request(1, atomic(t.counters, 0));
      segment.qn = qn;
      return ulpdu(segment.ulpdu());
    });
  }
  for (const std::uint32_t qn : {1U, 2U, 3U}) {
    add("ImmediateOnAnotherQueue", kRdmapUnexpectedOpcode, Copy::header,
        [qn](T&) { return ulpdu(Untagged{.rdmap_control = 0x48, .qn = qn, .body = pattern(8)}.ulpdu()); });
  }
  for (const std::uint8_t operation : {1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}) {
    add("AtomicOpcode", kRdmapUnexpectedOpcode, Copy::header, [operation](T& t) {
      return ulpdu(atomic_request(1, atomic(t.counters, 0, static_cast<AtomicOpcode>(operation))).ulpdu());
    });
  }
  add("UnsolicitedResponseToAGoodStag", kRdmapUnexpectedOpcode, Copy::header,
      [](T& t) { return ulpdu(response(t.writable, kBase, 8).ulpdu()); });
  add("UnsolicitedResponseOfNothing", kRdmapUnexpectedOpcode, Copy::header,
      [](T&) { return ulpdu(response(0, 0, 0).ulpdu()); });
  add("AtomicResponseWhereAReadResponseIsDue", kRdmapUnexpectedOpcode, Copy::header, [](T& t) {
    std::ignore = reads(t);
    return ulpdu(atomic_response(0).ulpdu());
  });
  add("EmptyReadResponseWhereAnAtomicsIsDue", kRdmapUnexpectedOpcode, Copy::header, [](T& t) {
    std::ignore = adds(t);
    return ulpdu(response(0, 0, 0).ulpdu());
  });
  for (const std::uint8_t control : {0x44, 0x45, 0x46, 0x48, 0x49}) {
    add("AnotherOpcodeInAnUnfinishedMessage", kRdmapUnexpectedOpcode, Copy::header, [control](T& t) {
      return behind(
          {Untagged{.ddp_control = 0x01, .msn = 2}.ulpdu()},
          Untagged{.rdmap_control = control, .invalidate = t.open, .msn = 2, .body = pattern(8)}.ulpdu());
    });
  }
  for (const std::uint64_t to : {1U, 2U, 4U, 7U}) {
    for (const AtomicOpcode operation : {AtomicOpcode::fetch_add, AtomicOpcode::compare_swap}) {
      add("AtomicUnaligned", kRdmapCatastrophicStream, Copy::header, [to, operation](T& t) {
        return ulpdu(atomic_request(1, atomic(t.counters, to, operation)).ulpdu());
      });
    }
  }
  for (const std::size_t size : {0U, 27U, 29U}) {
    add("ReadRequestLength", kRdmapOperationUnspecified, Copy::header, [size](T& t) {
      return ulpdu(resized(read_request(1, reading(t.readable, kBase, 8)), size).ulpdu());
    });
  }
  for (const std::size_t size : {0U, 51U, 53U}) {
    add("AtomicRequestLength", kRdmapOperationUnspecified, Copy::header,
        [size](T& t) { return ulpdu(resized(atomic_request(1, atomic(t.counters, 0)), size).ulpdu()); });
  }
  for (const std::size_t size : {0U, 7U, 9U}) {
    add("ImmediateLength", kRdmapOperationUnspecified, Copy::header, [size](T&) {
      return ulpdu(Untagged{.rdmap_control = 0x49, .msn = 2, .body = pattern(size)}.ulpdu());
    });
  }
  for (const std::size_t size : {11U, 13U}) {
    add("AtomicResponseLength", kRdmapOperationUnspecified, Copy::header,
        [size](T& t) { return ulpdu(resized(atomic_response(adds(t)), size).ulpdu()); });
  }
  add("AtomicResponseOfAnotherRequest", kRdmapOperationUnspecified, Copy::header,
      [](T& t) { return ulpdu(atomic_response(adds(t) + 1).ulpdu()); });
  add("ReadRequestNotLast", kRdmapOperationUnspecified, Copy::header, [](T& t) {
    auto request = read_request(1, reading(t.readable, kBase, 8));
    request.ddp_control = 0x01;
    return ulpdu(request.ulpdu());
  });
  add("ResponseTooShort", kRdmapOperationUnspecified, Copy::header, [](T& t) {
    const auto request = reads(t);
    return ulpdu(response(request.sink_stag, request.sink_to, 79).ulpdu());
  });
  add("TerminateOfThreeOctets", kRdmapOperationUnspecified, Copy::header,
      [](T&) { return ulpdu(terminating(std::vector<std::byte>(3)).ulpdu()); });
  add("TerminateWithoutTheCopyItPromises", kRdmapOperationUnspecified, Copy::header, [](T&) {
    return ulpdu(terminating({std::byte{0x11}, std::byte{0}, std::byte{0xC0}, std::byte{0}}).ulpdu());
  });
  return all;
}

/// Codes that this RNIC never sends in full operation.
struct NotSent {
  TerminateCode code;
  const char* why;
};
const std::vector<NotSent> kNotSent = {
    {terminate::kRdmapLocalCatastrophic, "no fault of our own leaves the stream able to tell of it"},
    {terminate::kRdmapProtectionUnspecified, "each protection fault has a code that says more"},
    {terminate::kRdmapCatastrophicGlobal, "no fault of one stream is one of the whole RNIC"},
    {terminate::kRdmapOperationStagCannotBeInvalidated,
     "told as a protection error, 0/1/09, of which it is one"},
    {terminate::kMpaConnectionLost, "a lost connection carries no Terminate"},
    {terminate::kMpaInvalidStartup, "an invalid start-up frame is answered by closing (RFC 5044 7.1.2)"},
    {terminate::kMpaLocalCatastrophic, "no fault of our own leaves the stream able to tell of it"},
    {terminate::kMpaInsufficientIrd, "in start-up only, by an Initiator: engine_setup_test.cc"},
    {terminate::kMpaNoMatchingRtr, "in start-up only, by an Initiator: engine_rtr_test.cc"},
};

std::vector<std::byte> expected_terminate(const Row& row, const Stimulus& stimulus) {
  std::vector<std::byte> expected(22);
  ByteWriter w(expected);
  w.u8(0x41);
  w.u8(0x47);
  w.u32(0);
  w.u32(2);
  w.u32(1);
  w.u32(0);
  w.u16(row.code.packed());
  w.u16(row.copy == Copy::none ? 0 : row.copy == Copy::header ? 0xC000 : 0xE000);
  if (row.copy == Copy::none) return expected;
  const auto& offender = stimulus.offender;
  const std::size_t header = (std::to_integer<int>(offender[0]) & 0x80) != 0 ? 14 : 18;
  expected.push_back(static_cast<std::byte>(offender.size() >> 8));
  expected.push_back(static_cast<std::byte>(offender.size()));
  const auto copied = Octets(offender).first(row.copy == Copy::header ? header : header + 28);
  expected.insert(expected.end(), copied.begin(), copied.end());
  return expected;
}

// Rules: RFC5041-7.2-01, RFC5041-7.1-01, RFC5041-7.1-02, RFC5041-7.1-03, RFC5041-7.1-04, RFC5041-7.1-05
// Rules: RFC5041-7.1-06, RFC5041-7.1-07, RFC5041-7.1-08, RFC5041-7.1-09, RFC5041-7.1-10, RFC5041-7.1-11
// Rules: RFC5041-7.1-12, RFC5041-7.1-13, RFC5041-7.1-14, RFC5041-3-08, RFC5041-4.1-06, RFC5041-4.2-04
// Rules: RFC5041-4.4-01, RFC5041-5.2-11, RFC5041-6.2.2-01, RFC5041-6.2.2-02, RFC5041-8.2-01, RFC5041-8.2-02
// Rules: RFC5041-8.3-02, RFC7306-4.1-01, RFC7306-4.1-04, RFC7306-4.2-01, RFC7306-5.2.1-08, RFC7306-5.2.2-05
// Rules: RFC7306-5.1.1-03, RFC7306-5.1.1-04, RFC7306-5.1.1-05, RFC7306-5.1.2-04, RFC7306-5.1.2-05
// Rules: RFC7306-5-05, RFC7306-6.3-05, RFC7306-8.1-02, RFC7306-8.2-01, RFC7306-8.2-02, RFC7306-8.2-03
TEST(EngineTerminate, EachFaultIsToldWithItsCodeAndHeaders) {
  for (const bool crc : {true, false}) {
    for (const Row& row : rows()) {
      if (!crc && row.code == terminate::kMpaCrcError) continue;
      RnicOptions rnic;
      rnic.crc = crc;
      MemoryTarget t(MemoryTarget::options(), rnic);
      ASSERT_TRUE(t.answer(Untagged{.body = pattern(24)}.fpdu()).empty());
      const auto own_stag = t.writable;
      const Stimulus stimulus = row.stimulus(t);
      SCOPED_TRACE(testing::Message() << row.name << " " << to_hex(stimulus.offender) << " crc " << crc);
      const std::size_t delivered_before = t.recorder().received.size();

      t.target.end->feed(stimulus.octets);
      const std::size_t delivered = t.recorder().received.size();
      const auto answers = t.target.drained();
      ASSERT_EQ(answers.size(), stimulus.answers + 1);
      EXPECT_EQ(to_hex(answers.back()), to_hex(expected_terminate(row, stimulus))) << to_string(row.code);
      EXPECT_TRUE(t.stopped());

      // Whatever follows is neither placed, delivered nor answered.
      t.target.end->feed(joined({write(own_stag, kBase, 16).fpdu(), send(2).fpdu(), send(9).fpdu(),
                                 read_request(1, reading(t.readable, kBase, 8)).fpdu()}));
      EXPECT_TRUE(t.target.end->drain().empty());
      EXPECT_EQ(t.recorder().received.size(), delivered);
      EXPECT_GE(delivered, delivered_before);
      EXPECT_EQ(t.memory, pattern(8192));
      EXPECT_THAT(t.words, testing::Each(7U));
      t.target.end->engine.peer_finished();
      t.target.end->settle();
      ASSERT_TRUE(t.recorder().closed.has_value());
      EXPECT_EQ(t.recorder().closed->kind, CloseReason::Kind::local_error);
      EXPECT_EQ(t.recorder().closed->terminate, row.code.packed());
      for (const rdma::Completion& completion : t.recorder().completions) {
        EXPECT_EQ(completion.status, rdma::WorkStatus::flushed);
      }
    }
  }
}

TEST(EngineTerminate, EveryCodeHasARowOrAReason) {
  std::set<TerminateCode> sent;
  for (const Row& row : rows()) sent.insert(row.code);
  std::set<TerminateCode> not_sent;
  for (const NotSent& row : kNotSent) {
    EXPECT_TRUE(not_sent.insert(row.code).second) << row.why;
    EXPECT_FALSE(sent.contains(row.code)) << to_string(row.code);
  }
  for (const terminate::Row& row : terminate::kRows) {
    EXPECT_TRUE(sent.contains(row.code) || not_sent.contains(row.code)) << to_string(row.code);
  }
  EXPECT_EQ(sent.size() + not_sent.size(), terminate::kRows.size());
}

}  // namespace
}  // namespace kbtp::rnic::test
