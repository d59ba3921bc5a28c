// Markers at the engine (RFC 5044 4.3, 4.4, 4.5, 8) against a peer that is nothing but octets, made and taken
// apart by the codec of mpa/marker.h, which has golden streams of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "base/hex.h"
#include "rdmap_binding/mpa/marker.h"
#include "rdmap_binding/rnic/engine_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::Content;

RnicOptions asking(bool markers, bool crc = true) {
  RnicOptions options;
  options.markers = markers;
  options.crc = crc;
  return options;
}

/// A responder that has answered a Request with these M and C bits, and the marked direction's two ends.
struct Peer {
  explicit Peer(RnicOptions rnic = asking(true), bool wants_markers = false, std::size_t emss = kEmss) {
    host.options = std::move(rnic);
    end.emplace(host);
    end->accept_options.initial_receives = 1000;
    end->accept_options.receive_size = 70'000;
    end->engine.start(emss);
    mpa::StartupFrame request;
    request.markers = wants_markers;
    request.crc = host.options.crc;
    request.enhanced = mpa::Enhanced{false, false, 16, false, false, 16};
    end->feed(mpa::encode_startup(request));
    reply = end->drain();
  }

  [[nodiscard]] std::vector<std::byte> fpdu(Octets ulpdu) { return mpa::encode_marked_fpdu(ulpdu, out); }
  /// The next message of a peer that needs the right MSN.
  [[nodiscard]] std::vector<std::byte> send(std::size_t size) {
    return fpdu(Untagged{.msn = ++msn, .body = pattern(size, msn)}.ulpdu());
  }
  /// The ULPDUs in a marked run of the engine; every FPDU must be good.
  std::vector<std::vector<std::byte>> take(Octets octets) {
    std::vector<std::vector<std::byte>> all;
    while (!octets.empty()) {
      const auto measured = mpa::measure_marked(octets, in);
      const auto* found = std::get_if<mpa::MarkedFpdu>(&measured);
      if (found == nullptr) {
        ADD_FAILURE() << octets.size() << " octets that are no FPDU";
        break;
      }
      const Octets marked = octets.first(found->size);
      EXPECT_TRUE(!host.options.crc || mpa::check_marked_crc(marked));
      EXPECT_EQ(mpa::check_markers(marked, in), std::nullopt);
      sizes.push_back(found->ulpdu_length);
      std::vector<std::byte> clean(mpa::fpdu_size(found->ulpdu_length));
      mpa::remove_markers(clean, marked, in);
      all.push_back(to_vector(Octets(clean).subspan(mpa::kLengthSize, found->ulpdu_length)));
      in.advance(found->size);
      octets = octets.subspan(found->size);
    }
    return all;
  }
  rdma::Stream& stream() { return *end->recorder.stream; }
  [[nodiscard]] const std::vector<Message>& received() const { return end->recorder.received; }

  /// The Terminate that is all the engine says from now on, as Layer, Error Type and Code; 0 when there is
  /// none.
  std::uint16_t terminate(bool marked_reply) {
    const auto octets = end->drain();
    const auto said = marked_reply ? take(octets) : ulpdus(octets);
    if (said.size() != 1 || said[0].size() < 20 || said[0][1] != std::byte{0x47}) return 0;
    return load_be<std::uint16_t>(said[0].data() + 18);
  }

  Host host;
  std::optional<End> end;
  std::vector<std::byte> reply;
  mpa::MarkerInserter out;
  mpa::MarkerClock in;
  std::uint32_t msn = 0;
  std::vector<std::size_t> sizes;
};

// --- Receiving -------------------------------------------------------------------------------------------

