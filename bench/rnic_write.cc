// A quick look at the RNIC alone: RDMA Writes or Reads of 1 MiB, 16 outstanding, between two RNICs of one
// process, each with its own polling loop, over one loopback connection. `kbtp bench` measures the whole
// stack.
//
//   rnic_write [write|read|ping] [crc|nocrc] [seconds] [congestion control] [octets] [block]
//
// With `block` the loops sleep, and the CPU seconds per GB (both sides) say what a busy machine hides.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <future>
#include <string>
#include <vector>

#include "rdmap_binding/rnic/rnic.h"

using namespace kbtp;

namespace {

constexpr std::size_t kOutstanding = 16;

struct Passive : rdma::StreamHandler {
  void on_open(rdma::Stream& s, Octets) override {
    stream = &s;
    const auto region = s.register_region(
        {memory, rdma::Access::remote_write | rdma::Access::remote_read, rdma::Content::stable, 0, false});
    opened.set_value(region->stag);
  }
  void on_received(const rdma::Received& received) override {
    stream->post_receives(1);
    stream->post({rdma::Send{0, to_vector(received.payload), false, std::nullopt}});
  }
  void on_completion(const rdma::Completion&) override {}
  void on_peer_finished() override { stream->close(); }
  void on_closed(const rdma::CloseReason&) override { closed.set_value(); }

  std::vector<std::byte> memory;
  rdma::Stream* stream = nullptr;
  std::promise<rdma::STag> opened;
  std::promise<void> closed;
};

struct Active : rdma::StreamHandler {
  void on_open(rdma::Stream& s, Octets) override {
    stream = &s;
    opened.set_value();
  }
  void on_received(const rdma::Received&) override {
    stream->post_receives(1);
    completed(0);
  }
  void on_completion(const rdma::Completion& completion) override {
    if (op != "ping") completed(completion.id);
  }
  void completed(std::size_t slot) {
    ++count;
    if (!stop.load(std::memory_order_relaxed)) {
      post(slot);
    } else if (--running == 0) {
      finished.set_value();
    }
  }
  void post(std::size_t slot) {
    const MutableOctets block = MutableOctets(memory).subspan(slot * size, size);
    if (op == "write") {
      stream->post({rdma::Write{slot, block, {stag, slot * size}, nullptr}});
    } else if (op == "read") {
      stream->post({rdma::Read{slot, block, {stag, slot * size}}});
    } else {
      stream->post({rdma::Send{slot, to_vector(block.first(64)), false, std::nullopt}});
    }
  }
  void on_closed(const rdma::CloseReason& reason) override {
    if (reason.kind != rdma::CloseReason::Kind::graceful) std::fprintf(stderr, "%s\n", reason.text.c_str());
    closed.set_value();
  }

  std::string op;
  std::size_t size = 0;
  rdma::STag stag = 0;
  std::vector<std::byte> memory;
  rdma::Stream* stream = nullptr;
  std::uint64_t count = 0;
  std::size_t running = 0;
  std::atomic<bool> stop{false};
  std::promise<void> opened, finished, closed;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string op = argc > 1 ? argv[1] : "write";
  const bool crc = argc <= 2 || std::string(argv[2]) != "nocrc";
  const double seconds = argc > 3 ? std::atof(argv[3]) : 2.0;
  const std::size_t size = argc > 5 ? std::strtoul(argv[5], nullptr, 10) : std::size_t{1} << 20;
  rnic::RnicOptions options;
  options.crc = crc;
  options.spin = argc <= 6;
  if (argc > 4) options.congestion_control = argv[4];
  auto server = rnic::Rnic::create(options);
  auto client = rnic::Rnic::create(options);
  if (!server || !client) {
    std::fprintf(stderr, "%s\n", (server ? client : server).error().text.c_str());
    return 3;
  }
  Passive passive;
  Active active;
  passive.memory.assign(kOutstanding * size, std::byte{1});
  active.memory.assign(kOutstanding * size, std::byte{2});
  active.op = op;
  active.size = size;
  auto listener = (*server)->listen(resolve({"127.0.0.1", 0}, true)->front(),
                                    [&](const rdma::ConnectionRequest&, rdma::Loop&) {
                                      return rdma::AcceptDecision(rdma::Accept{&passive, {}});
                                    });
  (*client)->connect((*listener)->local(), 0, {}, active);
  active.opened.get_future().wait();
  active.stag = passive.opened.get_future().get();
  active.running = op == "ping" ? 1 : kOutstanding;
  const auto begin = Clock::now();
  const std::clock_t cpu_begin = std::clock();
  (*client)->loop(0).post([&] {
    for (std::size_t slot = 0, n = active.running; slot < n; ++slot) active.post(slot);
  });
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  active.stop = true;
  active.finished.get_future().wait();
  const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  const double cpu = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  (*client)->loop(0).post([&] { active.stream->close(); });
  active.closed.get_future().wait();
  passive.closed.get_future().wait();
  const double each = static_cast<double>(active.count);
  const double gigabytes = op == "ping" ? 0.0 : each * static_cast<double>(size) / 1e9;
  std::printf("%s crc=%d size=%zu: %.2f GB/s, %.0f op/s, %.2f us/op, %.3f CPU s/GB\n", op.c_str(), crc, size,
              gigabytes / elapsed, each / elapsed, elapsed / each * 1e6,
              gigabytes > 0 ? cpu / gigabytes : 0.0);
  return 0;
}
