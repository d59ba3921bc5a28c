// RFC 5040 7 and 8, RFC 5042: what a peer cannot reach, and that what it does wrong hurts nobody else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "base/hex.h"
#include "rdmap_binding/rnic/engine_target_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::CloseReason;
using rdma::Content;
using rdma::WorkStatus;

/// Streams of one RNIC, each with a peer of its own.
class Streams {
 public:
  /// One more, in full operation and with one good FPDU behind it.
  End& open(rdma::DomainId domain = rdma::DomainId{7}) {
    End& end = ends_.emplace_back(host);
    end.accept_options = MemoryTarget::options();
    end.accept_options.domain = domain;
    end.engine.start(kEmss);
    mpa::StartupFrame frame;
    frame.revision = 2;
    frame.enhanced = mpa::Enhanced{};
    frame.enhanced->ird = frame.enhanced->ord = 4;
    end.feed(mpa::encode_startup(frame));
    end.drain();
    end.feed(Tagged{.stag = 0}.fpdu());  // an empty Write
    return end;
  }
  Host host;

 private:
  std::deque<End> ends_;
};

std::vector<std::vector<std::byte>> answer(End& end, Octets octets) {
  end.feed(octets);
  return ulpdus(end.drain());
}
rdma::Stream& stream_of(End& end) { return *end.recorder.stream; }
/// Whether the stream still serves a Read and a Send; `msn` is the next one of its peer on both queues.
bool serves(End& end, rdma::STag readable, std::uint64_t offset, std::uint32_t msn = 1) {
  const std::size_t before = end.recorder.received.size();
  const auto answers = answer(end, joined({read_request(msn, reading(readable, offset, 8)).fpdu(),
                                           Untagged{.msn = msn, .body = pattern(8)}.fpdu()}));
  return answers.size() == 1 && answers[0].size() == 14 + 8 && end.recorder.received.size() == before + 1;
}

// --- RFC 5040 7: what a bad message does -----------------------------------------------------------------

struct WriteFault {
  const char* what;
  rdma::STag MemoryTarget::* stag;  // nullptr: one that was never told
  std::uint64_t offset;
  std::size_t size;
  TerminateCode code;
};
const WriteFault kWriteFaults[] = {
    {"unknown", nullptr, kBase, 8, terminate::kDdpTaggedInvalidStag},
    {"no right", &MemoryTarget::readable, kBase, 8, terminate::kDdpTaggedInvalidStag},
    {"words", &MemoryTarget::counters, 0, 8, terminate::kDdpTaggedInvalidStag},
    {"other stream", &MemoryTarget::other_stream, kBase, 8, terminate::kDdpTaggedStagNotAssociated},
    {"other domain", &MemoryTarget::other_domain, kBase, 8, terminate::kDdpTaggedStagNotAssociated},
    {"below", &MemoryTarget::writable, kBase - 1, 8, terminate::kDdpTaggedBaseOrBounds},
    {"behind", &MemoryTarget::writable, kBase + 8192, 1, terminate::kDdpTaggedBaseOrBounds},
    {"ends behind", &MemoryTarget::writable, kBase + 8192 - 7, 8, terminate::kDdpTaggedBaseOrBounds},
    {"wraps", &MemoryTarget::writable, ~std::uint64_t{0} - 6, 8, terminate::kDdpTaggedToWrap},
};