// Rules: RFC5044-4.3-09, RFC5044-4.3-10, RFC5044-5.1-03, RFC5044-5.2-01, RFC5044-6-02, RFC5044-A-01
TEST(EngineMarkers, MessagesComeWholeHoweverTheStreamIsCut) {
  Peer whole;
  std::vector<std::byte> stream;
  // Markers in front of, behind, and inside FPDUs of every alignment, and one between PAD and CRC.
  for (const std::size_t size : {0U, 1U, 470U, 2U, 3U, 1400U, 491U, 5U, 700U}) {
    const auto octets = whole.send(size);
    stream.insert(stream.end(), octets.begin(), octets.end());
  }
  whole.end->feed(stream);
  ASSERT_EQ(whole.received().size(), 9U);
  EXPECT_EQ(whole.received()[5].payload, pattern(1400, 6));
  for (std::size_t at = 1; at < stream.size(); ++at) {
    Peer peer;
    peer.end->feed(Octets(stream).first(at));
    const auto before = peer.received().size();
    peer.end->feed(Octets(stream).subspan(at));
    ASSERT_EQ(peer.received().size(), 9U) << at << ", of which before: " << before;
    for (std::size_t i = 0; i < 9; ++i) ASSERT_EQ(peer.received()[i].payload, whole.received()[i].payload);
  }
  Peer octet_by_octet;
  octet_by_octet.end->feed(stream, 1);
  EXPECT_EQ(octet_by_octet.received().size(), 9U);
}

// Rules: RFC5044-6-03
TEST(EngineMarkers, NothingIsDeliveredBeforeTheLastOctet) {
  Peer peer;
  const auto stream = peer.send(1000);
  for (const std::byte& octet : Octets(stream).first(stream.size() - 1)) {
    peer.end->feed(Octets(&octet, 1));
    ASSERT_TRUE(peer.received().empty());
  }
  peer.end->feed(Octets(stream).last(1));
  EXPECT_EQ(peer.received().size(), 1U);
}

// Rules: RFC5044-4.3-10, RFC5044-3-09
TEST(EngineMarkers, WritesOfEverySizeArePlacedWithoutMarkers) {
  for (const bool crc : {true, false}) {
    Peer peer(asking(true, crc));
    std::vector<std::byte> sink(mpa::kMaxMulpdu);
    const auto stag =
        peer.stream().register_region({sink, Access::remote_write, Content::octets, 0, false})->stag;
    for (const std::size_t size : {1UL, 490UL, 494UL, 508UL, 5000UL, mpa::kMaxMulpdu - 14}) {
      const auto body = pattern(size, static_cast<unsigned>(size));
      peer.end->feed(peer.fpdu(Tagged{.stag = stag, .to = 0, .body = body}.ulpdu()), 4099);
      EXPECT_TRUE(std::ranges::equal(Octets(sink).first(size), body)) << size;
    }
    EXPECT_FALSE(peer.end->recorder.closed.has_value());
  }
}

// Rules: RFC5044-4.2-02, RFC5044-4.2-03
TEST(EngineMarkers, ReservedBitsOfMarkersAreIgnored) {
  Peer peer;
  auto stream = peer.send(1000);
  for (std::size_t marker = 0; marker < stream.size(); marker += mpa::kMarkerInterval) {
    stream[marker] = stream[marker + 1] = std::byte{0xFF};
    stream[marker + 3] |= std::byte{3};
  }
  store_crc32c(stream.data() + stream.size() - 4, crc32c(Octets(stream).first(stream.size() - 4)));
  peer.end->feed(stream);
  ASSERT_EQ(peer.received().size(), 1U);
  EXPECT_EQ(peer.received()[0].payload, pattern(1000, 1));
}

// Rules: RFC5044-8-01, RFC5044-8-02, RFC5044-8-03, RFC5044-8-06, RFC5044-8-07
TEST(EngineMarkers, AMarkerThatPointsElsewhereIs2_0_03) {
  for (const std::size_t which : {0U, 1U, 2U}) {
    SCOPED_TRACE(which);
    Peer peer;
    peer.end->feed(peer.send(484));  // ends where a marker begins
    ASSERT_EQ(peer.out.run(), 0U);
    auto bad = peer.send(1200);
    const auto good = peer.send(8);
    std::byte* const pointer = bad.data() + which * mpa::kMarkerInterval + 2;
    store_be(pointer, static_cast<std::uint16_t>(load_be<std::uint16_t>(pointer) + 4));
    store_crc32c(bad.data() + bad.size() - 4, crc32c(Octets(bad).first(bad.size() - 4)));
    peer.end->feed(bad);
    peer.end->feed(good);
    EXPECT_EQ(peer.received().size(), 1U);
    EXPECT_EQ(peer.terminate(false), 0x2003);
    EXPECT_TRUE(peer.end->fin);  // by the upper layer's hand, behind the Terminate
    EXPECT_FALSE(peer.end->engine.finished());
  }
}

