// Two serving nodes, each KBTP target and initiator at once (draft 1.1, peer-to-peer transfer).
//
//       prefill node                                  decode node
//   its pool: the shared prompt   <----- LOAD -----   reads the shared prompt
//   computes a user's prompt   --- ALLOC_STORE --->   its pool: the blocks that it will decode from
//
// A node needs one provider for both roles: its target listens on it and its sessions connect over it. Both
// directions run at the same time. What a node has in its own pool it reaches like anybody else, by a session
// with itself. Handles travel beside KBTP, in whatever the serving system uses to hand a request over; here
// they are plain variables.
//
// Exit status: 0 when every octet was right and every block is free again, else 1.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "proto/initiator/sync_initiator.h"
#include "proto/target/target.h"
#include "rdmap_binding/rnic/rnic.h"

namespace {

using kbtp::initiator::ConnectOptions;
using kbtp::initiator::Outcome;
using kbtp::initiator::SyncInitiator;

constexpr std::uint32_t kBlockSize = 65536;
constexpr std::uint32_t kBlocks = 32;    // of each pool
constexpr std::uint32_t kPerPrompt = 8;  // blocks that a prompt's cache fills

using Block = std::vector<std::byte>;

// What a prompt's cache looks like here: every octet depends on the prompt, the block and the place.
Block make_block(char prompt, std::uint32_t number) {
  Block block(kBlockSize);
  for (std::size_t i = 0; i < block.size(); ++i)
    block[i] = static_cast<std::byte>(static_cast<std::size_t>(prompt) * 7 + number * 31 + i * 13);
  return block;
}

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "peer_to_peer: %s\n", why.c_str());
  std::exit(1);
}

template <class T, class E>
T must(kbtp::Expected<T, E> result) {
  if (!result) give_up(result.error().text);
  return std::move(*result);
}

void must_succeed(const char* what, const Outcome& outcome) {
  if (!outcome.answered) give_up(std::string(what) + ": " + outcome.error);
  if (!outcome.ok())
    give_up(std::string(what) + " ended with " + std::string(kbtp::wire::to_string(outcome.status)));
}

class Node {
 public:
  Node() : provider_(must(kbtp::rnic::Rnic::create())) {
    kbtp::target::TargetConfig config;
    config.blocks = kBlocks;
    config.block_size = kBlockSize;
    config.handles = kBlocks;
    target_ = must(kbtp::target::Target::create(config, *provider_));
    const auto anywhere = must(kbtp::resolve({"127.0.0.1", 0}, true));
    listener_ = must(provider_->listen(anywhere.front(), target_->accept_function()));
  }

  // A session from this node to `target`, with blocks of its own in that pool unless it only loads.
  std::unique_ptr<SyncInitiator> connect(const Node& target, std::uint32_t blocks) {
    ConnectOptions options;
    options.address = target.listener_->local();
    options.quota = blocks;
    options.handles = blocks;
    return must(SyncInitiator::connect(*provider_, options));
  }

  [[nodiscard]] std::string address() const { return listener_->local().to_string(); }
  [[nodiscard]] std::uint64_t free_blocks() const { return target_->free_blocks(); }

  // Ready once every session that others have with this node is over. The node goes on as an initiator.
  std::future<void> drain() {
    listener_.reset();
    const auto drained = std::make_shared<std::promise<void>>();
    target_->drain([drained] { drained->set_value(); });
    return drained->get_future();
  }

 private:
  // Destroyed from the last to the first, as target.h asks.
  std::unique_ptr<kbtp::rnic::Rnic> provider_;
  std::unique_ptr<kbtp::target::Target> target_;
  std::unique_ptr<kbtp::rdma::Listener> listener_;
};

// Stores a prompt's cache at the first handles of the session's own range, sealed.
void store_prompt(SyncInitiator& session, char prompt) {
  for (std::uint32_t i = 0; i < kPerPrompt; ++i) {
    Block block = make_block(prompt, i);
    must_succeed("ALLOC_STORE", session.alloc_store(session.info().base_handle + i, block, {.seal = true}));
  }
}

// Loads a prompt's cache from `handle` on; returns how many octets were checked.
std::size_t load_prompt(SyncInitiator& session, std::uint64_t handle, char prompt) {
  Block block(kBlockSize);
  for (std::uint32_t i = 0; i < kPerPrompt; ++i) {
    std::fill(block.begin(), block.end(), std::byte{0});
    must_succeed("LOAD", session.load(handle + i, block));
    if (block != make_block(prompt, i)) give_up("block " + std::to_string(i) + " holds a wrong octet");
  }
  return std::size_t{kPerPrompt} * kBlockSize;
}

void free_prompt(SyncInitiator& session) {
  for (std::uint32_t i = 0; i < kPerPrompt; ++i)
    must_succeed("FREE", session.free(session.info().base_handle + i));
}

}  // namespace

int main() {
  Node prefill;
  Node decode;
  std::printf("prefill node: target at %s\n", prefill.address().c_str());
  std::printf("decode node:  target at %s\n", decode.address().c_str());

  const auto prefill_to_itself = prefill.connect(prefill, kPerPrompt);
  const auto prefill_to_decode = prefill.connect(decode, kPerPrompt);
  const auto decode_to_prefill = decode.connect(prefill, 0);
  const auto decode_to_itself = decode.connect(decode, 0);

  constexpr char kShared = 's';
  constexpr char kUsers = 'u';
  store_prompt(*prefill_to_itself, kShared);
  std::printf("prefill node: %u blocks of the shared prompt are in its own pool\n", kPerPrompt);

  // Both directions at once.
  std::thread prefilling([&] { store_prompt(*prefill_to_decode, kUsers); });
  const std::size_t loaded = load_prompt(*decode_to_prefill, prefill_to_itself->info().base_handle, kShared);
  prefilling.join();
  std::printf("prefill node: %u blocks of the user's prompt stored into the decode node's pool\n",
              kPerPrompt);
  std::printf("decode node:  %zu octets loaded from the prefill node's pool, all right\n", loaded);

  const std::size_t found = load_prompt(*decode_to_itself, prefill_to_decode->info().base_handle, kUsers);
  std::printf("decode node:  %zu octets found in its own pool, all right\n", found);

  // Blocks belong to the session that stored them, which frees them.
  free_prompt(*prefill_to_itself);
  free_prompt(*prefill_to_decode);

  // Either node may stop first, or both together: a drain waits for requests, not for the other's drain.
  const auto prefill_drained = prefill.drain();
  const auto decode_drained = decode.drain();
  prefill_drained.wait();
  decode_drained.wait();
  std::printf("prefill node: %llu of %u blocks are free\n",
              static_cast<unsigned long long>(prefill.free_blocks()), kBlocks);
  std::printf("decode node:  %llu of %u blocks are free\n",
              static_cast<unsigned long long>(decode.free_blocks()), kBlocks);
  return prefill.free_blocks() == kBlocks && decode.free_blocks() == kBlocks ? 0 : 1;
}
