// The corpora of fuzz_trace and fuzz_segments: small captures of every link type, transport and kind of
// message, made by the builders that the other tests use.

#include <filesystem>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "fuzz/seeds.h"
#include "pcap/capture_file.h"
#include "pcap/esp.h"
#include "pcap/esp_seal.h"
#include "pcap/fuzz_key.h"
#include "pcap/test_frames.h"
#include "pcap/test_gzip.h"
#include "pcap/test_ib_frames.h"
#include "pcap/trace.h"
#include "proto/wire/completion.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"
#include "rdmap_binding/mpa/marker.h"

namespace kbtp::trace {
namespace {

using namespace test;
using rdmap::Opcode;

constexpr std::size_t kLongest = 4096;  // that fuzz/run.sh lets libFuzzer read

Bytes send(std::uint32_t msn, Octets message, Opcode opcode = Opcode::send, std::uint32_t stag = 0) {
  return untagged(opcode, 0, msn, 0, true, message, stag);
}
Bytes completion(std::uint64_t id, wire::Status status = wire::Status::success) {
  wire::Completion message;
  message.request_id = id;
  message.handle = id;
  message.status = status;
  message.data_length = 64;
  return wire::encode(message);
}
wire::DataDescriptor buffer(std::uint32_t stag) { return {stag, 0x1000, 64}; }
Bytes load(std::uint64_t id, std::uint32_t stag = 0x1234) {
  return wire::encode(wire::Request(wire::Load{.head = {id, id, 0, 0}, .destination = buffer(stag)}));
}

Conversation begun(bool crc = true) {
  Conversation talk;
  talk.open();
  talk.say(true, request(crc));
  talk.say(false, reply(crc));
  return talk;
}
void end(Conversation& talk) {
  talk.fin(true);
  talk.fin(false);
}

/// Every message of KBTP; the direct modes are granted and used.
Conversation kbtp_session() {
  Conversation talk = begun();
  talk.say(true, send(1, wire::encode(wire::Hello{.request_id = 1})));
  wire::HelloAck ack{.request_id = 1, .version = 1, .block_size = 64};
  ack.table_stag = 0x11;
  ack.pool_stag = 0x12;
  ack.ring_stag = 0x13;
  ack.head_stag = 0x14;
  ack.ring_log2 = 6;
  talk.say(false, send(1, wire::encode(ack)));
  talk.say(true, send(2, load(7)));
  talk.say(false, tagged(Opcode::rdma_write, 0x1234, 0x1000, true, pattern(64)));
  talk.say(false, send(2, completion(7)));
  wire::Store store{.head = {8, 8, 0, 0}, .body = {.source = buffer(0x22)}};
  talk.say(true, send(3, wire::encode(wire::Request(store))));
  talk.say(false, untagged(Opcode::read_request, 1, 1, 0, true,
                           rdmap::encode(rdmap::ReadRequest{0x33, 0, 64, 0x22, 0x1000})));
  talk.say(true, tagged(Opcode::read_response, 0x33, 0, true, pattern(64)));
  talk.say(false, send(3, completion(8, wire::Status::sealed), Opcode::send_invalidate, 0x22));
  talk.say(true, send(4, wire::encode(wire::Request(wire::Free{.head = {9, 9, 0, 0}}))));
  talk.say(false, send(4, completion(9, wire::Status::not_bound), Opcode::send_se));
  talk.say(true, untagged(Opcode::atomic_request, 1, 1, 0, true,
                          rdmap::encode(rdmap::AtomicRequest{
                              .request_identifier = 5, .remote_stag = 0x14, .add_or_swap_data = 1})));
  talk.say(false, untagged(Opcode::atomic_response, 3, 1, 0, true,
                           rdmap::encode(rdmap::AtomicResponse{.request_identifier = 5})));
  talk.say(true, tagged(Opcode::rdma_write, 0x12, 64, true, pattern(64)));
  talk.say(true, untagged(Opcode::immediate, 0, 5, 0, true, rdmap::encode(rdmap::Immediate{42})));
  talk.say(true, tagged(Opcode::rdma_write, 0x22, 0x1000, true, pattern(8)));  // after its invalidation
  end(talk);
  return talk;
}

Conversation terminated(bool siw) {
  Conversation talk = begun();
  const Bytes bad = send(1, load(1));
  talk.say(true, bad);
  const Octets ulpdu = Octets(bad).subspan(mpa::kLengthSize);
  const auto body =
      rdmap::make_terminate(terminate::kRdmapInvalidStag, rdmap::make_offender(ulpdu, ulpdu.size()));
  Bytes octets = to_vector(body.octets());
  if (siw) std::swap(octets[0], octets[1]);
  talk.say(false, untagged(Opcode::terminate, 2, 1, 0, true, octets));
  talk.rst(false);
  return talk;
}

Conversation marked() {
  Conversation talk;
  mpa::StartupFrame frame;
  frame.markers = frame.crc = true;
  talk.open();
  talk.say(true, mpa::encode_startup(frame));
  frame.kind = mpa::StartupKind::reply;
  talk.say(false, mpa::encode_startup(frame));
  mpa::MarkerInserter inserter;
  for (std::uint32_t msn = 1; msn < 4; ++msn) {
    const Bytes fpdu = send(msn, pattern(300));
    const Octets ulpdu = Octets(fpdu).subspan(2, 18 + 300);
    talk.say(true, mpa::encode_marked_fpdu(ulpdu, inserter));
  }
  return talk;
}

/// The frames with another link header: `rebuild` gets the IP packet.
std::vector<Frame> relinked(std::vector<Frame> frames, LinkType link,
                            const std::function<Bytes(Octets ip)>& rebuild) {
  for (Frame& frame : frames) {
    frame.link = link;
    frame.octets = rebuild(Octets(frame.octets).subspan(14));
    frame.wire_length = static_cast<std::uint32_t>(frame.octets.size());
  }
  return frames;
}
Bytes behind(Bytes header, Octets rest) {
  append(header, rest);
  return header;
}
Bytes bytes(std::initializer_list<unsigned> values) {
  Bytes octets;
  for (const unsigned value : values) octets.push_back(static_cast<std::byte>(value));
  return octets;
}

/// Each packet in two fragments.
std::vector<Frame> in_fragments(const std::vector<Frame>& whole) {
  std::vector<Frame> frames;
  for (const Frame& frame : whole) {
    const Octets ip = Octets(frame.octets).subspan(14);
    const std::size_t cut = 20 + 16;
    for (const bool second : {true, false}) {  // the second comes first
      Bytes packet = to_vector(ip.first(20)) + to_vector(second ? ip.subspan(cut) : ip.subspan(20, cut - 20));
      store_be(packet.data() + 2, static_cast<std::uint16_t>(packet.size()));
      store_be(packet.data() + 4, static_cast<std::uint16_t>(frame.number));
      store_be(packet.data() + 6, static_cast<std::uint16_t>(second ? 2 : 0x2000));
      Frame part = frame;
      part.octets = ethernet(0x0800, packet);
      part.wire_length = static_cast<std::uint32_t>(part.octets.size());
      frames.push_back(std::move(part));
    }
  }
  return frames;
}

std::vector<Frame> numbered(const std::vector<Bytes>& packets, LinkType link = LinkType::ethernet) {
  std::vector<Frame> frames;
  for (const Bytes& octets : packets) {
    const std::uint64_t number = frames.size() + 1;
    frames.push_back({number, static_cast<std::int64_t>(number) * 1000, link,
                      static_cast<std::uint32_t>(octets.size()), octets});
  }
  return frames;
}

/// One packet of each operation; a Send with KBTP, a Read and an Atomic with their answers.
std::vector<ib::Packet> ib_packets() {
  static const Bytes data = pattern(64);
  static const Bytes hello = wire::encode(wire::Hello{.request_id = 1});
  std::vector<ib::Packet> packets;
  std::uint32_t psn = 100;
  for (const ib::OperationFacts& facts : ib::kOperations) {
    if (facts.operation == ib::Operation::resync) continue;
    const bool only = facts.operation == ib::Operation::send_only;
    packets.push_back(
        ib_packet(facts.operation, 0x11, psn++, facts.payload ? Octets(only ? hello : data) : Octets{}));
  }
  return packets;
}

/// A pcapng section, big-endian: interfaces of these link types, frames on them in turn.
Bytes pcapng(const std::vector<std::pair<LinkType, Bytes>>& frames) {
  Bytes file;
  const auto block = [&file](std::uint32_t type, Bytes body) {
    body.resize((body.size() + 3) / 4 * 4);
    Bytes head(8);
    store_be(head.data(), type);
    store_be(head.data() + 4, static_cast<std::uint32_t>(body.size() + 12));
    append(file, head);
    append(file, body);
    append(file, Octets(head).last(4));
  };
  block(0x0A0D0D0A, bytes({0x1A, 0x2B, 0x3C, 0x4D, 0, 1, 0, 0}) + Bytes(8, std::byte{0xFF}));
  for (const auto& [link, octets] : frames) {
    Bytes interface(8);
    store_be(interface.data(), static_cast<std::uint16_t>(link));
    block(1, interface + bytes({0, 9, 0, 1, 9, 0, 0, 0}));  // nanoseconds
  }
  std::uint32_t number = 0;
  for (const auto& [link, octets] : frames) {
    Bytes packet(20);
    store_be(packet.data(), number++);
    store_be(packet.data() + 8, number);
    store_be(packet.data() + 12, static_cast<std::uint32_t>(octets.size()));
    store_be(packet.data() + 16, static_cast<std::uint32_t>(octets.size()));
    block(6, behind(packet, octets));
  }
  return file;
}

void add_links(fuzz::Seeds& seeds) {
  Conversation small = begun();
  small.say(true, send(1, load(1)));
  const auto seed = [&](const std::string& name, LinkType link, const Bytes& header) {
    seeds["link_" + name] =
        encode_capture(relinked(small.frames, link, [&](Octets ip) { return behind(header, ip); }));
  };
  seed("null", LinkType::null_loopback, bytes({2, 0, 0, 0}));
  seed("loop", LinkType::openbsd_loop, bytes({0, 0, 0, 2}));
  seed("raw", LinkType::raw_ip, {});
  seed("ipv4", LinkType::ipv4, {});
  seed("sll", LinkType::linux_sll, Bytes(14) + bytes({8, 0}));
  seed("sll2", LinkType::linux_sll2, bytes({8, 0}) + Bytes(18));
  seed("qinq", LinkType::ethernet, Bytes(12) + bytes({0x88, 0xA8, 0, 1, 0x81, 0, 0, 2, 8, 0}));
  const auto as_v6 = [](const Bytes& extension, unsigned next) {
    return [extension, next](Octets ip) {
      return ipv6(v6(1, 0), v6(2, 0), static_cast<std::uint8_t>(next), behind(extension, ip.subspan(20)));
    };
  };
  seeds["link_ipv6"] = encode_capture(relinked(small.frames, LinkType::ipv6, as_v6({}, 6)));
  seeds["ipv6_extensions"] =
      encode_capture(relinked(small.frames, LinkType::raw_ip,
                              as_v6(bytes({60, 0, 5, 2, 0, 0, 1, 0}) + bytes({43, 0, 1, 4, 0, 0, 0, 0}) +
                                        bytes({6, 0, 0, 0, 0, 0, 0, 0}),
                                    0)));
  seeds["ipv6_fragment"] =
      encode_capture(relinked(small.frames, LinkType::raw_ip, as_v6(bytes({6, 0, 0, 0, 0, 0, 0, 9}), 44)));
  seeds["ipv4_fragments"] = encode_capture(in_fragments(small.frames));
  auto cut = small.frames;
  cut.back().octets.resize(80);
  seeds["cut_short"] = encode_capture(cut);
  seeds["packed"] = gzipped(encode_capture(small.frames));
  seeds["many_links.pcapng"] =
      pcapng({{LinkType::ethernet, small.frames[0].octets},
              {LinkType::raw_ip, to_vector(Octets(small.frames[1].octets).subspan(14))},
              {LinkType::linux_sll,
               Bytes(14) + bytes({8, 0}) + to_vector(Octets(small.frames[2].octets).subspan(14))},
              {LinkType::infiniband, native(ib_packets()[0], 1, 2)}});
}

void add_streams(fuzz::Seeds& seeds) {
  seeds["kbtp"] = encode_capture(kbtp_session().frames);
  seeds["terminate"] = encode_capture(terminated(false).frames);
  seeds["terminate_siw"] = encode_capture(terminated(true).frames);
  seeds["markers"] = encode_capture(marked().frames);
  Conversation plain = begun(false);
  plain.say(true, send(1, completion(1)));
  plain.say(false, untagged(Opcode::send, 0, 1, 0, false, pattern(40)));
  plain.say(false, untagged(Opcode::send, 0, 1, 40, true, pattern(40)));
  end(plain);
  seeds["without_crc"] = encode_capture(plain.frames);
  Conversation bad = begun();
  Bytes wrong = send(1, load(1));
  wrong.back() ^= std::byte{1};
  bad.say(true, wrong);
  bad.say(true, tagged(Opcode::rdma_write, 5, 0, false, pattern(30)));
  bad.say(true, untagged(Opcode::send, 7, 9, 3, true, pattern(30)));  // no such queue
  bad.rst(true);
  seeds["wrong"] = encode_capture(bad.frames);
  Conversation rejected;
  rejected.open();
  rejected.say(true, request());
  rejected.say(false, reply(true, true));
  seeds["rejected"] = encode_capture(rejected.frames);
  Conversation middle;  // neither opening nor start-up: FPDUs alone tell what it is
  for (std::uint32_t i = 0; i < 8; ++i)
    middle.say_chopped(true, tagged(Opcode::rdma_write, 5, 100 * i, i == 7, pattern(100)), 90);
  seeds["found"] = encode_capture(middle.frames);
  Conversation holes = begun();
  holes.say(true, send(1, load(1)));
  holes.skip(true, 300);
  for (std::uint32_t i = 0; i < 6; ++i) holes.say(true, send(5 + i, load(5 + i)));
  holes.add_at(true, holes.next(true) - 50, pattern(90));
  holes.add_at(true, holes.next(true) - 10, pattern(20, 9));
  seeds["holes"] = encode_capture(holes.frames);
}

void add_infiniband(fuzz::Seeds& seeds) {
  std::vector<Bytes> v2, v1, lrh, erf;
  for (const ib::Packet& packet : ib_packets()) {
    v2.push_back(roce(packet, v4(1, 0), v4(2, 0)));
    const Bytes transport = ib::encode_packet(packet);
    v1.push_back(ethernet(0x8915, grh(1, 2, transport.size() + 4) + transport + Bytes(4)));
    lrh.push_back(native(packet, 1, 2, lrh.size() % 2 == 1));
    Bytes record(16);
    record[8] = std::byte{21};
    store_be(record.data() + 14, static_cast<std::uint16_t>(lrh.back().size()));
    if (erf.size() < 12) erf.push_back(record + lrh.back());
  }
  seeds["rocev2"] = encode_capture(numbered(v2));
  seeds["rocev1"] = encode_capture(numbered(v1));
  seeds["native"] = encode_capture(numbered(lrh, LinkType::infiniband));
  seeds["erf"] = encode_capture(numbered(erf, LinkType::erf));
  const Bytes data = pattern(64);
  const auto between = [](const ib::Packet& packet, bool back) {
    return back ? roce(packet, v4(2, 0), v4(1, 0)) : roce(packet, v4(1, 0), v4(2, 0));
  };
  using enum ib::Operation;
  seeds["rocev2_answers"] = encode_capture(numbered({
      between(ib_packet(write_first, 0x11, 1, data), false),
      between(ib_packet(write_last, 0x11, 2, data), false),
      between(ib_packet(acknowledge, 0x12, 2), true),
      between(ib_packet(read_request, 0x11, 3), false),
      between(ib_packet(read_response_first, 0x12, 3, data), true),
      between(ib_packet(read_response_last, 0x12, 4, data), true),
      between(ib_packet(fetch_add, 0x11, 5), false),
      between(ib_packet(atomic_acknowledge, 0x12, 5), true),
      between(ib_packet(send_first, 0x11, 7, data), false),
      between(ib_packet(send_first, 0x11, 7, data), false),
      between(ib_packet(send_last_immediate, 0x11, 8, data), false),
      between(ib_packet(send_only, 9, 1, data, ib::Service::unreliable_datagram), false),
  }));
}

void add_esp(fuzz::Seeds& seeds) {
  Conversation small = begun();
  small.say(true, send(1, load(1)));
  end(small);
  const EspTransform transform = fuzz_key().transform;
  std::uint64_t sequence = 0;
  const auto seed = [&](const std::string& name, const std::function<Bytes(Octets ip)>& wrap) {
    sequence = 0;
    seeds["esp_" + name] = encode_capture(relinked(small.frames, LinkType::raw_ip, wrap));
  };
  seed("tunnel",
       [&](Octets ip) { return ipv4(v4(8, 0), v4(9, 0), 50, seal(transform, 9, ++sequence, 4, ip)); });
  seed("transport", [&](Octets ip) {
    const bool client = ip[15] == std::byte{1};
    return ipv4(v4(client ? 1 : 2, 0), v4(client ? 2 : 1, 0), 50,
                seal(transform, 9, ++sequence, 6, ip.subspan(20)));
  });
  seed("udp", [&](Octets ip) {
    const Bytes sealed = seal(transform, 9, ++sequence, 4, ip, true);
    Bytes datagram(8);
    store_be(datagram.data(), std::uint16_t{4500});
    store_be(datagram.data() + 2, std::uint16_t{4500});
    store_be(datagram.data() + 4, static_cast<std::uint16_t>(8 + sealed.size()));
    return ipv4(v4(8, 0), v4(9, 0), 17, datagram + sealed);
  });
  seed("wrong_key",
       [&](Octets ip) { return ipv4(v4(8, 0), v4(9, 0), 50, seal(gcm(16, 32, 77), 9, ++sequence, 4, ip)); });
}

std::filesystem::path corpus(const char* name) {
  return std::filesystem::path(KBTP_SOURCE_DIR "/fuzz/corpus") / name;
}

TEST(FuzzSeeds, CapturesOfEveryKind) {
  fuzz::Seeds seeds;
  add_links(seeds);
  add_streams(seeds);
  add_infiniband(seeds);
  add_esp(seeds);
  for (const auto& [name, octets] : seeds) {
    EXPECT_LE(octets.size(), kLongest) << name;
    const auto file = read_capture(octets);
    ASSERT_TRUE(file) << name << ": " << file.error().text;
    EXPECT_EQ(file->damage, "") << name;
    // A seed in which nothing is found would be none.
    EspStage esp({fuzz_key()});
    DecodeOptions options;
    options.esp = &esp;
    const Trace trace = decode_trace(file->frames, options);
    if (name == "esp_wrong_key") continue;
    ASSERT_FALSE(trace.connections.empty()) << name;
    EXPECT_FALSE(trace.connections[0].events.empty()) << name;
  }
  EXPECT_THAT(fuzz::stale_seeds(corpus("trace"), seeds), testing::IsEmpty());
}

TEST(FuzzSeeds, StreamsInSegmentsOfAnyOrder) {
  // Flags, orders, stream: as fuzz_segments reads them.
  const auto seed = [](unsigned flags, const Bytes& orders, const Bytes& stream) {
    return bytes({flags, static_cast<unsigned>(orders.size())}) + orders + stream;
  };
  const Bytes scattered = bytes({0x23, 0x05, 0x91, 0x7F, 0x00, 0xC2, 0x4A});
  const Bytes calm = bytes({0x0F});
  Bytes stream = request();
  for (std::uint32_t i = 0; i < 4; ++i) append(stream, send(i + 1, load(i)));
  append(stream, tagged(Opcode::rdma_write, 5, 0, true, pattern(500)));
  Bytes marked_stream;
  for (const Frame& frame : marked().frames) {
    if (frame.octets[29] == std::byte{1}) append(marked_stream, Octets(frame.octets).subspan(54));
  }
  Bytes middle;
  for (std::uint32_t i = 0; i < 8; ++i)
    append(middle, tagged(Opcode::rdma_write, 5, 100 * i, i == 7, pattern(100)));
  EXPECT_THAT(fuzz::stale_seeds(corpus("segments"), {{"crc", seed(5, scattered, stream)},
                                                     {"in_order", seed(1, calm, stream)},
                                                     {"markers", seed(7, scattered, marked_stream)},
                                                     {"expected", seed(8, scattered, middle)},
                                                     {"found", seed(0, scattered, pattern(77) + middle)},
                                                     {"foreign", seed(0, scattered, pattern(900))}}),
              testing::IsEmpty());
}

}  // namespace
}  // namespace kbtp::trace
