// An initiator that does whatever the seed says, over and over with new sessions, and judges each answer.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/initiator/initiator.h"
#include "tests/sim/world.h"

namespace kbtp::sim {

struct Character {
  std::string name;
  std::size_t host = 5;
  Uuid identity;
  std::uint32_t quota = 0;  ///< wanted; with `handles` 0: it only loads
  std::uint64_t handles = 0;
  int budget = 60;  ///< operations and attempts to connect
  int at_once = 6;
  bool watches = false;  ///< mostly loads, by itself where it may, what others are just binding (E-2)
};

class Actor {
 public:
  Actor(World& world, Character character);

  [[nodiscard]] bool done() const { return finished_; }
  [[nodiscard]] int answered() const { return answered_; }
  [[nodiscard]] const std::string& name() const { return character_.name; }
  [[nodiscard]] int under_way() const { return under_way_; }

 private:
  using Memory = std::shared_ptr<std::vector<std::byte>>;
  /// One operation from its start to its end.
  struct Errand {
    std::uint64_t number = 0;
    std::uint64_t handle = 0;
    TimePoint since{};
    std::uint64_t moment = 0;  // of the oracle
    StoreId store = 0;
    bool allocates = false;
    std::optional<std::uint64_t> within_quota;  // overdraws_ when it began
    std::uint64_t frees_sent = 0;               // of the handle, when it began
    bool ended = false;
  };
  using ErrandPtr = std::shared_ptr<Errand>;

  void connect();
  void connected(const std::shared_ptr<initiator::Session>& session, std::uint64_t life);
  void later();
  void next();
  void start();
  void alloc_store(std::uint64_t handle);
  void store(std::uint64_t handle);
  void free(std::uint64_t handle);
  void load(std::uint64_t handle);
  void probe(std::uint64_t handle);
  void direct_load(std::uint64_t handle);
  void direct_alloc(std::uint64_t handle);

  [[nodiscard]] ErrandPtr begin(std::string_view what, std::uint64_t handle);
  void begin_allocation(Errand& errand);
  void end(const ErrandPtr& errand, const initiator::Outcome& outcome);
  void judge_store(Errand& errand, const initiator::Outcome& outcome);
  void judge_sink(const initiator::Outcome& outcome, const std::vector<std::byte>& memory, std::size_t room);
  void judge_content(const Errand& errand, const initiator::Outcome& outcome,
                     const std::vector<std::byte>& memory);
  [[nodiscard]] HandleKey key(std::uint64_t handle) const { return {life_, handle}; }
  [[nodiscard]] std::optional<std::uint64_t> idle_handle() const;
  [[nodiscard]] bool persistent() const { return character_.identity != Uuid{}; }

  World& world_;
  Character character_;
  std::uint64_t life_ = 0;  // of the target that the session is with
  bool finished_ = false;
  int under_way_ = 0;
  int answered_ = 0;
  std::uint64_t errands_ = 0;
  std::uint64_t most_used_ = 0;  // blocks that this initiator may hold at most
  std::uint64_t overdraws_ = 0;  // allocations begun that may have been too many
  std::map<std::uint64_t, std::uint64_t> frees_sent_;
  struct Own {
    int busy = 0;  // operations of ours
    bool bound = true;
    bool to_be_bound = false;  // by a direct allocation under way
  };
  std::map<std::uint64_t, Own> own_;  // what this session knows of its range
  bool spare_ticket_ = false;         // the target has refused a BIND of this session
  bool leaving_ = false;
  std::shared_ptr<initiator::Session> session_;
};

}  // namespace kbtp::sim
