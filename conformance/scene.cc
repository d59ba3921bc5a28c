#include "conformance/scene.h"

#include <fmt/format.h>

#include "conformance/provider_peer.h"

namespace kbtp::conformance {

std::string_view to_string(Grade grade) {
  switch (grade) {
    case Grade::exact:
      return "pass";
    case Grade::weak:
      return "pass-weak";
    case Grade::wrong:
      return "fail";
    case Grade::unsupported:
      return "unsupported";
    case Grade::unclear:
      return "inconclusive";
  }
  return "";
}

std::string_view to_string(State state) {
  switch (state) {
    case State::pass:
      return "pass";
    case State::pass_weak:
      return "pass-weak";
    case State::expected_fail:
      return "expected-fail";
    case State::unexpected_pass:
      return "unexpected-pass";
    case State::fail:
      return "fail";
    case State::skip:
      return "skip";
    case State::unsupported:
      return "unsupported";
    case State::inconclusive:
      return "inconclusive";
    case State::setup_error:
      return "setup-error";
  }
  return "";
}

Scene::Scene(const Surroundings& surroundings, OnBound on_bound)
    : surroundings_(surroundings), on_bound_(std::move(on_bound)) {}

void Scene::stop(State state, std::string why) {
  if (stopped_) return;
  stopped_ = state;
  why_ = std::move(why);
}

std::unique_ptr<Peer> make_peer(const Surroundings& surroundings) {
  const Allowances& allowances = surroundings.profile.allowances;
  if (surroundings.provider != nullptr)
    return std::make_unique<ProviderPeer>(*surroundings.provider, surroundings.target, allowances);
  auto bound = RawPeer::bind_for(surroundings.target, allowances);
  return bound ? std::move(*bound) : RawPeer::dead(bound.error().text);
}

Session& Scene::connection() {
  auto peer = make_peer(surroundings_);
  if (stopped()) {
    on_bound_({});
    peer->close();
  } else if (!peer->open(on_bound_)) {
    stop(State::setup_error, peer->trouble());
  }
  return sessions_.emplace_back(std::move(peer), static_cast<ConnectionIndex>(sessions_.size()),
                                surroundings_.profile.assignment);
}

RawPeer& Scene::raw() { return connection().raw(); }

Session& Scene::session(SessionOptions options) {
  const Profile& profile = surroundings_.profile;
  if (options.identity.is_zero() && (options.quota > profile.quota.value_or(options.quota) ||
                                     options.handles > profile.handles.value_or(options.handles)))
    stop(State::skip,
         fmt::format("the case needs a quota of {} and {} handles, more than the profile's target grants",
                     options.quota, options.handles));
  Session& session = connection();
  if (!stopped() && !session.open(options)) stop(State::setup_error, session.why());
  if (stopped()) session.peer().close();
  return session;
}

void Scene::stimulus(std::string_view text) {
  if (!stimulus_.empty()) stimulus_ += "; ";
  stimulus_ += text;
}

void Scene::expect(Expectation expectation) { expectations_.push_back(std::move(expectation)); }

wire::Completion Scene::need_success(Session& session, RequestId id) {
  if (stopped()) return {};
  const auto completion = session.await(id);
  if (!completion) {
    stop(State::setup_error,
         fmt::format("request {:#x} on the way to the point of the case was not completed{}", id,
                     session.peer().trouble().empty() ? "" : ": " + session.peer().trouble()));
    return {};
  }
  if (completion->status != wire::Status::success)
    stop(State::setup_error, fmt::format("request {:#x} on the way to the point of the case ended with {}",
                                         id, wire::to_string(completion->status)));
  return *completion;
}

}  // namespace kbtp::conformance
