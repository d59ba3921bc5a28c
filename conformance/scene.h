// What a case is written against: it opens connections, does things, and says what it expects to find in the
// trace afterwards. The first thing that goes wrong on the way to the point of the case is kept ("latched");
// everything after it does nothing, so that a case reads as a plain list.

#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "conformance/judge.h"
#include "conformance/profile.h"
#include "conformance/session.h"
#include "proto/rdma/provider.h"

namespace kbtp::conformance {

/// The outcome of a case, as COMMAND.md defines them. Names on reports: "pass", "pass-weak", "setup-error".
enum class State : std::uint8_t {
  pass,
  pass_weak,
  expected_fail,    ///< a fail that --expect foretold
  unexpected_pass,  ///< a pass where --expect foretold otherwise
  fail,
  skip,
  unsupported,
  inconclusive,
  setup_error,
};
[[nodiscard]] std::string_view to_string(State state);
inline constexpr std::size_t kStateCount = 9;

/// What is the same for all cases of a run.
struct Surroundings {
  SocketAddress target;
  Profile profile;
  rdma::Provider* provider = nullptr;  ///< through which the suite speaks; null: raw iWARP. Not owned
};

/// A peer for the next connection, not yet open; with trouble() when there can be none.
[[nodiscard]] std::unique_ptr<Peer> make_peer(const Surroundings& surroundings);

class Scene {
 public:
  using OnBound = Peer::OnBound;
  Scene(const Surroundings& surroundings, OnBound on_bound);

  /// A connection and nothing on it; the Session can be opened later.
  Session& connection();
  [[nodiscard]] RawPeer& raw();
  /// The index of the connection opened last.
  [[nodiscard]] ConnectionIndex last_index() const {
    return static_cast<ConnectionIndex>(sessions_.size() - 1);
  }
  /// An open session.
  [[nodiscard]] Session& session(SessionOptions options = {});
  [[nodiscard]] const Surroundings& surroundings() const { return surroundings_; }

  /// Says in one line what is done to the target; lines add up.
  void stimulus(std::string_view text);
  void expect(Expectation expectation);

  /// Without SUCCESS for this request the case has not come to its point.
  wire::Completion need_success(Session& session, RequestId id);
  void need(bool good, std::string why) {
    if (!good) stop(State::setup_error, std::move(why));
  }
  /// The case ends here in this state; only the first call counts.
  void stop(State state, std::string why);
  [[nodiscard]] bool stopped() const { return stopped_.has_value(); }
  [[nodiscard]] const std::optional<State>& stopped_state() const { return stopped_; }
  [[nodiscard]] const std::string& why() const { return why_; }

  [[nodiscard]] const std::string& stimulus_text() const { return stimulus_; }
  [[nodiscard]] const std::vector<Expectation>& expectations() const { return expectations_; }
  [[nodiscard]] std::deque<Session>& sessions() { return sessions_; }

 private:
  const Surroundings& surroundings_;
  OnBound on_bound_;
  std::deque<Session> sessions_;
  std::string stimulus_;
  std::vector<Expectation> expectations_;
  std::optional<State> stopped_;
  std::string why_;
};

}  // namespace kbtp::conformance
