// Makes a capture of iWARP with KBTP: on each connection an MPA handshake, HELLO, then LOADs whose blocks
// come as RDMA Writes in segments of one size, each LOAD with its COMPLETION; all CRCs and checksums right.
// The measure of the dissector's speed, and of tshark's beside it (bench/dissect.sh).

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "proto/wire/completion.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"
#include "rdmap_binding/ddp/segment.h"
#include "rdmap_binding/mpa/fpdu.h"
#include "rdmap_binding/mpa/startup.h"
#include "rdmap_binding/rdmap/segment.h"

namespace {

using namespace kbtp;

constexpr std::size_t kHeaders = 14 + 20 + 20;  // Ethernet, IPv4, TCP
constexpr std::uint16_t kPort = 7420;
constexpr std::uint8_t kSyn = 0x02;
constexpr std::uint8_t kAck = 0x10;
constexpr std::uint8_t kPushAck = 0x18;

/// Sum of 16-bit words in ones' complement (RFC 1071), not yet folded.
std::uint32_t sum_words(Octets octets, std::uint32_t sum) {
  for (std::size_t i = 0; i + 1 < octets.size(); i += 2) sum += load_be<std::uint16_t>(octets.data() + i);
  if (octets.size() % 2 != 0) sum += std::to_integer<std::uint32_t>(octets.back()) << 8;
  return sum;
}
std::uint16_t folded(std::uint32_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

class CaptureFile {
 public:
  explicit CaptureFile(std::FILE* file) : file_(file) {
    std::array<std::byte, 24> header{};
    ByteWriter out(header);
    out.u32(0xA1B23C4D);  // nanoseconds
    out.u16(2);
    out.u16(4);
    out.zeros(8);
    out.u32(262144);
    out.u32(1);  // Ethernet
    put(header);
  }
  void frame(Octets octets) {
    time_ns_ += 250 + octets.size() / 12;  // about 100 Gbit/s
    std::array<std::byte, 16> header{};
    ByteWriter out(header);
    out.u32(static_cast<std::uint32_t>(1'800'000'000 + time_ns_ / 1'000'000'000));
    out.u32(static_cast<std::uint32_t>(time_ns_ % 1'000'000'000));
    out.u32(static_cast<std::uint32_t>(octets.size()));
    out.u32(static_cast<std::uint32_t>(octets.size()));
    put(header);
    put(octets);
  }
  [[nodiscard]] std::uint64_t octets() const { return octets_; }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  void put(Octets octets) {
    ok_ = ok_ && std::fwrite(octets.data(), 1, octets.size(), file_) == octets.size();
    octets_ += octets.size();
  }
  std::FILE* file_;
  std::uint64_t octets_ = 0;
  std::uint64_t time_ns_ = 0;
  bool ok_ = true;
};

/// One side of a connection.
struct Side {
  std::uint8_t host = 0;
  std::uint16_t port = 0;
  std::uint32_t sequence = 0;
  std::uint32_t msn = 1;
};

class Connection {
 public:
  Connection(CaptureFile& file, std::uint16_t number, std::size_t segment, std::size_t block)
      : file_(file),
        client_{1, static_cast<std::uint16_t>(40000 + number), 0x1000U * number, 1},
        server_{2, kPort, 0xFFFF0000U + number, 1},  // its sequence numbers wrap early
        segment_(segment),
        block_(block) {
    for (std::size_t i = 0; i < block_.size(); ++i) block_[i] = static_cast<std::byte>(i * 31 + number);
  }

  void open() {
    say(client_, server_, kSyn, {});
    say(server_, client_, kSyn | kAck, {});
    mpa::StartupFrame frame;
    frame.crc = true;
    frame.enhanced = mpa::Enhanced{false, false, 16, false, false, 16};
    say(client_, server_, kPushAck, mpa::encode_startup(frame));
    frame.kind = mpa::StartupKind::reply;
    say(server_, client_, kPushAck, mpa::encode_startup(frame));
    wire::Hello hello;
    hello.request_id = 1;
    hello.max_requests = 64;
    send(client_, server_, wire::encode(hello));
    wire::HelloAck ack;
    ack.request_id = 1;
    ack.version = ack.min_version = ack.max_version = 1;
    ack.max_requests = 64;
    ack.block_size = static_cast<std::uint32_t>(block_.size());
    ack.handle_count = 1024;
    ack.pool_blocks = 1024;
    send(server_, client_, wire::encode(ack));
  }

  void load() {
    const std::uint64_t request = ++request_;
    const std::uint64_t handle = request % 1024;
    wire::Load load;
    load.head = {request, handle, 0, 0};
    load.destination = {0xC0FFEE, 0x10000 * handle, static_cast<std::uint32_t>(block_.size())};
    send(client_, server_, wire::encode(wire::Request(load)));
    for (std::size_t at = 0; at < block_.size(); at += segment_) {
      const std::size_t n = std::min(segment_, block_.size() - at);
      const auto header = ddp::encode(rdmap::make_tagged(
          rdmap::Opcode::rdma_write, 0xC0FFEE, load.destination.tagged_offset + at, at + n == block_.size()));
      fpdu(server_, client_, header, Octets(block_).subspan(at, n));
    }
    wire::Completion completion;
    completion.request_id = request;
    completion.handle = handle;
    completion.generation = 3;
    completion.data_length = static_cast<std::uint32_t>(block_.size());
    completion.block_offset = handle * block_.size();
    send(server_, client_, wire::encode(completion));
  }

 private:
  void send(Side& from, Side& to, Octets message) {
    fpdu(from, to, ddp::encode(rdmap::make_untagged(rdmap::Opcode::send, from.msn++)), message);
  }
  void fpdu(Side& from, Side& to, Octets header, Octets payload) {
    ulpdu_.assign(header.begin(), header.end());
    ulpdu_.insert(ulpdu_.end(), payload.begin(), payload.end());
    say(from, to, kPushAck, mpa::encode_fpdu(ulpdu_));
  }
  void say(Side& from, Side& to, std::uint8_t flags, Octets payload) {
    frame_.resize(kHeaders + payload.size());
    ByteWriter out(frame_);
    out.zeros(12);
    out.u16(0x0800);
    out.u16(0x4500);
    out.u16(static_cast<std::uint16_t>(frame_.size() - 14));
    out.u32(0x4000);  // identification 0, DF
    out.u16(64 << 8 | 6);
    out.u16(0);
    for (const Side* side : {&from, &to}) out.u32(0x0A000000U + side->host);
    out.u16(from.port);
    out.u16(to.port);
    out.u32(from.sequence);
    out.u32(flags == kSyn ? 0 : to.sequence);
    out.u16(static_cast<std::uint16_t>(5 << 12 | flags));
    out.u16(0xFFFF);
    out.u32(0);
    out.bytes(payload);
    const Octets ip = Octets(frame_).subspan(14, 20);
    store_be(frame_.data() + 14 + 10, folded(sum_words(ip, 0)));
    const Octets segment = Octets(frame_).subspan(34);
    const std::uint32_t pseudo = sum_words(ip.subspan(12), 6 + static_cast<std::uint32_t>(segment.size()));
    store_be(frame_.data() + 34 + 16, folded(sum_words(segment, pseudo)));
    file_.frame(frame_);
    from.sequence += static_cast<std::uint32_t>(payload.size()) + ((flags & kSyn) != 0 ? 1 : 0);
  }

  CaptureFile& file_;
  Side client_, server_;
  std::size_t segment_;
  std::vector<std::byte> block_;
  std::vector<std::byte> ulpdu_;
  std::vector<std::byte> frame_;
  std::uint64_t request_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Makes a capture of KBTP LOADs over iWARP, all CRCs right"};
  std::uint64_t size = 1'000'000'000;
  std::size_t segment = 1400;
  std::size_t block = 65536;
  std::uint16_t connections = 4;
  std::string path;
  app.add_option("--size", size, "octets of the file, at least")->capture_default_str();
  app.add_option("--segment", segment, "octets of data in an RDMA Write's segment")
      ->capture_default_str()
      ->check(CLI::Range(1, 60000));
  app.add_option("--block", block, "octets of a block")->capture_default_str()->check(CLI::Range(1, 1 << 26));
  app.add_option("--connections", connections)->capture_default_str()->check(CLI::Range(1, 20000));
  app.add_option("FILE", path)->required();
  CLI11_PARSE(app, argc, argv);

  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) {
    fmt::print(stderr, "make_capture: cannot write {}\n", path);
    return 3;
  }
  CaptureFile capture(file);
  std::vector<Connection> open;
  for (std::uint16_t i = 0; i < connections; ++i) open.emplace_back(capture, i, segment, block);
  for (Connection& connection : open) connection.open();
  while (capture.octets() < size && capture.ok()) {
    for (Connection& connection : open) connection.load();
  }
  const bool closed = std::fclose(file) == 0;
  if (!capture.ok() || !closed) {
    fmt::print(stderr, "make_capture: {} could not be written whole\n", path);
    return 3;
  }
  return 0;
}