// Rules: RFC5040-5.1-03, RFC5040-6.2.1-01, RFC5040-7-01, RFC5040-7.1-01, RFC5040-7.1-03, RFC5040-7.2-01
// Rules: RFC5040-8.1.1-01, RFC5040-8.1.1-02, RFC5042-6.1.1-02
TEST(EngineProtection, BadWriteIsToldAndChangesNothing) {
  for (const WriteFault& fault : kWriteFaults) {
    SCOPED_TRACE(fault.what);
    MemoryTarget t;
    const auto memory = t.memory;
    const rdma::STag stag = fault.stag == nullptr ? 0x1234 : t.*fault.stag;
    const auto write = Tagged{.stag = stag, .to = fault.offset, .body = pattern(fault.size, 99)};
    // Behind it come a Write, a Send and a Read that would be good.
    const auto answers = t.answer(
        joined({write.fpdu(), Tagged{.stag = t.writable, .to = kBase, .body = pattern(8, 99)}.fpdu(),
                Untagged{.body = pattern(8)}.fpdu(), read_request(1, reading(t.readable, kBase, 8)).fpdu()}));
    ASSERT_EQ(answers.size(), 1U);
    const auto told = terminate_in(answers);
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code), to_string(fault.code));
    EXPECT_TRUE(told->control.length_valid && told->control.ddp_header);
    EXPECT_FALSE(told->control.rdma_header);
    EXPECT_EQ(told->reserved, 0U);
    EXPECT_EQ(told->ddp_header, to_vector(Octets(write.ulpdu()).first(14)));
    EXPECT_EQ(told->segment_length, write.ulpdu().size());
    EXPECT_EQ(t.memory, memory);
    EXPECT_THAT(t.words, testing::Each(7U));
    EXPECT_TRUE(t.recorder().received.empty());
    t.target.end->engine.peer_finished();
    t.target.end->settle();
    ASSERT_TRUE(t.recorder().closed);
    EXPECT_EQ(t.recorder().closed->kind, CloseReason::Kind::local_error);
    EXPECT_EQ(t.recorder().closed->terminate, fault.code.packed());
  }
}

// Rules: RFC5040-7.2-01, RFC5040-7.1-03
TEST(EngineProtection, EveryFieldOfAnUntaggedHeaderIsChecked) {
  const auto good = Untagged{.body = pattern(8)};
  auto version = good;
  version.ddp_control = 0x42;
  auto queue = good;
  queue.qn = 4;
  auto ahead = good;
  ahead.msn = 2;
  auto zero = good;
  zero.msn = 0;
  auto offset = good;
  offset.mo = 1;
  auto far = good;
  far.mo = 0xFFFF'FFFC;  // with the length it passes 2^32
  auto longer = good;
  longer.body = pattern(4097);
  const std::pair<Untagged, TerminateCode> kinds[] = {
      {version, terminate::kDdpUntaggedInvalidVersion}, {queue, terminate::kDdpUntaggedInvalidQn},
      {ahead, terminate::kDdpUntaggedMsnRange},         {zero, terminate::kDdpUntaggedMsnRange},
      {offset, terminate::kDdpUntaggedInvalidMo},       {far, terminate::kDdpUntaggedInvalidMo},
      {longer, terminate::kDdpUntaggedTooLong}};
  for (const auto& [bad, code] : kinds) {
    SCOPED_TRACE(to_string(code));
    MemoryTarget t;
    const auto told = t.told(bad.fpdu());
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code), to_string(code));
    EXPECT_TRUE(told->control.length_valid && told->control.ddp_header);
    EXPECT_FALSE(told->control.rdma_header);
    EXPECT_EQ(told->ddp_header, to_vector(Octets(bad.ulpdu()).first(18)));
    EXPECT_TRUE(t.recorder().received.empty());
  }
}

// Rules: RFC5040-7.1-02
TEST(EngineProtection, ErrorThatIsNoMessagesFaultIsToldWithoutHeaders) {
  MemoryTarget t;
  t.answer(Untagged{.body = pattern(8)}.fpdu());
  auto fpdu = Untagged{.msn = 2, .body = pattern(8)}.fpdu();
  fpdu[20] ^= std::byte{1};  // its header cannot be believed
  const auto told = t.told(fpdu);
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kMpaCrcError));
  EXPECT_FALSE(told->control.length_valid || told->control.ddp_header || told->control.rdma_header);
  MemoryTarget cut;
  const auto half = cut.told(mpa::encode_fpdu(Octets(Untagged{}.ulpdu()).first(17)));
  ASSERT_TRUE(half);
  EXPECT_EQ(to_string(half->code), to_string(terminate::kDdpLocalCatastrophic));
  EXPECT_FALSE(half->control.length_valid || half->control.ddp_header || half->control.rdma_header);
}

