// Fuzzes what becomes of a TCP stream whose segments come in any order: the events must be those of the same
// segments in their order.
//
// Input: an octet of flags, an octet with the number of orders (0 to 63), so many orders, the client's
// stream. Flags: 1 the server's MPA Reply comes first, 2 it asks for markers, 4 it asks for CRCs, 8 every
// connection is iWARP. Orders are taken in turn, one a segment: bits 0 to 3 its size, bits 4 to 6 how many
// segments it comes late, bit 7 that it comes twice.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/require.h"
#include "pcap/trace.h"
#include "rdmap_binding/mpa/startup.h"

namespace {

using namespace kbtp::trace;

constexpr std::uint32_t kClientStart = 0xFFFFFFF0;  // sequence numbers wrap at once
constexpr std::uint32_t kServerStart = 77;

/// The segments' events, as text without frame numbers and times.
class Told final : public Observer {
 public:
  explicit Told(bool expect_iwarp) {
    options_.expect_iwarp = expect_iwarp;
    decoder_.emplace(options_, *this);
  }
  void on_event(const ConnectionInfo&, const Event& event) override {
    lines.push_back(std::to_string(event.offset) + (event.from == Side::client ? " > " : " < ") +
                    describe(event));
  }
  void on_end(const ConnectionInfo& connection) override {
    kbtp::fuzz::require(connection.counters[0].missing == 0, "nothing is missing");
    kbtp::fuzz::require(connection.counters[0].differing == 0, "nothing came with other values");
  }
  void on_other_frame(const FrameView&, const FrameProblem&) override {
    kbtp::fuzz::require(false, "every frame is a TCP segment");
  }

  void say(bool client, std::uint32_t sequence, std::uint32_t acknowledgment, std::uint8_t flags,
           kbtp::Octets payload) {
    std::vector<std::byte> frame(40 + payload.size());
    kbtp::ByteWriter out(frame);
    out.u16(0x4500);
    out.u16(static_cast<std::uint16_t>(frame.size()));
    out.u32(0);
    out.u32(64U << 24 | 6U << 16);
    out.u32(client ? 1 : 2);
    out.u32(client ? 2 : 1);
    out.u16(client ? 40000 : 7420);
    out.u16(client ? 7420 : 40000);
    out.u32(sequence);
    out.u32(acknowledgment);
    out.u16(static_cast<std::uint16_t>(5 << 12 | flags));
    out.zeros(6);
    out.bytes(payload);
    ++frames_;
    decoder_->frame({frames_, static_cast<std::int64_t>(frames_), LinkType::raw_ip,
                     static_cast<std::uint32_t>(frame.size()), frame});
  }
  void finish() { decoder_->finish(); }

  std::vector<std::string> lines;

 private:
  DecodeOptions options_;
  std::optional<Decoder> decoder_;
  std::uint64_t frames_ = 0;
};

struct Segment {
  std::size_t place = 0;  ///< in which it comes
  std::size_t at = 0;
  kbtp::Octets octets;
};

std::vector<std::string> told(std::uint8_t flags, const std::vector<Segment>& segments) {
  constexpr std::uint8_t kSyn = 0x02;
  constexpr std::uint8_t kAck = 0x10;
  Told told((flags & 8) != 0);
  std::uint32_t server_next = kServerStart + 1;
  told.say(true, kClientStart, 0, kSyn, {});
  told.say(false, kServerStart, kClientStart + 1, kSyn | kAck, {});
  if ((flags & 1) != 0) {
    kbtp::mpa::StartupFrame reply;
    reply.kind = kbtp::mpa::StartupKind::reply;
    reply.markers = (flags & 2) != 0;
    reply.crc = (flags & 4) != 0;
    const auto octets = kbtp::mpa::encode_startup(reply);
    told.say(false, server_next, kClientStart + 1, kAck, octets);
    server_next += static_cast<std::uint32_t>(octets.size());
  }
  for (const Segment& segment : segments)
    told.say(true, kClientStart + 1 + static_cast<std::uint32_t>(segment.at), server_next, kAck,
             segment.octets);
  told.finish();
  return std::move(told.lines);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::uint8_t flags = data[0];
  const std::size_t orders = data[1] % 64;
  if (orders == 0 || size < 2 + orders) return 0;
  const kbtp::Octets stream(reinterpret_cast<const std::byte*>(data + 2 + orders), size - 2 - orders);

  std::vector<Segment> in_order;
  std::vector<Segment> scattered;
  for (std::size_t at = 0; at < stream.size();) {
    const std::uint8_t order = data[2 + in_order.size() % orders];
    const std::size_t n = std::min<std::size_t>(1 + (order & 15U) * 23, stream.size() - at);
    const Segment segment{in_order.size(), at, stream.subspan(at, n)};
    in_order.push_back(segment);
    scattered.push_back(segment);
    scattered.back().place += (order >> 4 & 7U) * 3;
    if ((order & 0x80) != 0) scattered.push_back(segment);
    at += n;
  }
  std::ranges::sort(scattered, {}, [](const Segment& one) { return std::pair(one.place, one.at); });
  kbtp::fuzz::require(told(flags, in_order) == told(flags, scattered),
                      "the order of segments does not matter");
  return 0;
}
