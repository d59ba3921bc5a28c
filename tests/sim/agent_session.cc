// Sessions of the agent and what goes over them.

#include <fmt/format.h>
#include <utility>

#include "tests/sim/agent.h"

namespace kbtp::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::Status;

namespace {

constexpr std::uint32_t kCredits = 8;
/// Beyond all deadlines of the target.
constexpr Duration kLongest = seconds(30);

}  // namespace

Agent::Agent(World& world, const Named& named, int budget) : world_(world), named_(named), budget_(budget) {
  connect();
}

void Agent::connect() {
  rdma::Provider& provider = world_.host(named_.host);
  rdma::StreamOptions options;
  options.domain = provider.create_domain();
  options.initial_receives = 1;
  options.ird = world_.shape.config.ord;
  options.ord = world_.shape.config.ird;
  options.setup_deadline = seconds(2);
  options.send_deadline = seconds(2);
  ++session_;
  life_ = world_.life;
  leaving_ = false;
  hello_.reset();
  provider.connect(world_.address(), 0, options, *this);
}

void Agent::later() {
  if (budget_ <= 0 || world_.stopping()) {
    finished_ = true;
    return;
  }
  rdma::Loop& loop = world_.host(named_.host).loop(0);
  loop.call_at(loop.now() + milliseconds(world_.below(30)), [this] { connect(); });
}

void Agent::leave() {
  leaving_ = true;
  if (stream_ != nullptr) stream_->close(milliseconds(500));
}

void Agent::on_open(rdma::Stream& stream, Octets) {
  stream_ = &stream;
  if (life_ != world_.life || !world_.target || world_.stopping())
    return stream.abort("a session of unknown age");
  wire::Hello hello;
  hello.request_id = next_id_++;
  hello.base_handle = wire::kNoBaseHandle;
  hello.max_requests = kCredits;
  hello.receive_size = wire::kInitialReceiveSize;
  hello.identity = named_.identity;
  hello.wanted.direct_alloc = true;
  hello.wanted.atomic_unmasked = world_.shape.infiniband;
  hello_ = hello.request_id;
  send(wire::encode(hello));
}

void Agent::on_received(const rdma::Received& received) {
  if (hello_) {
    const auto ack = wire::decode_hello_ack(received.payload);
    hello_.reset();
    if (!ack || ack->status != Status::success) return stream_->abort("no HELLO_ACK");
    return accept(*ack);
  }
  const auto completion = wire::decode_completion(received.payload);
  if (!completion) return world_.fail("a message that is no COMPLETION");
  const auto found = asked_.find(completion->request_id);
  if (found == asked_.end()) return world_.fail("a COMPLETION that nothing has asked for (KBTP-1.3-01)");
  const Answered answered = std::move(found->second);
  asked_.erase(found);
  world_.note("answer", {named_.host, completion->handle, static_cast<std::uint64_t>(completion->status),
                         completion->generation, completion->block_offset});
  if (stream_ == nullptr || leaving_) return;
  ask_next();
  answered(*completion);
}

void Agent::on_completion(const rdma::Completion& completion) {
  const auto found = works_.find(completion.id);
  if (found == works_.end()) return;
  const auto done = std::move(found->second);
  works_.erase(found);
  if (completion.status == rdma::WorkStatus::success && !leaving_) done(completion);
}

void Agent::on_peer_finished() {
  if (world_.shape.calm && !leaving_ && !world_.stopping()) {
    world_.fail(fmt::format("{}'s session is ended by the target", named_.name));
  }
  leave();
}

void Agent::on_closed(const rdma::CloseReason& reason) {
  world_.note("closed agent", {static_cast<std::uint64_t>(reason.kind)});
  if (world_.shape.calm && !leaving_ && !world_.stopping()) {
    world_.fail(fmt::format("{}'s session ended: {}", named_.name, reason.text));
  }
  stream_ = nullptr;
  queue_.clear();
  asked_.clear();
  works_.clear();
  history_.clear();
  frees_since_.clear();
  when_still_ = nullptr;
  churners_ = 0;
  --budget_;
  later();
}

void Agent::send(std::vector<std::byte> message) {
  std::vector<rdma::WorkRequest> requests;
  requests.emplace_back(rdma::Send{0, std::move(message), false, {}});
  stream_->post(std::move(requests));
}

/// At most Max Requests without an answer (G-06).
void Agent::ask(wire::Request request, Answered answered) {
  if (stream_ == nullptr || leaving_) return;
  queue_.emplace_back(std::move(request), std::move(answered));
  ask_next();
}

void Agent::ask_next() {
  while (!queue_.empty() && asked_.size() < ack_.max_requests) {
    auto [request, answered] = std::move(queue_.front());
    queue_.pop_front();
    const std::uint64_t id = next_id_++;
    std::visit([id](auto& r) { r.head.request_id = id; }, request);
    asked_.emplace(id, std::move(answered));
    stream_->post_receives(1);
    send(wire::encode(request));
    after(world_.shape.calm ? kPrompt : kLongest, [this, id] {
      if (asked_.contains(id)) {
        world_.fail(fmt::format("a request of {} is not answered, and its session goes on", named_.name));
      }
    });
  }
}

void Agent::work(rdma::WorkRequest request, std::function<void(const rdma::Completion&)> done) {
  if (stream_ == nullptr || leaving_) return;
  const rdma::WorkId id = next_id_++;
  if (auto* read = std::get_if<rdma::Read>(&request)) read->id = id;
  if (auto* write = std::get_if<rdma::Write>(&request)) write->id = id;
  if (auto* add = std::get_if<rdma::FetchAdd>(&request)) add->id = id;
  works_.emplace(id, std::move(done));
  std::vector<rdma::WorkRequest> requests;
  requests.push_back(std::move(request));
  stream_->post(std::move(requests));
}

/// Not when the session has ended meanwhile.
void Agent::after(Duration time, Then then) {
  rdma::Loop& loop = stream_->loop();
  loop.call_at(loop.now() + time, [this, session = session_, then = std::move(then)] {
    if (session == session_ && stream_ != nullptr && !leaving_) then();
  });
}

void Agent::accept(const wire::HelloAck& ack) {
  if (life_ != world_.life) return stream_->abort("a session of unknown age");
  ack_ = ack;
  world_.note("connected agent", {ack.usage, ack.granted.direct_alloc, ack.quota, ack.max_requests});
  if (!ack.granted.direct_alloc) {
    budget_ = 0;
    return leave();
  }
  bound_.clear();
  for (std::uint64_t i = 0; i < ack.handle_count; ++i) bound_[ack.base_handle + i] = true;
  free_all(ack.base_handle);
}

}  // namespace kbtp::sim