// Rules: RFC5040-7.1-05, RFC5040-5.4-04
TEST(EngineProtection, FirstOfTwoFaultsIsToldAndNothingAfterIt) {
  MemoryTarget t;
  const auto first = read_request(1, reading(0x1234, 0, 8));
  const auto answers = t.answer(joined({first.fpdu(), Untagged{.qn = 77}.fpdu()}));
  ASSERT_EQ(answers.size(), 1U);
  const auto told = terminate_in(answers);
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapInvalidStag));
  EXPECT_EQ(told->ddp_header, to_vector(Octets(first.ulpdu()).first(18)));
  EXPECT_TRUE(t.answer(Untagged{.qn = 77}.fpdu()).empty());
}

// Rules: RFC5040-7-02, RFC5040-6.2.1-03
TEST(EngineProtection, ConnectionEndsBehindATerminateWhateverThePeerDoes) {
  for (const bool peer_finishes : {true, false}) {
    MemoryTarget t;
    ASSERT_TRUE(t.told(Untagged{.qn = 77}.fpdu()));
    EXPECT_TRUE(t.stopped()) << "a FIN, so that the Terminate arrives";
    EXPECT_FALSE(t.target.end->engine.abortive());
    EXPECT_FALSE(t.target.end->engine.finished());
    if (peer_finishes) {
      t.target.end->engine.peer_finished();
      t.target.end->settle();
    } else {
      t.target.end->advance(kTeardownDeadline);
    }
    EXPECT_TRUE(t.target.end->engine.finished());
    EXPECT_EQ(t.recorder().closed_count, 1);
  }
}

// --- RFC 5040 8.1.1, RFC 5042 6: what is out of reach ----------------------------------------------------

// Rules: RFC5040-8.1.1-01, RFC5040-8.1.1-02, RFC5042-6.1.1-01, RFC5042-6.1.1-02
TEST(EngineProtection, OneStreamCannotUseTheStagsOfAnother) {
  // 0: Write, 1: Read, 2: Atomic, 3: Send with Invalidate; to an STag of another stream, or of another
  // domain.
  for (const bool of_domain : {false, true}) {
    for (int operation = 0; operation < 4; ++operation) {
      SCOPED_TRACE(std::to_string(operation) + (of_domain ? " domain" : " stream"));
      Streams rnic;
      End& owner = rnic.open(rdma::DomainId{7});
      End& stranger = rnic.open(rdma::DomainId{8});
      auto memory = pattern(64);
      std::vector<std::uint64_t> words(8, 7);
      const bool atomic = operation == 2;
      const rdma::RegionSpec spec{
          atomic ? std::as_writable_bytes(std::span(words)) : MutableOctets(memory),
          atomic ? Access::remote_atomic | Access::remote_read : Access::remote_write | Access::remote_read,
          atomic ? Content::words : Content::octets, 0, !of_domain};
      const auto stag = of_domain ? rnic.host.stags
                                        .add(rdma::DomainId{7},
                                             [&] {
                                               auto shared = spec;
                                               shared.remote_invalidate = false;
                                               return shared;
                                             }())
                                        ->stag
                                  : stream_of(owner).register_region(spec)->stag;
      const rdmap::AtomicRequest add{rdmap::AtomicOpcode::fetch_add, 1, stag, 0, 1, 0};
      const std::vector<std::byte> attempts[] = {
          Tagged{.stag = stag, .body = pattern(8, 99)}.fpdu(), read_request(1, reading(stag, 0, 8)).fpdu(),
          atomic_request(1, add).fpdu(), Untagged{.rdmap_control = 0x44, .invalidate = stag}.fpdu()};
      const TerminateCode codes[] = {terminate::kDdpTaggedStagNotAssociated,
                                     terminate::kRdmapStagNotAssociated, terminate::kRdmapStagNotAssociated,
                                     terminate::kRdmapStagCannotBeInvalidated};
      const auto told = terminate_in(answer(stranger, attempts[operation]));
      ASSERT_TRUE(told);
      EXPECT_EQ(to_string(told->code), to_string(codes[operation]));
      EXPECT_EQ(memory, pattern(64));
      EXPECT_THAT(words, testing::Each(7U));
      EXPECT_TRUE(serves(owner, stag, 0)) << "the owner is not touched";
    }
  }
}

