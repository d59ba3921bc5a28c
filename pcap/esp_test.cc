#include "pcap/esp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "pcap/esp_seal.h"

namespace kbtp::trace {
namespace {

using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const TransportAddress kFrom = v4(1, 0);
const TransportAddress kTo = v4(2, 0);
constexpr std::uint32_t kSpi = 0x1148FEED;

EspKey key_for(const EspTransform& transform, std::uint32_t spi = kSpi) {
  EspKey key;
  key.spi = spi;
  key.transform = transform;
  key.line = 3;
  return key;
}

EspPacket packet_of(const Bytes& octets) {
  return {kFrom, kTo, static_cast<std::uint32_t>(octets.size()), octets};
}

Bytes segment(std::size_t payload = 9) { return tcp(40000, 7420, 17, kAck, pattern(payload)); }

/// A stage with the keys, the wrong keys that it told and what it made of the last packet.
struct Bench {
  explicit Bench(std::vector<EspKey> keys)
      : stage(std::move(keys), [this](const EspStage::Association& one, std::size_t line) {
          told.push_back(one.to_string() + " line " + std::to_string(line));
        }) {}

  Expected<Packet, FrameProblem> open(const Packet& packet) {
    stage.begin_frame();
    auto opened = stage.open(packet);
    if (!opened) return unexpected(FrameProblem{FrameProblem::Kind::other_protocol, "no ESP"});
    return std::move(*opened);
  }
  bool opens(const Bytes& octets) { return open(packet_of(octets)).has_value(); }
  EspStage::Association account() const { return stage.associations().at(0); }