// Rules: RFC5044-4.3-05, RFC5044-4.4-10, RFC5044-4.4-11, RFC5044-6-01
TEST(EngineMarkers, EveryFlippedBitIsACrcErrorMarkersIncluded) {
  constexpr std::size_t kSize = 4 + 508 + 4 + 4;
  for (std::size_t bit = 0; bit < 8 * kSize; ++bit) {
    Peer peer;
    peer.end->feed(peer.send(484));
    std::vector<std::byte> sink(600);
    const auto stag =
        peer.stream().register_region({sink, Access::remote_write, Content::octets, 0, false})->stag;
    // Leading marker, length, header, 491 octets, PAD, a marker between PAD and CRC, CRC.
    auto bad = peer.fpdu(Tagged{.stag = stag, .to = 0, .body = pattern(491)}.ulpdu());
    ASSERT_EQ(bad.size(), kSize);
    bad[bit / 8] ^= std::byte{0x80} >> (bit % 8);
    peer.end->feed(bad);
    const auto said = peer.terminate(false);
    // A length that claims more waits for it (or is one that nobody may post).
    if (bit / 8 != 4 && bit / 8 != 5) {
      ASSERT_EQ(said, 0x2002) << bit;
    }
    ASSERT_TRUE(std::ranges::all_of(sink, [](std::byte octet) { return octet == std::byte{0}; })) << bit;
  }
}

// Rules: RFC5044-7.1.2-11
TEST(EngineMarkers, ABadFirstFpduIsClosedWithoutATerminate) {
  Peer peer;
  auto bad = peer.send(100);
  bad[3] = std::byte{4};
  store_crc32c(bad.data() + bad.size() - 4, crc32c(Octets(bad).first(bad.size() - 4)));
  peer.end->feed(bad);
  EXPECT_TRUE(peer.end->drain().empty());
  EXPECT_TRUE(peer.end->engine.finished());
}

// Rules: RFC5044-4.4-06, RFC5044-4.4-07, RFC5044-4.1-05
TEST(EngineMarkers, WithCrcsOffTheFieldIsThereAndNotLookedAt) {
  Peer peer(asking(true, false), true);
  auto stream = peer.send(1000);
  stream.back() ^= std::byte{1};
  peer.end->feed(stream);
  ASSERT_EQ(peer.received().size(), 1U);
  peer.stream().post({rdma::Send{1, pattern(1000), false, std::nullopt}});
  const auto octets = peer.end->drain();
  const auto said = peer.take(octets);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(octets.size(), mpa::marked_size(mpa::fpdu_size(said[0].size()), 0));
}

TEST(EngineMarkers, APeerThatLeavesInsideAMarkerOrAnFpduIsLost) {
  Peer whole;
  const auto stream = whole.send(600);
  for (std::size_t n = 1; n < stream.size(); n += 3) {
    Peer peer;
    peer.end->feed(Octets(stream).first(n));
    peer.end->engine.peer_finished();
    peer.end->settle();
    ASSERT_TRUE(peer.end->recorder.closed.has_value());
    EXPECT_EQ(peer.end->recorder.closed->kind, rdma::CloseReason::Kind::transport_lost);
  }
}

// --- Sending ---------------------------------------------------------------------------------------------