// Rules: RFC5040-8.1.1-03, RFC5042-6.2.1-01, RFC5042-6.3.4-01
TEST(EngineProtection, NoOctetOutsideTheRegionIsReadOrWritten) {
  constexpr std::size_t kGuard = 32;
  constexpr std::size_t kSize = 16;
  for (std::uint64_t start = 0; start <= kGuard + kSize + kGuard; ++start) {
    for (std::size_t size = 1; size <= kSize + 2; ++size) {
      const bool inside = start >= kGuard && start + size <= kGuard + kSize;
      for (const bool reads : {false, true}) {
        Responder target(MemoryTarget::options());
        auto memory = pattern(kGuard + kSize + kGuard);
        const auto stag =
            target.stream()
                .register_region({MutableOctets(memory).subspan(kGuard, kSize),
                                  Access::remote_read | Access::remote_write, Content::octets, kGuard, false})
                ->stag;
        const auto answers = target.answer(
            reads ? read_request(1, reading(stag, start, static_cast<std::uint32_t>(size))).fpdu()
                  : Tagged{.stag = stag, .to = start, .body = pattern(size, 99)}.fpdu());
        auto expected = pattern(kGuard + kSize + kGuard);
        if (inside && reads) {
          ASSERT_EQ(answers.size(), 1U);
          EXPECT_EQ(to_vector(Octets(answers[0]).subspan(14)),
                    to_vector(Octets(expected).subspan(start, size)));
        } else if (inside) {
          ASSERT_TRUE(answers.empty());
          const auto written = pattern(size, 99);
          std::copy(written.begin(), written.end(), expected.begin() + static_cast<std::ptrdiff_t>(start));
        } else {
          const auto told = terminate_in(answers);
          ASSERT_TRUE(told) << start << " " << size;
          EXPECT_EQ(to_string(told->code),
                    to_string(reads ? terminate::kRdmapBaseOrBounds : terminate::kDdpTaggedBaseOrBounds));
        }
        ASSERT_EQ(memory, expected) << start << " " << size;
      }
    }
  }
}

// Rules: RFC5040-8.1.1-04, RFC5040-8.1.1-06, RFC5042-6.2.2-02
TEST(EngineProtection, RevokedRangeIsOutOfReachAndAnotherOneIsNot) {
  for (const bool reads : {false, true}) {
    MemoryTarget t;
    const auto narrow = t.stream().register_region({MutableOctets(t.memory).first(8),
                                                    Access::remote_read | Access::remote_write,
                                                    Content::octets, 0x9000, false});
    ASSERT_TRUE(narrow);
    EXPECT_TRUE(t.answer(Tagged{.stag = narrow->stag, .to = 0x9000, .body = pattern(8, 1)}.fpdu()).empty());
    t.stream().revoke(narrow->stag);
    EXPECT_TRUE(t.answer(Tagged{.stag = t.writable, .to = kBase + 8, .body = pattern(8, 2)}.fpdu()).empty());
    const auto before = t.memory;
    const auto told =
        t.told(reads ? read_request(1, reading(narrow->stag, 0x9000, 8)).fpdu()
                     : Tagged{.stag = narrow->stag, .to = 0x9000, .body = pattern(8, 3)}.fpdu());
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code),
              to_string(reads ? terminate::kRdmapInvalidStag : terminate::kDdpTaggedInvalidStag));
    EXPECT_EQ(t.memory, before);
  }
}

// Rules: RFC5040-8.1.1-06, RFC5042-6.2.2-02
TEST(EngineProtection, RevocationInTheMiddleOfAMessageStopsTheRestOfIt) {
  for (const bool crc : {true, false}) {
    SCOPED_TRACE(crc);
    RnicOptions rnic;
    rnic.crc = crc;
    MemoryTarget t(MemoryTarget::options(), rnic);
    t.answer(Tagged{.ddp_control = 0x81, .stag = t.writable, .to = kBase, .body = pattern(100, 50)}.fpdu());
    const auto before_segment = t.memory;
    const auto rest = Tagged{.stag = t.writable, .to = kBase + 100, .body = pattern(8000, 50)}.fpdu();
    t.target.end->feed(Octets(rest).first(1000));
    EXPECT_EQ(t.memory == before_segment, crc) << "with CRCs off it is placed as it comes";
    t.stream().revoke(t.writable);
    const auto before = t.memory;
    t.target.end->feed(Octets(rest).subspan(1000));
    t.target.end->drain();
    EXPECT_TRUE(t.stopped());
    EXPECT_EQ(t.memory, before);
    t.target.end->engine.peer_finished();
    t.target.end->settle();
    ASSERT_TRUE(t.recorder().closed);
    EXPECT_EQ(t.recorder().closed->terminate, terminate::kDdpTaggedInvalidStag.packed());
  }
}

