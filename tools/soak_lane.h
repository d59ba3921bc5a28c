// One session of the soak: a random mixture of all operations on handles of its own and of others, with the
// answer to each known beforehand, and a session that is cut and opened again.
//
// A lane lives on its session's loop, like the crew (soak_crew.h) that it belongs to.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "proto/initiator/initiator.h"
#include "tools/content.h"

namespace kbtp::tools {

/// What the tally counts; INLINE and INVALIDATE are variants of their own because targets treat them apart.
enum class SoakKind : std::uint8_t {
  load,
  load_invalidate,
  store,
  store_inline,
  alloc_store,
  alloc_store_inline,
  free,
  probe,
  direct_load,
  direct_alloc,
};
inline constexpr std::size_t kSoakKinds = 10;
[[nodiscard]] std::string_view to_string(SoakKind kind);

/// What all lanes together did. The first thing that was not as it should be stops the soak.
struct SoakTally {
  std::array<std::uint64_t, kSoakKinds> operations{};  ///< answered
  std::uint64_t refused = 0;                           ///< of those, with the refusal that was provoked
  std::uint64_t unanswered = 0;                        ///< their session was cut
  std::uint64_t settled = 0;  ///< handles of which a lane learned what an unanswered operation had done
  std::uint64_t octets_checked = 0;
  std::uint64_t octets_stored = 0;
  std::uint64_t sessions = 0;  ///< opened
  std::uint64_t cuts = 0;      ///< ended at once, whatever was under way
  std::uint64_t closes = 0;    ///< ended gracefully
  Histogram latencies;
  std::string finding;
  std::string lost;

  [[nodiscard]] bool over() const { return !finding.empty() || !lost.empty(); }
  [[nodiscard]] std::uint64_t total() const;
};

class SoakLane {
 public:
  struct Options {
    initiator::ConnectOptions connect;  ///< where to, and what every session begins with
    Uuid identity;                      ///< zero: every cut costs the lane all that it holds
    std::uint32_t blocks = 0;           ///< and handles
    std::uint32_t block_size = 0;
    std::uint32_t outstanding = 0;
    std::uint64_t seed = 0;
    Duration session_life{};  ///< mean time from opening a session to cutting it; 0: it is never cut
  };
  using Lanes = std::vector<std::unique_ptr<SoakLane>>;

  /// `lanes` are all of the crew's, whose blocks this one loads too. `number` is its place there.
  SoakLane(rdma::Provider& provider, const Options& options, std::size_t number, const Lanes& lanes,
           SoakTally& tally);
  ~SoakLane();
  SoakLane(const SoakLane&) = delete;
  SoakLane& operator=(const SoakLane&) = delete;

  void open();
  /// Starts one operation; false when none can start now.
  bool step();
  /// Cuts the session when its time has come.
  void disturb(TimePoint now);
  /// No more operations but those that free what is held; then the session ends.
  void stop();
  /// Ends at once: the soak is over anyway.
  void abandon();
  /// After stop() or abandon(): whether the last session has ended and nothing will be called back.
  [[nodiscard]] bool over() const;

 private:
  /// What a store wrote.
  struct Stored {
    ContentKey key;
    std::uint32_t length = 0;
  };
  enum class State : std::uint8_t {
    unbound,
    unsealed,
    sealed,
    doubtful,  ///< the session was cut while an operation was to change it
  };
  struct Held {
    State state = State::unbound;
    bool changing = false;      ///< an operation that may change it is under way
    std::uint32_t readers = 0;  ///< operations, of any lane, that only look at it
    std::uint16_t generation = 0;
    bool content_known = true;  ///< an unsealed block whose STORE was cut may hold any octets
    Stored content;
    // What a doubtful handle may turn out to be.
    bool may_be_unbound = false;
    bool may_be_unsealed = false;
    std::optional<Stored> may_be_sealed;
  };
  struct Operation {
    SoakKind kind = SoakKind::load;
    wire::Status expected = wire::Status::success;
    std::size_t lane = 0;  ///< whose handle it is
    std::uint32_t index = 0;
    std::uint64_t epoch = 0;  ///< of that lane
    std::uint32_t slot = 0;
    std::uint16_t generation = 0;  ///< sent
    std::uint32_t sink = 0;        ///< octets of the descriptor, of LOADs
    bool seal = false;
    bool invalidate = false;
    bool allow_unsealed = false;
    bool settles = false;  ///< finds out about a doubtful handle
    Stored stored;         ///< of stores
    TimePoint begun;
  };

  void connected(Expected<std::shared_ptr<initiator::Session>, initiator::ConnectError> session);
  void retry(const std::string& why);
  void closed(const rdma::CloseReason& reason);
  void end_session(bool gracefully);

  [[nodiscard]] std::optional<Operation> choose();
  [[nodiscard]] Operation choose_for_unbound(std::uint32_t index);
  [[nodiscard]] Operation choose_for_unsealed(std::uint32_t index);
  [[nodiscard]] Operation choose_for_sealed(std::uint32_t index);
  [[nodiscard]] std::optional<Operation> choose_foreign();
  [[nodiscard]] std::optional<Operation> choose_last();
  [[nodiscard]] Operation settle(std::uint32_t index) const;
  [[nodiscard]] Operation look(std::uint32_t index, SoakKind kind) const;
  [[nodiscard]] Operation store_into(std::uint32_t index, SoakKind kind);
  [[nodiscard]] Operation free(std::uint32_t index);
  void begin(Operation operation);
  void send(const Operation& operation);
  void done(const Operation& operation, const initiator::Outcome& outcome);
  void unanswered(const Operation& operation, const initiator::Outcome& outcome);
  void apply(const Operation& operation, const initiator::Outcome& outcome);
  void check_content(const Operation& operation, const initiator::Outcome& outcome, const Stored& content);
  void settled(const Operation& operation, const initiator::Outcome& outcome);
  void find(const Operation& operation, const std::string& what);

  [[nodiscard]] bool holds_nothing() const;
  [[nodiscard]] static bool changes(const Operation& operation);
  [[nodiscard]] Held& held(const Operation& operation) const;
  [[nodiscard]] MutableOctets slot(std::uint32_t number) const;
  [[nodiscard]] bool chance(unsigned percent);
  [[nodiscard]] std::uint32_t random_length(std::uint32_t most);

  rdma::Provider& provider_;
  rdma::Loop& loop_;
  const Options options_;
  const std::size_t number_;
  const Lanes& lanes_;
  SoakTally& tally_;
  std::mt19937_64 random_;

  std::shared_ptr<initiator::Session> session_;
  std::uint64_t epoch_ = 0;  // grows when the lane loses what it held
  bool connecting_ = false;  // or waiting to try again
  bool ending_ = false;      // we have ended the session ourselves
  bool cutting_ = false;     // a cut is about to come
  bool stopping_ = false;
  bool abandoned_ = false;
  TimePoint cut_at_ = kNever;
  TimePoint unreachable_since_ = kNever;
  std::uint64_t stores_ = 0;
  std::vector<Held> held_;
  mutable std::vector<std::byte> memory_;  // a block for each slot
  initiator::Buffer buffer_;
  std::vector<std::uint32_t> free_slots_;
};

}  // namespace kbtp::tools
