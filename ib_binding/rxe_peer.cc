// One side of KBTP over a real InfiniBand or RoCE device, for the lab (tests/interop): every operation of 9.2
// once with a target that runs elsewhere, each completed in both ways, and INVALIDATE through a memory
// window.
//
//   rxe_peer TARGET-ADDRESS PORT IDENTITY
//
// The identity is one that the target grants DIRECT_LOAD and DIRECT_ALLOC. Says what was wrong and ends
// with 1.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "proto/initiator/initiator.h"
#include "verbs/provider.h"

namespace {

using namespace kbtp;
using initiator::Outcome;

int failures = 0;

void expect(bool holds, const std::string& what) {
  std::printf("%s: %s\n", holds ? "good" : "WRONG", what.c_str());
  failures += holds ? 0 : 1;
}

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> octets(size);
  for (std::size_t i = 0; i < size; ++i) octets[i] = static_cast<std::byte>(seed * 31 + i * 7 + (i >> 8));
  return octets;
}

class Peer {
 public:
  Peer(rdma::Provider& provider, const initiator::ConnectOptions& options) {
    std::promise<void> connected;
    initiator::connect(provider, options, [&](auto opened) {
      if (opened) {
        session = *opened;
        session->on_closed([this](const rdma::CloseReason&) { closed_.set_value(); });
      } else {
        std::printf("%s\n", opened.error().text.c_str());
      }
      connected.set_value();
    });
    connected.get_future().wait();
  }
  ~Peer() {
    if (session == nullptr) return;
    session->loop().post([this] { session->close(); });
    closed_.get_future().wait();
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Runs `start` on the session's loop and waits for its end.
  Outcome run(const std::function<void(initiator::Session&, initiator::Done)>& start) {
    std::promise<Outcome> outcome;
    session->loop().post([&] { start(*session, [&](const Outcome& o) { outcome.set_value(o); }); });
    return outcome.get_future().get();
  }
  Outcome with_buffer(
      std::span<std::byte> memory, initiator::BufferUse use, bool once,
      const std::function<void(initiator::Session&, const initiator::Slice&, initiator::Done)>& start) {
    return run([&](initiator::Session& s, const initiator::Done& done) {
      const auto buffer = s.register_buffer(memory, use, once);
      if (!buffer) {
        Outcome outcome;
        outcome.error = buffer.error().text;
        return done(outcome);
      }
      start(s, buffer->all(), [&s, buffer = *buffer, once, done](const Outcome& o) {
        if (!once) s.unregister_buffer(buffer);
        done(o);
      });
    });
  }

  std::shared_ptr<initiator::Session> session;

 private:
  std::promise<void> closed_;
};

void operations(Peer& peer, const std::string& how) {
  using initiator::BufferUse;
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{60000}}) {
    const std::string name = how + ", " + std::to_string(size) + " octets: ";
    auto data = pattern(size, static_cast<unsigned>(size));
    std::vector<std::byte> sink(size);
    auto done = peer.with_buffer(data, BufferUse::store, false, [](auto& s, const auto& slice, auto d) {
      s.alloc_store(0, slice, {}, std::move(d));
    });
    expect(done.ok(), name + "ALLOC_STORE " + done.error);
    done = peer.with_buffer(data, BufferUse::store, true, [](auto& s, const auto& slice, auto d) {
      s.store(0, slice, {.seal = true, .invalidate = true}, std::move(d));
    });
    expect(done.ok() && done.invalidated, name + "STORE with INVALIDATE " + done.error);
    done = peer.with_buffer(sink, BufferUse::load, false,
                            [](auto& s, const auto& slice, auto d) { s.load(0, slice, {}, std::move(d)); });
    expect(done.ok() && sink == data, name + "LOAD " + done.error);
    for (int i = 0; i < 3; ++i) {
      std::ranges::fill(sink, std::byte{0});
      done = peer.with_buffer(sink, BufferUse::load, true, [](auto& s, const auto& slice, auto d) {
        s.load(0, slice, {.invalidate = true}, std::move(d));
      });
      expect(done.ok() && done.invalidated && sink == data, name + "LOAD with INVALIDATE " + done.error);
    }
    done = peer.run([](auto& s, auto d) { s.free(0, 0, std::move(d)); });
    expect(done.ok(), name + "FREE " + done.error);
  }
}

void direct_modes(Peer& peer) {
  for (unsigned i = 0; i < 40; ++i) {  // laps of the ring
    const auto data = pattern(20000, i);
    std::vector<std::byte> sink(data.size());
    const auto stored =
        peer.run([&](auto& s, auto d) { s.direct_alloc_store(1, data, {.seal = true}, std::move(d)); });
    const auto loaded = peer.run([&](auto& s, auto d) { s.direct_load(1, sink, {}, std::move(d)); });
    const auto freed = peer.run([](auto& s, auto d) { s.free(1, 0, std::move(d)); });
    if (stored.ok() && loaded.ok() && freed.ok() && sink == data && i != 39) continue;
    expect(stored.ok() && loaded.ok() && freed.ok() && sink == data, "DIRECT_ALLOC, DIRECT_LOAD and FREE, " +
                                                                         std::to_string(i + 1) + " times " +
                                                                         stored.error + loaded.error);
    return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto endpoint = Endpoint::parse(std::string(argv[1]) + ":" + argv[2]);
  const auto identity = Uuid::parse(argv[3]);
  if (!endpoint || !identity) return 2;
  const auto addresses = resolve(*endpoint);
  if (!addresses) return 2;
  verbs::VerbsOptions wanted;
  wanted.address = addresses->front();
  auto provider = verbs::Verbs::create(wanted);
  if (!provider) {
    std::printf("%s\n", provider.error().text.c_str());
    return 3;
  }
  const auto& c = (*provider)->capabilities();
  std::printf("device %s: Atomics %d, Write with Immediate %d, invalidates %d\n",
              (*provider)->facts().name.c_str(), static_cast<int>(c.atomics), c.write_immediate ? 1 : 0,
              c.invalidate_rx ? 1 : 0);
  for (const bool records : {false, true}) {
    initiator::ConnectOptions options;
    options.address = addresses->front();
    options.identity = *identity;
    options.wanted = {.record_completion = records, .direct_load = true, .direct_alloc = true};
    Peer peer(**provider, options);
    if (peer.session == nullptr) return 1;
    const auto& info = peer.session->info();
    expect(info.features.record_completion == records, "RECORD_COMPLETION as asked for");
    expect(info.features.direct_alloc && info.features.atomic_unmasked,
           "DIRECT_ALLOC with unmasked counters");
    operations(peer, records ? "records" : "messages");
    direct_modes(peer);
  }
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