// Rules: RFC5040-8.1.1-05, RFC5042-6.3.5-01
TEST(EngineProtection, RightsAreGivenAndTakenBackOneByOne) {
  {
    MemoryTarget t;  // a right more, by another STag for the same octets; the first stays as it was
    const auto read_too = t.add(Access::remote_read);
    EXPECT_EQ(t.answer(read_request(1, reading(read_too, kBase, 8)).fpdu()).size(), 1U);
    const auto told = t.told(read_request(2, reading(t.writable, kBase, 8)).fpdu());
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapAccessRights));
  }
  MemoryTarget t;  // taken back: the right to write alone
  t.stream().revoke(t.writable);
  EXPECT_EQ(t.answer(read_request(1, reading(t.readable, kBase, 8)).fpdu()).size(), 1U);
  const auto told = t.told(Tagged{.stag = t.writable, .to = kBase, .body = pattern(8)}.fpdu());
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpTaggedInvalidStag));
}

// Rules: RFC5042-6.3.5-02
TEST(EngineProtection, EmptyReadOfABufferForWritesIsNoBreach) {
  MemoryTarget t;
  const auto answers = t.answer(read_request(1, reading(t.writable, kBase, 0)).fpdu());
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].size(), 14U);
  EXPECT_FALSE(t.stopped());
}

// Rules: RFC5040-8.1.1-08, RFC5040-8.1.1-13, RFC5042-6.1.1-03
TEST(EngineProtection, StagsOfStreamsAreSpreadAndDoNotComeBackSoon) {
  Streams rnic;
  std::vector<std::byte> memory(8);
  std::set<rdma::STag> seen;
  std::array<std::size_t, 32> ones{};
  std::set<std::uint32_t> steps;
  rdma::STag previous = 0;
  constexpr std::size_t kCount = 2000;
  End& end = rnic.open();
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto stag =
        stream_of(end).register_region({memory, Access::remote_read, Content::octets, 0, false})->stag;
    EXPECT_TRUE(seen.insert(stag).second) << "used again at once";
    for (std::size_t bit = 0; bit < 32; ++bit) ones[bit] += (stag >> bit) & 1;
    steps.insert(stag - previous);
    previous = stag;
    stream_of(end).revoke(stag);
  }
  // Half of them each; 800 and 1,200 are nine standard deviations away.
  EXPECT_THAT(ones, testing::Each(testing::AllOf(testing::Gt(800U), testing::Lt(1200U))));
  EXPECT_EQ(steps.size(), kCount) << "no fixed increment";
}

// --- RFC 5042 6.4: what a peer can use up ----------------------------------------------------------------

// Rules: RFC5040-8.1.2-07, RFC5042-6.4.3.3-01, RFC5042-7.2-01, RFC5042-A-03
TEST(EngineProtection, EachStreamHasItsReadDepthToItself) {
  Streams rnic;
  End& greedy = rnic.open();
  End& other = rnic.open();
  auto memory = pattern(64);
  const auto stag =
      rnic.host.stags.add(rdma::DomainId{7}, {memory, Access::remote_read, Content::octets, 0, false})->stag;
  // The greedy one's Reads fill its depth and stay, since it takes none of the answers.
  for (std::uint32_t msn = 1; msn <= 4; ++msn) greedy.feed(read_request(msn, reading(stag, 0, 8)).fpdu());
  EXPECT_TRUE(serves(other, stag, 0));
  std::vector<std::byte> four;
  for (std::uint32_t msn = 2; msn <= 5; ++msn) {
    const auto fpdu = read_request(msn, reading(stag, 0, 8)).fpdu();
    four.insert(four.end(), fpdu.begin(), fpdu.end());
  }
  EXPECT_EQ(answer(other, four).size(), 4U);
  greedy.feed(read_request(5, reading(stag, 0, 8)).fpdu());
  EXPECT_TRUE(terminate_in(ulpdus(greedy.drain()))) << "and one more than its own share ends it";
  EXPECT_EQ(answer(other, read_request(6, reading(stag, 0, 8)).fpdu()).size(), 1U);
}

