// What the suite does for a target's sake: cutting writes, reading a Terminate in another bit order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

#include "conformance/evidence.h"
#include "conformance/pieces.h"
#include "rdmap_binding/mpa/fpdu.h"

namespace kbtp::conformance {
namespace {

using testing::ElementsAre;

std::vector<std::byte> fpdus(std::initializer_list<std::size_t> ulpdus) {
  std::vector<std::byte> out;
  for (const std::size_t size : ulpdus) {
    const auto fpdu = mpa::encode_fpdu(std::vector<std::byte>(size, std::byte{7}));
    out.insert(out.end(), fpdu.begin(), fpdu.end());
  }
  return out;
}

TEST(Pieces, FpdusThatFitShareAWrite) {
  EXPECT_THAT(pieces_with_whole_trailers(fpdus({18, 18, 18}), 1448), ElementsAre(72));
  EXPECT_THAT(pieces_with_whole_trailers(fpdus({18, 18, 18}), 64), ElementsAre(48, 24));
}

TEST(Pieces, NoCutIsInsideATrailer) {
  for (std::size_t size = 1; size < 300; ++size) {
    const auto octets = fpdus({size, 40, size});
    std::size_t at = 0;
    for (const std::size_t piece : pieces_with_whole_trailers(octets, 64)) {
      ASSERT_GT(piece, 0U);
      ASSERT_LE(piece, 64U);
      at += piece;
      for (const std::size_t fpdu :
           {std::size_t{0}, mpa::fpdu_size(size), mpa::fpdu_size(size) + mpa::fpdu_size(40)}) {
        const std::size_t ulpdu = fpdu == mpa::fpdu_size(size) ? 40 : size;
        const std::size_t trailer = fpdu + mpa::kLengthSize + ulpdu;
        EXPECT_FALSE(at > trailer && at < fpdu + mpa::fpdu_size(ulpdu)) << size << " cut at " << at;
      }
    }
    EXPECT_EQ(at, octets.size());
  }
}

TEST(Pieces, OctetsThatAreNoFpduAreStillWritten) {
  const std::vector<std::byte> cut(100, std::byte{0xFF});
  const auto pieces = pieces_with_whole_trailers(cut, 64);
  EXPECT_EQ(std::accumulate(pieces.begin(), pieces.end(), std::size_t{0}), cut.size());
  EXPECT_THAT(pieces_with_whole_trailers(Octets(cut).first(1), 64), ElementsAre(1));
  EXPECT_TRUE(pieces_with_whole_trailers({}, 64).empty());
}

// siw's answer to a bad message sequence number as it was seen on the wire (probe "send-bad-msn").
const std::vector<std::byte> kSiwTerminate = [] {
  constexpr unsigned char octets[] = {0x41, 0x47, 0, 0, 0,    0,    0,    0, 0, 2, 0,    0,    0, 1,
                                      0,    0,    0, 0, 0x21, 0x03, 0x03, 0, 0, 1, 0x41, 0x43, 0, 0,
                                      0,    0,    0, 0, 0,    0,    0,    0, 0, 2, 0,    0,    0, 0};
  std::vector<std::byte> out;
  for (const unsigned char octet : octets) out.push_back(std::byte{octet});
  return out;
}();

Terminate terminate_of(const Allowances& allowances) {
  const Evidence evidence({{.kind = Event::Kind::fpdu, .from = Side::target, .octets = kSiwTerminate}},
                          wire::kProposed, allowances);
  EXPECT_EQ(evidence.on(0).terminates.size(), 1U);
  return evidence.on(0).terminates.front();
}

TEST(SwappedTerminate, IsReadAsItsSenderMeantItWhenTheProfileSaysSo) {
  const Terminate meant = terminate_of({.swapped_terminates = true});
  EXPECT_EQ(meant.layer, 1);
  EXPECT_EQ(meant.type, 2);
  EXPECT_EQ(meant.code, 3);
  EXPECT_TRUE(meant.m && meant.d && !meant.r);
  EXPECT_EQ(meant.reserved, 0);
  EXPECT_EQ(meant.ddp_header.size(), 18U);
  EXPECT_EQ(meant.control, 0x2103'0300U);
}

TEST(SwappedTerminate, IsReadAsTheRfcHasItOtherwise) {
  const Terminate seen = terminate_of({});
  EXPECT_EQ(seen.layer, 2);
  EXPECT_EQ(seen.type, 1);
  EXPECT_FALSE(seen.m || seen.d);
  EXPECT_EQ(seen.reserved, 0x0300);
}

}  // namespace
}  // namespace kbtp::conformance