// Rules: RFC5044-4.3-01, RFC5044-4.3-02, RFC5044-4.3-06, RFC5044-7.1.1-06
TEST(EngineMarkers, WhatThePeerAsksForItGetsAndOnlyThat) {
  for (const bool ours : {false, true}) {
    for (const bool theirs : {false, true}) {
      SCOPED_TRACE(ours * 2 + theirs);
      Peer peer(asking(ours), theirs);
      EXPECT_EQ(std::to_integer<int>(peer.reply[16]) & mpa::kMarkersFlag, ours ? mpa::kMarkersFlag : 0);
      const auto first = Untagged{.body = pattern(8)}.ulpdu();
      peer.end->feed(ours ? peer.fpdu(first) : mpa::encode_fpdu(first));
      ASSERT_EQ(peer.received().size(), 1U);
      for (rdma::WorkId id = 0; id < 20; ++id) {
        peer.stream().post({rdma::Send{id, pattern(100 * id), false, std::nullopt}});
      }
      const auto octets = peer.end->drain();
      const auto said = theirs ? peer.take(octets) : ulpdus(octets);
      std::vector<std::byte> all;
      for (const auto& ulpdu : said) all.insert(all.end(), ulpdu.begin() + 18, ulpdu.end());
      EXPECT_EQ(all.size(), 19'000U);
      EXPECT_TRUE(std::ranges::equal(Octets(all).last(1900), pattern(1900)));
      EXPECT_EQ(to_hex(Octets(octets).first(4)) == "00000000", theirs);
      EXPECT_EQ(peer.end->recorder.completions.size(), 20U);
    }
  }
}

// Rules: RFC5044-4.3-01, RFC5044-7.1.1-06
TEST(EngineMarkers, AnInitiatorInsertsThemWhenTheReplyAsks) {
  Host host;
  End end(host, rdma::StreamOptions{});
  end.engine.start(kEmss);
  std::ignore = end.drain();
  end.recorder.when_open = [](rdma::Stream& stream) {
    stream.post({rdma::Send{1, pattern(3000), false, std::nullopt}});
  };
  mpa::StartupFrame reply;
  reply.kind = mpa::StartupKind::reply;
  reply.markers = reply.crc = true;
  reply.enhanced = mpa::Enhanced{false, false, 16, false, false, 16};
  end.feed(mpa::encode_startup(reply));
  Peer reader;
  const auto said = reader.take(end.drain());
  ASSERT_EQ(said.size(), 3U);
  EXPECT_TRUE(std::ranges::equal(Octets(said[0]).subspan(18), Octets(pattern(3000)).first(1442 - 18)));
}

// Rules: RFC5044-7.1.2-11
TEST(EngineMarkers, ARespondersMarkerWaitsForTheFirstFpdu) {
  Peer peer(asking(false), true);
  peer.stream().post({rdma::Send{1, pattern(8), false, std::nullopt}});
  EXPECT_TRUE(peer.end->drain().empty());
  peer.end->feed(Untagged{.body = pattern(8)}.fpdu());
  EXPECT_EQ(peer.take(peer.end->drain()).size(), 1U);
}

TEST(EngineMarkers, ATerminateHasItsMarkersToo) {
  Peer peer(asking(false), true);
  peer.end->feed(Untagged{.body = pattern(8)}.fpdu());
  peer.end->feed(Untagged{.msn = 7}.fpdu());
  EXPECT_EQ(peer.terminate(true), 0x1203);
}

/// ULPDU sizes of a long Write and the answer to a long Read, which are all of the current MULPDU but the
/// last.
std::set<std::size_t> full_ulpdus(std::size_t emss, bool markers) {
  Peer peer(asking(false), markers, emss);
  peer.end->feed(Untagged{.body = pattern(8)}.fpdu());
  const std::vector<std::byte> source(300'000);
  peer.stream().post({rdma::Write{1, source, {1, 0}, nullptr}});
  const auto octets = peer.end->drain();
  const auto said = markers ? peer.take(octets) : ulpdus(octets);
  std::set<std::size_t> sizes;
  for (std::size_t i = 0; i + 1 < said.size(); ++i) sizes.insert(said[i].size());
  return sizes;
}

// Rules: RFC5044-3-02, RFC5044-4.5-01, RFC5044-4.5-02, RFC5044-4.5-05, RFC5044-5.1-01, RFC5044-3-04
// Rules: RFC5044-4.5-06
TEST(EngineMarkers, UlpdusAreAsLongAsTheSegmentAllows) {
  using testing::ElementsAre;
  EXPECT_THAT(full_ulpdus(1460, false), ElementsAre(1454U));
  EXPECT_THAT(full_ulpdus(1460, true), ElementsAre(1460U - (6 + 4 * 3)));
  EXPECT_THAT(full_ulpdus(1461, true), ElementsAre(1461U - (6 + 4 * 3 + 1)));
  EXPECT_THAT(full_ulpdus(512, true), ElementsAre(512U - (6 + 4)));
  EXPECT_THAT(full_ulpdus(9000, true), ElementsAre(9000U - (6 + 4 * 18)));
  EXPECT_THAT(full_ulpdus(65'483, false), ElementsAre(64'768U));
  EXPECT_THAT(full_ulpdus(65'483, true), ElementsAre(64'768U));
  EXPECT_THAT(full_ulpdus(65'000, true), ElementsAre(65'000U - (6 + 4 * 127)));
  for (const std::size_t emss : {std::size_t{0}, std::size_t{88}, std::size_t{133}}) {
    EXPECT_THAT(full_ulpdus(emss, true), ElementsAre(128U));
    EXPECT_THAT(full_ulpdus(emss, false), ElementsAre(128U));
  }
}

// Rules: RFC5044-3-02, RFC5044-4.5-01
TEST(EngineMarkers, ASegmentSizeThatChangesIsFollowed) {
  Peer peer(asking(false), true, 536);
  peer.end->feed(Untagged{.body = pattern(8)}.fpdu());
  const std::vector<std::byte> source(20'000);
  peer.stream().post({rdma::Write{1, source, {1, 0}, nullptr}});
  std::ignore = peer.take(peer.end->drain());
  peer.end->engine.set_emss(9000);
  peer.stream().post({rdma::Write{2, source, {1, 0}, nullptr}});
  std::ignore = peer.take(peer.end->drain());
  EXPECT_EQ(peer.sizes.front(), 536U - (6 + 8));
  EXPECT_EQ(std::ranges::max(peer.sizes), 9000U - (6 + 72));
}

TEST(EngineMarkers, ARegionOfWordsIsSentThroughMarkers) {
  Peer peer(asking(false), true);
  std::vector<std::uint64_t> words(400);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i * 0x0101010101010101U;
  const auto memory = std::as_writable_bytes(std::span(words));
  const auto stag =
      peer.stream().register_region({memory, Access::remote_read, Content::words, 0, false})->stag;
  peer.end->feed(read_request(1, {7, 0, 3197, stag, 3}).fpdu());
  std::vector<std::byte> all;
  for (const auto& ulpdu : peer.take(peer.end->drain()))
    all.insert(all.end(), ulpdu.begin() + 14, ulpdu.end());
  EXPECT_TRUE(std::ranges::equal(all, memory.subspan(3, 3197)));
}

TEST(EngineMarkers, TheObserverCountsMarkersAsOctetsOfTheStream) {
  std::vector<FpduEvent> events;
  RnicOptions rnic = asking(true);
  rnic.fpdu_observer = [&events](const FpduEvent& event) { events.push_back(event); };
  Peer peer(rnic, true);
  peer.end->feed(joined({peer.send(484), peer.send(8), peer.send(8)}));
  for (rdma::WorkId id = 0; id < 3; ++id) {
    peer.stream().post({rdma::Send{id, pattern(id == 0 ? 484 : 8), false, std::nullopt}});
  }
  std::ignore = peer.end->drain();
  ASSERT_EQ(events.size(), 6U);
  // 24 octets of start-up, a marker, 512 - 4 of the first FPDU, another marker.
  for (const std::size_t first : {0U, 3U}) {
    EXPECT_EQ(events[first].stream_octet, 28U);
    EXPECT_EQ(events[first + 1].stream_octet, 24U + 512 + 4);
    EXPECT_EQ(events[first + 2].stream_octet, 24U + 512 + 4 + 32);
    EXPECT_EQ(events[first + 2].msn, 3U);
    EXPECT_EQ(events[first + 2].payload_length, 8U);
  }
}

}  // namespace
}  // namespace kbtp::rnic::test