// Rules: RFC5040-8.1.2-08, RFC5041-8.3.2-06, RFC5042-6.4.3.1-01
TEST(EngineProtection, PeerThatFloodsReceivesFindsOnlyItsOwn) {
  Streams rnic;
  End& flooding = rnic.open();
  End& other = rnic.open();
  auto memory = pattern(64);
  const auto stag =
      rnic.host.stags.add(rdma::DomainId{7}, {memory, Access::remote_read, Content::octets, 0, false})->stag;
  std::optional<Told> told;
  std::uint32_t msn = 0;
  while (!told && msn < 100) told = terminate_in(answer(flooding, Untagged{.msn = ++msn}.fpdu()));
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedNoBuffer));
  EXPECT_EQ(msn, MemoryTarget::options().initial_receives + 1) << "it is told apart by its own count";
  for (std::uint32_t n = 1; n <= MemoryTarget::options().initial_receives; ++n) {
    EXPECT_TRUE(serves(other, stag, 0, n));
  }
}

// Rules: RFC5040-8.1.1-09, RFC5040-8.1.1-10, RFC5042-6.4.6-01, RFC5042-7.1-01
TEST(EngineProtection, CompletionsOfOneStreamNeverCrowdOutThoseOfAnother) {
  Streams rnic;
  End& flooding = rnic.open();
  End& other = rnic.open();
  constexpr std::uint64_t kMany = 100'000;
  std::vector<rdma::WorkRequest> sends(kMany, rdma::Send{1, {}, false, {}});
  stream_of(flooding).post(std::move(sends));
  stream_of(other).post({rdma::Send{2, pattern(8), false, {}}});
  while (!flooding.engine.send_plan().empty()) {
    std::size_t n = 0;
    for (const iovec& piece : flooding.engine.send_plan()) n += piece.iov_len;
    flooding.engine.sent(n);  // and nobody fetches the completions
  }
  other.drain();
  ASSERT_EQ(other.recorder.completions.size(), 1U);
  EXPECT_EQ(other.recorder.completions[0].id, 2U);
  EXPECT_EQ(other.recorder.completions[0].status, WorkStatus::success);
  flooding.settle();
  EXPECT_EQ(flooding.recorder.completions.size(), kMany) << "and none of its own is lost";
}

// Rules: RFC5041-8.3.2-02, RFC5041-8.3.2-05
// Rules: RFC5040-8.1.2-02, RFC5040-8.1.2-06, RFC5042-2.1-01, RFC5042-6.4.1-01, RFC5042-7.2-01
TEST(EngineProtection, RnicsOwnerBoundsWhatAnyStreamGets) {
  auto wants = MemoryTarget::options();
  wants.ird = 10'000;
  wants.ord = 10'000;
  RnicOptions rnic;
  rnic.max_ird = 3;
  rnic.max_ord = 5;
  MemoryTarget t(wants, rnic);
  EXPECT_EQ(t.stream().capabilities().ird, 3U);
  EXPECT_LE(t.stream().capabilities().ord, 5U);
  std::vector<std::byte> octets;
  for (std::uint32_t msn = 1; msn <= 4; ++msn) {
    const auto fpdu = read_request(msn, reading(t.readable, kBase, 8)).fpdu();
    octets.insert(octets.end(), fpdu.begin(), fpdu.end());
  }
  const auto answers = t.answer(octets);
  EXPECT_EQ(answers.size(), 4U);
  EXPECT_TRUE(terminate_in(answers)) << "the fourth is one too many";
}

}  // namespace
}  // namespace kbtp::rnic::test
