#include "tools/replay_node.h"

#include <fmt/format.h>
#include <future>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>
#include <vector>

#include "proto/target/target.h"
#include "tools/block_check.h"
#include "tools/cli.h"
#include "tools/client.h"

namespace kbtp::tools {

namespace {

using nlohmann::json;

class Node {
 public:
  explicit Node(const ReplaySettings& settings)
      : settings_(settings),
        block_size_(static_cast<std::uint32_t>(settings.block_size)),
        outstanding_(static_cast<std::uint32_t>(settings.outstanding)),
        memory_(std::size_t{outstanding_} * block_size_) {
    for (std::uint32_t slot = outstanding_; slot > 0; --slot) free_slots_.push_back(slot - 1);
  }

  [[nodiscard]] Result<> listen();
  /// Takes the parent's lines until they end.
  [[nodiscard]] Result<> obey();
  /// Both roles end at the same time.
  void finish();

 private:
  [[nodiscard]] Result<> connect(const json& endpoints);
  void carry_out(const json& order);
  void answer(std::uint64_t id, const json& order, std::uint32_t slot, TimePoint begun,
              const initiator::Outcome& outcome);
  void say(const std::string& line);

  const ReplaySettings& settings_;
  const std::uint32_t block_size_;
  const std::uint32_t outstanding_;
  std::vector<std::byte> memory_;  // a block for each operation under way
  std::vector<std::uint32_t> free_slots_;
  std::unique_ptr<rnic::Rnic> rnic_;
  std::unique_ptr<target::Target> target_;
  std::unique_ptr<rdma::Listener> listener_;
  std::vector<OpenSession> sessions_;  // by node, this one too
  std::vector<initiator::Buffer> buffers_;
};

void Node::say(const std::string& line) {
  const std::string text = line + "\n";
  // A parent that reads no more is about to end this process.
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t put = write(STDOUT_FILENO, text.data() + at, text.size() - at);
    if (put <= 0) return;
    at += static_cast<std::size_t>(put);
  }
}

Result<> Node::listen() {
  rnic::RnicOptions options;
  options.crc = settings_.link.crc;
  options.spin = settings_.link.spin;
  options.congestion_control = settings_.link.congestion_control;
  auto rnic = rnic::Rnic::create(options);
  if (!rnic) return unexpected(rnic.error());
  rnic_ = std::move(*rnic);
  const std::uint64_t others = settings_.peers - 1;
  target::TargetConfig config;
  config.reserve = settings_.peers * settings_.outstanding;  // every LOAD from where its block lies
  config.blocks = settings_.capacity * others + *config.reserve;
  config.handles = settings_.capacity * others;
  config.block_size = (block_size_ + 7) / 8 * 8;
  config.max_sessions = static_cast<std::uint32_t>(settings_.peers);
  config.max_requests = outstanding_;
  auto target = target::Target::create(config, *rnic_);
  if (!target) return unexpected(target.error());
  target_ = std::move(*target);
  const auto anywhere = resolve({"127.0.0.1", 0}, true);
  if (!anywhere) return unexpected(anywhere.error());
  auto listener = rnic_->listen(anywhere->front(), target_->accept_function());
  if (!listener) return unexpected(listener.error());
  listener_ = std::move(*listener);
  say("listening on " + listener_->local().to_string());
  return {};
}

Result<> Node::connect(const json& endpoints) {
  json bases = json::array();
  for (std::size_t node = 0; node < endpoints.size(); ++node) {
    const auto endpoint = Endpoint::parse(endpoints[node].get<std::string>());
    if (!endpoint) return unexpected(endpoint.error());
    initiator::ConnectOptions options;
    // Blocks of its own it has only in the others' pools; from the own pool it loads.
    const auto blocks = static_cast<std::uint32_t>(node == *settings_.node ? 0 : settings_.capacity);
    options.quota = blocks;
    options.handles = blocks;
    options.max_requests = outstanding_;
    options.operation_deadline = std::chrono::seconds(settings_.deadline);
    auto session = reach_async(*rnic_, *endpoint, options);
    if (!session) return unexpected(session.error());
    sessions_.push_back(std::move(*session));
    initiator::Session& open = *sessions_.back().session;
    auto granted = check_granted(open.info(), {.blocks = blocks, .requests = 1, .block_size = block_size_});
    if (!granted) return granted;
    std::promise<Result<initiator::Buffer>> registered;
    open.loop().post(
        [&] { registered.set_value(open.register_buffer(memory_, initiator::BufferUse::load_and_store)); });
    auto buffer = registered.get_future().get();
    if (!buffer) return unexpected(buffer.error());
    buffers_.push_back(*buffer);
    bases.push_back(open.info().base_handle);
  }
  say(json{{"ready", bases}}.dump());
  return {};
}

Result<> Node::obey() {
  for (std::string line; std::getline(std::cin, line);) {
    const json order = json::parse(line, nullptr, false);
    if (!order.is_object()) return failure("the parent's line is no JSON object: " + line);
    if (order.contains("connect")) {
      if (auto connected = connect(order["connect"]); !connected) return connected;
    } else {
      rnic_->loop(0).post([this, order] { carry_out(order); });
    }
  }
  return {};
}

void Node::carry_out(const json& order) {
  const auto id = order["id"].get<std::uint64_t>();
  const auto at = order["at"].get<std::size_t>();
  const auto handle = order["handle"].get<std::uint64_t>();
  const auto& op = order["op"].get_ref<const std::string&>();
  const ContentKey key{order["hash_id"], order["times"]};
  initiator::Session& session = *sessions_[at].session;
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  const std::size_t offset = std::size_t{slot} * block_size_;
  const MutableOctets memory = std::span(memory_).subspan(offset, block_size_);
  const initiator::Slice slice = buffers_[at].slice(offset, block_size_);
  const auto done = [this, id, order, slot, begun = Clock::now()](const initiator::Outcome& outcome) {
    answer(id, order, slot, begun, outcome);
  };
  if (op == "load") {
    poison(memory);
    session.load(handle, slice, {}, done);
  } else if (op == "alloc_store") {
    make_content(key, memory);
    session.alloc_store(handle, slice, {.seal = true}, done);
  } else {
    session.free(handle, order["generation"], done);
  }
}

void Node::answer(std::uint64_t id, const json& order, std::uint32_t slot, TimePoint begun,
                  const initiator::Outcome& outcome) {
  json reply = {{"id", id},
                {"ns", std::chrono::nanoseconds(Clock::now() - begun).count()},
                {"generation", outcome.generation}};
  if (!outcome.answered) {
    reply["lost"] = outcome.error;
  } else if (outcome.status != wire::Status::success) {
    reply["finding"] = fmt::format("ended with {}", wire::to_string(outcome.status));
  } else if (order["op"] == "load") {
    const Octets memory = std::span(memory_).subspan(std::size_t{slot} * block_size_, block_size_);
    const std::string wrong =
        check_loaded(outcome, order["generation"], {order["hash_id"], order["times"]}, memory);
    if (!wrong.empty()) reply["finding"] = wrong;
  }
  free_slots_.push_back(slot);
  say(reply.dump());
}

void Node::finish() {
  listener_.reset();
  std::promise<void> drained;
  target_->drain([&drained] { drained.set_value(); });
  close_and_wait(sessions_);
  drained.get_future().wait();
  say(fmt::format("drained: {} of {} blocks are free", target_->free_blocks(), target_->config().blocks));
}

}  // namespace

int run_replay_node(std::string_view command, const ReplaySettings& settings) {
  Node node(settings);
  if (auto listening = node.listen(); !listening)
    return fail(command, kExitUnreachable, listening.error().text);
  const auto obeyed = node.obey();
  node.finish();
  if (!obeyed) return fail(command, kExitUnreachable, obeyed.error().text);
  return kExitOk;
}

}  // namespace kbtp::tools
