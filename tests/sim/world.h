// What a run consists of, all of it drawn from one seed: a fabric, a target whose process may be started
// anew, and who connects to it.

#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/uuid.h"
#include "proto/target/target.h"
#include "tests/sim/content.h"
#include "tests/sim/fabric.h"
#include "tests/sim/journal.h"

namespace kbtp::sim {

/// The configured initiators; what they bind outlives their sessions (G-24).
struct Named {
  std::string_view name;
  Uuid identity;
  std::size_t host;  ///< of the fabric; the target is host 0
};
extern const std::vector<Named> kNamed;

/// What the seed decides about a run as a whole.
struct Shape {
  bool engines = false;           ///< the RNIC's engines instead of the fake fabric
  bool infiniband = false;        ///< the fake fabric keeps InfiniBand's rules (9.2)
  bool calm = false;              ///< nothing is cut, stalled or killed: every answer comes soon
  bool revision_1 = false;        ///< of MPA: engines only, Read depths are not negotiated
  bool direct = false;            ///< the configured initiators may use the direct modes
  std::uint64_t disturbance = 0;  ///< one in so many events
  target::TargetConfig config;
};

/// Longer than anything takes while nothing is cut, stalled or killed.
inline constexpr Duration kPrompt = std::chrono::milliseconds(400);

class World {
 public:
  World(std::uint64_t seed, bool print);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] std::uint64_t below(std::uint64_t bound) { return fabric->below(bound); }
  [[nodiscard]] SocketAddress address() const;
  [[nodiscard]] rdma::Provider& host(std::size_t number) { return *hosts_.at(number); }

  /// A handle to look at: mostly one that is being bound or was not long ago.
  [[nodiscard]] std::uint64_t some_handle();
  void touched(std::uint64_t handle) { recent_[below(recent_.size())] = handle; }

  /// The target's process dies, and a new one that remembers nothing starts a little later.
  void restart_target();
  /// Cuts a connection, stalls a reader for a while, or kills the target.
  void disturb();
  void end_stalls();

  /// What must hold at any moment.
  void check_now();
  /// No more sessions; what dead targets held is accounted for.
  [[nodiscard]] bool settle();
  /// The end, good or bad: every connection is cut, and what that brings about happens.
  void stop(const std::function<bool()>& all_gone);
  [[nodiscard]] bool stopping() const { return stopping_; }

  void note(std::string_view what, std::initializer_list<std::uint64_t> numbers) {
    journal.note(fabric->now(), what, numbers);
  }
  void fail(std::string text) { journal.fail(fabric->now(), std::move(text)); }

  Journal journal;
  Shape shape;
  std::unique_ptr<Fabric> fabric;
  Content content;
  /// How often the target has been started; a handle means something in one life only.
  std::uint64_t life = 0;
  /// Who holds each Block Offset of this life, as far as it is known.
  std::map<std::uint64_t, std::uint64_t> holders;
  std::unique_ptr<target::Target> target;

 private:
  struct Stall {
    std::size_t connection;
    Side side;
  };
  struct Grave {
    std::unique_ptr<target::Target> target;
    bool drained = false;
  };
  void later(Duration time, rdma::Task task);
  void end_stall(std::uint64_t number);
  void start_target();
  void bury();
  void check_grave(const target::Target& dead);

  std::vector<rdma::Provider*> hosts_;
  std::array<std::uint64_t, 5> recent_{};
  std::unique_ptr<rdma::Listener> listener_;
  std::size_t first_connection_ = 0;  // of this life
  std::map<std::uint64_t, Stall> stalls_;
  std::uint64_t stalls_begun_ = 0;
  std::vector<std::shared_ptr<Grave>> graves_;
  std::uint64_t restarts_left_ = 0;
  bool stopping_ = false;
};

}  // namespace kbtp::sim