  std::vector<std::string> told;
  EspStage stage;
};

std::vector<EspTransform> all_transforms() {
  std::vector<EspTransform> all;
  for (const std::uint8_t icv : {8, 12, 16}) {
    for (const std::size_t key : {16, 24, 32}) all.push_back(gcm(icv, key));
  }
  for (const EspIntegrity integrity : {EspIntegrity::hmac_sha1_96, EspIntegrity::hmac_sha256_128,
                                       EspIntegrity::hmac_sha384_192, EspIntegrity::hmac_sha512_256}) {
    all.push_back(with_hmac(EspCipher::null, integrity));
    for (const std::size_t key : {16, 24, 32}) all.push_back(with_hmac(EspCipher::aes_cbc, integrity, key));
  }
  return all;
}

TEST(Esp, EveryTransformInTransportAndTunnelModeWithShortAndExtendedNumbers) {
  for (const EspTransform& transform : all_transforms()) {
    for (const bool extended : {false, true}) {
      for (std::size_t payload = 0; payload < 18; ++payload) {
        Bench bench({key_for(transform)});
        const auto direct = bench.open(packet_of(seal(transform, kSpi, 1, 6, segment(payload), extended)));
        ASSERT_TRUE(direct) << direct.error().text;
        const auto& tcp = std::get<TcpSegment>(*direct);
        EXPECT_EQ(tcp.source, v4(1, 40000));
        EXPECT_EQ(to_vector(tcp.payload), pattern(payload));
        EXPECT_FALSE(bench.stage.seen()->tunnel);
        EXPECT_EQ(bench.stage.seen()->sequence, 1U);

        const Bytes inner = ipv6(v6(7, 0), v6(8, 0), 6, segment(payload));
        const auto tunnel = bench.open(packet_of(seal(transform, kSpi, 2, 41, inner, extended)));
        ASSERT_TRUE(tunnel) << tunnel.error().text;
        EXPECT_EQ(std::get<TcpSegment>(*tunnel).source, v6(7, 40000));
        EXPECT_TRUE(bench.stage.seen()->tunnel);
        EXPECT_EQ(bench.account().opened, 2U);
        EXPECT_EQ(bench.account().odd_padding, 0U);
        EXPECT_THAT(account_of(bench.stage), IsEmpty());
      }
    }
  }
}

TEST(Esp, OneBitOfAnythingMakesTheIcvWrong) {
  for (const EspTransform& transform :
       {gcm(8), with_hmac(EspCipher::aes_cbc, EspIntegrity::hmac_sha256_128)}) {
    const Bytes good = seal(transform, kSpi, 5, 6, segment());
    for (std::size_t at = 4; at < good.size(); ++at) {
      Bench bench({key_for(transform)});
      Bytes bad = good;
      bad[at] ^= std::byte{0x10};
      EXPECT_FALSE(bench.opens(bad)) << at;
      EXPECT_EQ(bench.account().icv_wrong, 1U);
      EXPECT_TRUE(bench.opens(good)) << at;
    }
  }
}

TEST(Esp, CutAtEveryOctet) {
  for (const EspTransform& transform : all_transforms()) {
    const Bytes good = seal(transform, kSpi, 5, 6, segment());
    Bench bench({key_for(transform)});
    for (std::size_t kept = 0; kept < good.size(); ++kept) {
      const Octets octets = Octets(good).first(kept);
      // Cut in the capture: nothing is tried. Cut on the wire: it cannot fit.
      const auto in_capture =
          bench.open(EspPacket{kFrom, kTo, static_cast<std::uint32_t>(good.size()), octets});
      ASSERT_FALSE(in_capture);
      EXPECT_EQ(in_capture.error().kind, FrameProblem::Kind::cut_short);
      EXPECT_FALSE(bench.open(EspPacket{kFrom, kTo, static_cast<std::uint32_t>(kept), octets}));
    }
    EXPECT_EQ(bench.account().opened, 0U);
    EXPECT_TRUE(bench.opens(good));
  }
}

TEST(Esp, TheWrongKeyIsToldOnceForEachAssociation) {
  Bench bench({key_for(gcm(16, 32, 99)), key_for(gcm(16, 32, 99), 7)});
  for (std::uint64_t sequence = 1; sequence < 10; ++sequence) {
    EXPECT_FALSE(bench.opens(seal(gcm(), kSpi, sequence, 6, segment())));
    EXPECT_FALSE(bench.opens(seal(gcm(), 7, sequence, 6, segment())));
  }
  EXPECT_THAT(bench.told, ElementsAre("SPI 0x1148feed from 10.0.0.1 to 10.0.0.2 line 3",
                                      "SPI 0x00000007 from 10.0.0.1 to 10.0.0.2 line 3"));
  EXPECT_EQ(bench.account().icv_wrong, 9U);
  EXPECT_THAT(account_of(bench.stage), IsEmpty());
}

TEST(Esp, ADamagedPacketOfAnAssociationThatOpensIsCountedAndNotCalledAWrongKey) {
  Bench bench({key_for(gcm())});
  EXPECT_TRUE(bench.opens(seal(gcm(), kSpi, 1, 6, segment())));
  Bytes damaged = seal(gcm(), kSpi, 2, 6, segment());
  damaged.back() ^= std::byte{1};
  EXPECT_FALSE(bench.opens(damaged));
  EXPECT_THAT(bench.told, IsEmpty());
  EXPECT_THAT(account_of(bench.stage), ElementsAre(HasSubstr("of 2 packets: 1 with a wrong ICV")));
}

TEST(Esp, OfSeveralKeysTheOneThatFitsIsTakenEvenWhenItChanges) {
  Bench bench({key_for(gcm(16, 32, 50)), key_for(gcm()),
               key_for(with_hmac(EspCipher::aes_cbc, EspIntegrity::hmac_sha1_96))});
  EXPECT_TRUE(bench.opens(seal(gcm(), kSpi, 1, 6, segment())));
  EXPECT_TRUE(bench.opens(seal(gcm(16, 32, 50), kSpi, 1, 6, segment())));
  EXPECT_TRUE(
      bench.opens(seal(with_hmac(EspCipher::aes_cbc, EspIntegrity::hmac_sha1_96), kSpi, 1, 6, segment())));
  EXPECT_TRUE(bench.opens(seal(gcm(), kSpi, 2, 6, segment())));
  EXPECT_THAT(bench.told, IsEmpty());
}

TEST(Esp, AssociationsWithoutAKeyAreCounted) {
  Bench bench({});
  EXPECT_FALSE(bench.opens(seal(gcm(), 1, 1, 6, segment())));
  EXPECT_FALSE(bench.opens(seal(gcm(), 1, 2, 6, segment())));
  EXPECT_FALSE(bench.opens(seal(gcm(), 2, 1, 6, segment())));
  EXPECT_THAT(account_of(bench.stage),
              ElementsAre("3 ESP packets of 2 SAs could not be read: no key for them (--esp-keys)"));
}

TEST(Esp, ExtendedNumbersOverTheWrapForwardsAndBack) {
  for (const EspTransform& transform : {gcm(), with_hmac(EspCipher::null, EspIntegrity::hmac_sha512_256)}) {
    Bench bench({key_for(transform)});
    const std::uint64_t wrap = std::uint64_t{5} << 32;
    for (const std::uint64_t sequence :
         {wrap - 3, wrap - 1, wrap, wrap + 1, wrap - 2, wrap + 2, wrap + 0x7FFFFFFF, wrap + 0xFFFFFFF0,
          2 * wrap - wrap + (std::uint64_t{1} << 32) + 4}) {
      EXPECT_TRUE(bench.opens(seal(transform, kSpi, sequence, 6, segment(), true))) << sequence;
      ASSERT_NE(bench.stage.seen(), nullptr);
      EXPECT_EQ(bench.stage.seen()->sequence, sequence);
    }
    // Once extended, never short.
    EXPECT_FALSE(bench.opens(seal(transform, kSpi, 9, 6, segment(), false)));
  }
}

TEST(Esp, AnUpperHalfThatNobodyCouldGuessComesWithTheKey) {
  const std::uint64_t sequence = (std::uint64_t{0xABCD1234} << 32) + 0xFFFFFFFF;
  Bench guessing({key_for(gcm())});
  EXPECT_FALSE(guessing.opens(seal(gcm(), kSpi, sequence, 6, segment(), true)));
  EspTransform told = gcm();
  told.extended = true;
  told.sequence_high = 0xABCD1234;
  Bench bench({key_for(told)});
  EXPECT_TRUE(bench.opens(seal(gcm(), kSpi, sequence, 6, segment(), true)));
  EXPECT_TRUE(bench.opens(seal(gcm(), kSpi, sequence + 1, 6, segment(), true)));
  EXPECT_EQ(bench.stage.seen()->sequence, sequence + 1);
}

TEST(Esp, TheTrailerIsChecked) {
  Bench bench({key_for(gcm())});
  // Next headers that are not what follows.
  EXPECT_FALSE(bench.opens(seal(gcm(), kSpi, 1, 41, ipv4(kFrom, kTo, 6, segment()))));
  EXPECT_FALSE(bench.opens(seal(gcm(), kSpi, 2, 4, ipv6(v6(1, 0), v6(2, 0), 6, segment()))));
  EXPECT_FALSE(bench.opens(seal(gcm(), kSpi, 3, 4, {})));
  EXPECT_FALSE(bench.opens(seal(gcm(), kSpi, 4, 59, pattern(40))));  // a dummy packet
  EXPECT_EQ(bench.account().opened, 4U);
  EXPECT_TRUE(bench.opens(seal(gcm(), kSpi, 5, 6, segment(8), false, true)));
  EXPECT_EQ(bench.account().odd_padding, 1U);
  // Pad Length says more than there is: the second octet from the end, with NULL encryption.
  const EspTransform plain = with_hmac(EspCipher::null, EspIntegrity::hmac_sha1_96);
  EspOpener opener(plain);
  Bytes scratch(200);
  for (std::size_t pad = 0; pad < 256; ++pad) {
    Bytes packet(8 + 30 + 2 + 12);
    packet[38] = static_cast<std::byte>(pad);
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    HMAC(EVP_sha1(), plain.integrity_key.data(), 20, raw(packet), 40, digest.data(), &size);
    std::copy_n(std::as_bytes(std::span(digest)).begin(), 12, packet.begin() + 40);
    const auto content = opener.open(packet, std::nullopt, scratch);
    EXPECT_EQ(content.has_value(), pad <= 30) << pad;
    if (content) {
      EXPECT_EQ(content->payload.size(), 30 - pad);
    }
  }
}

TEST(Esp, InUdpOnItsPortsAndOnOthersOnlyWithTheSpiOfAKey) {
  EspKey any = key_for(gcm(), 0);
  any.spi_mask = 0;
  const auto datagram = [](std::uint16_t port, Octets payload) {
    return UdpDatagram{v4(1, port), v4(2, port), static_cast<std::uint32_t>(payload.size()), payload, {}};
  };
  const Bytes sealed = seal(gcm(), kSpi, 1, 6, segment());
  Bench exact({key_for(gcm())});
  Bench wild({any});
  for (const std::uint16_t port : {4500, 4501, 9}) {
    const auto opened = exact.open(datagram(port, sealed));
    ASSERT_TRUE(opened) << port;
    EXPECT_EQ(std::get<TcpSegment>(*opened).source, v4(1, 40000));
    EXPECT_TRUE(exact.stage.seen()->in_udp);
    EXPECT_EQ(wild.open(datagram(port, sealed)).has_value(), port != 9);
  }
  Bytes ike(40);  // four octets of zero
  EXPECT_FALSE(exact.stage.open(datagram(4500, ike)));
  EXPECT_FALSE(exact.stage.open(datagram(4500, *from_hex("ff"))));
  EXPECT_FALSE(exact.stage.open(Packet(TcpSegment{})));
}

TEST(Esp, EspInEspTwiceAndNoDeeper) {
  Bench bench({key_for(gcm())});
  const Bytes once = seal(gcm(), kSpi, 1, 6, segment());
  const Bytes twice = seal(gcm(), kSpi, 2, 50, once);
  const Bytes thrice = seal(gcm(), kSpi, 3, 50, twice);
  bench.stage.begin_frame();
  auto outer = bench.stage.open(packet_of(twice));
  ASSERT_TRUE(outer && *outer);
  auto inner = bench.stage.open(**outer);
  ASSERT_TRUE(inner && *inner);
  EXPECT_EQ(to_vector(std::get<TcpSegment>(**inner).payload), pattern(9));
  bench.stage.begin_frame();
  outer = bench.stage.open(packet_of(thrice));
  inner = bench.stage.open(**outer);
  const auto third = bench.stage.open(**inner);
  ASSERT_TRUE(third);
  EXPECT_FALSE(*third);
}

}  // namespace
}  // namespace kbtp::trace
