// HELLO and HELLO_ACK: who the initiator is, what it gets, and every refusal (G-05, G-39, G-51, P-09, P-10).

#include <algorithm>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "proto/target/session.h"

namespace kbtp::target {

namespace {

std::uint32_t limited(std::uint32_t wanted, std::uint32_t limit) {
  return limit == 0 ? wanted : std::min(wanted, limit);
}
std::uint64_t limited(std::uint64_t wanted, std::uint64_t limit) {
  return limit == 0 ? wanted : std::min(wanted, limit);
}

}  // namespace

void Session::handle_hello(Octets payload) {
  if (!waiting_.exchange(false)) return;  // given up to make room; its end is on the way
  if (hello_timer_ != rdma::TimerId::none) loop_.cancel(hello_timer_);
  hello_timer_ = rdma::TimerId::none;
  const auto hello = wire::decode_hello(payload, core_->config.assignment);
  if (!hello && fault(Fault::hello_order_ignored)) return;
  if (!hello) {  // P-04
    peer_log(spdlog::level::warn,
             stream_->peer().to_string() + " sent no HELLO: " + hello.error().to_string());
    return disconnect();
  }
  if (hello->min_version > wire::kVersion || hello->max_version < wire::kVersion) {
    return refuse_hello(*hello, wire::Status::unsupported_version);
  }
  if (hello->receive_size < wire::kMaxCompletionSize) {  // P-18
    return refuse_hello(*hello, wire::Status::no_resources);
  }
  if (const auto refusal = find_range(*hello)) return refuse_hello(*hello, *refusal);
  claim_range(*hello);
}

// G-51: an identity counts only when it is configured and comes from the address that proves it.
std::optional<wire::Status> Session::find_range(const wire::Hello& hello) {
  const AnonymousPolicy& policy = core_->config.anonymous;
  const auto named = core_->named.find(hello.identity);
  if (named != core_->named.end() && !fault(Fault::identity_forgotten)) {
    if (named->second.address != stream_->peer().host() && !fault(Fault::identity_not_proven))
      return wire::Status::access_denied;
    named_ = &named->second;
    range_ = named_->range;
    domain_ = range_->domain;
    return std::nullopt;
  }
  const bool welcome = hello.identity.is_zero() ? policy.accept_anonymous : policy.accept_unknown_identity;
  if (!welcome) return wire::Status::access_denied;
  domain_ = core_->domain_index(policy.domain);
  return std::nullopt;
}

void Session::claim_range(const wire::Hello& hello) {
  if (range_ != nullptr) {
    const auto older = core_->ranges.claim(*range_, shared_from_this());
    if (older != nullptr) {
      // G-51: the same authenticated peer is back; its old session is drained first.
      state_ = State::hello_waits;
      const auto again = [self = shared_from_this(), hello] {
        self->loop_.post([self, hello] {
          if (self->state_ == State::hello_waits) self->claim_range(hello);
        });
      };
      older->loop().post([older, again] { older->supersede(again); });
      return;
    }
    claimed_ = true;
  }
  if (!core_->session_opened(is_named())) return refuse_hello(hello, wire::Status::no_resources);
  counted_open_ = true;
  if (range_ == nullptr && !open_private_range(hello)) return refuse_hello(hello, wire::Status::no_resources);
  accept_hello(hello);
}

// P-09: a smaller grant when quota or handles run short, a refusal only when nothing is left.
bool Session::open_private_range(const wire::Hello& hello) {
  const AnonymousPolicy& policy = core_->config.anonymous;
  const std::uint64_t handles = limited(hello.handle_count, policy.max_handles);
  if (handles == 0) return true;  // a session that only loads (G-54)
  const std::uint32_t quota = limited(hello.quota, policy.max_quota);
  const auto at = hello.base_handle == wire::kNoBaseHandle ? std::nullopt : std::optional(hello.base_handle);
  const auto range = core_->ranges.open(at, handles, [&](Range& r) {
    const auto grant = core_->quotas.open(quota);
    r.owner = grant.owner;
    r.quota = grant.quota;
    r.domain = domain_;
  });
  if (range == nullptr) return false;
  range_ = range;
  return quota == 0 || range->quota > 0;
}

void Session::accept_hello(const wire::Hello& hello) {
  const TargetConfig& config = core_->config;
  wire::HelloAck ack;
  ack.request_id = hello.request_id;
  ack.version = ack.min_version = ack.max_version = wire::kVersion;
  ack.max_requests = hello.max_requests == 0 ? config.max_requests  // P-18
                                             : std::min(hello.max_requests, config.max_requests);
  ack.max_inline = config.max_inline;
  ack.block_size = config.block_size;
  ack.pool_blocks = config.blocks;  // F, the reserve included (P-07)
  if (range_ != nullptr) {
    ack.base_handle = range_->base;
    ack.handle_count = range_->count;
    ack.quota = range_->quota;
    ack.usage = core_->quotas.usage(range_->owner);
  }
  if (!open_direct_modes(hello, ack)) return refuse_hello(hello, wire::Status::no_resources);
  // KBTP 6.5: only where an RDMA Write does not become visible before the data of earlier ones, which RDMAP
  // does not promise; and by RDMA Write with Immediate (9.2).
  const rdma::Capabilities& stream = stream_->capabilities();
  ack.granted.record_completion =
      hello.wanted.record_completion && stream.write_immediate && stream.ordered_write_visibility;
  granted_ = ack.granted;
  if (fault(Fault::record_completion_offered)) ack.granted.record_completion = true;

  state_ = State::open;
  max_requests_ = ack.max_requests;
  // G-06: one receive for each credit. What is left of the first two covers the HELLO's own.
  stream_->post_receives(ack.max_requests);
  std::vector<rdma::WorkRequest> requests;
  posted_.push_back({});
  requests.emplace_back(rdma::Send{next_work_++, wire::encode(ack, config.assignment), false, {}});
  stream_->post(std::move(requests));
}

// KBTP 6.6: direct modes, for a named initiator that asks. False when there is no memory for its ring.
bool Session::open_direct_modes(const wire::Hello& hello, wire::HelloAck& ack) {
  if (named_ == nullptr) return true;
  const wire::Features modes =
      direct_modes(*named_, hello.wanted, stream_->capabilities(), core_->ring_counters);
  // G-24: a session that may count gets a new ring, and so does the one after it, whichever kind it is: what
  // tickets were open are void. Nobody reaches the old ring any more, for its STags ended with their stream.
  memory::Partition* partition = range_->partition;
  if (partition != nullptr && (modes.direct_alloc || partition->handed_out())) {
    if (const auto renewed = partition->renew(); !renewed) {
      spdlog::error("no ring for {}: {}", stream_->peer().to_string(), renewed.error().text);
      return false;
    }
  }
  if (!modes.direct_load && !modes.direct_alloc) return true;
  wire::HelloAck with_modes = ack;
  auto access = DirectAccess::open(*this, *stream_, *range_, modes, with_modes);
  if (!access) {
    spdlog::error("no direct modes for {}: {}", stream_->peer().to_string(), access.error().text);
    return true;
  }
  direct_ = std::move(*access);
  ack = with_modes;
  return true;
}

void Session::refuse_hello(const wire::Hello& hello, wire::Status status) {
  peer_log(spdlog::level::info,
           stream_->peer().to_string() + ": HELLO refused with " + std::string(wire::to_string(status)));
  if (counted_open_) {
    counted_open_ = false;
    core_->session_closed(is_named());
  }
  wire::HelloAck ack;
  ack.request_id = hello.request_id;
  ack.status = status;
  if (status == wire::Status::unsupported_version) ack.min_version = ack.max_version = wire::kVersion;
  std::vector<rdma::WorkRequest> requests;
  posted_.push_back({});
  requests.emplace_back(rdma::Send{next_work_++, wire::encode(ack, core_->config.assignment), false, {}});
  stream_->post(std::move(requests));
  disconnect();
}

}  // namespace kbtp::target
