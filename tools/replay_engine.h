// The replay of a trace: which operation follows from each block reference, in what order they may run, and
// the check of every loaded octet.
//
// What is a hit is decided in trace order before anything is sent, so the numbers do not depend on how many
// operations are outstanding. Every place of the LRU is one handle; operations on one handle wait for each
// other (LOADs only for what is no LOAD), others run side by side.
//
// Threads: an engine lives on its lanes' loop. Only progress() may be called from elsewhere.

#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/histogram.h"
#include "tools/content.h"
#include "tools/replay_lanes.h"
#include "tools/replay_places.h"
#include "tools/trace_reader.h"

namespace kbtp::tools {

struct ReplayOptions {
  std::uint32_t block_size = 0;  ///< octets stored in each block
  std::optional<double> speed;   ///< times the trace's own pace; unset: as fast as it can
};

struct ReplayResult {
  std::uint64_t requests = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;
  std::uint64_t octets_checked = 0;
  std::uint64_t octets_stored = 0;
  std::uint64_t freed_at_end = 0;
  Duration elapsed{};  ///< of the trace, without the frees at the end
  Histogram loads;
  Histogram stores;
  std::string finding;    ///< the first thing that was not as it should be; empty when all was
  std::string lost;       ///< why a lane ended early; empty when none did
  std::string bad_trace;  ///< what is wrong with the trace; empty when nothing is
  bool stopped = false;   ///< by stop(), before the trace was over
};

class ReplayEngine {
 public:
  /// All outlive the engine.
  ReplayEngine(ReplayPlaces& places, ReplayLanes& lanes, TraceReader& trace, const ReplayOptions& options);

  /// Starts; `done` runs on the loop when everything has ended and every held block is freed again.
  void start(std::function<void()> done);

  /// Takes up no more of the trace; what is held is freed and `done` runs as ever.
  void stop();

  [[nodiscard]] const ReplayResult& result() const { return result_; }
  /// Requests of the trace taken up so far. Any thread.
  [[nodiscard]] std::uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  enum class Stage : std::uint8_t {
    trace,    ///< following the trace
    freeing,  ///< the trace is over, or given up: freeing what is held
    ended,
  };
  struct Operation {
    ReplayOperation what;
    std::uint32_t next = kNone;  ///< in its place's queue
  };
  struct Place {
    std::uint32_t first = kNone;  ///< queue of operations that may not start yet
    std::uint32_t last = kNone;
    std::uint32_t loads = 0;  ///< started
    bool exclusive = false;   ///< an ALLOC_STORE or FREE is started
    bool bound = false;
    std::uint16_t generation = 0;
    ContentKey key;
  };
  struct Lane {
    std::uint32_t free_slots = 0;
    std::deque<std::uint32_t> ready;  ///< operations that may start once a slot is free
  };

  void step();
  void follow_trace();
  [[nodiscard]] bool next_reference(std::uint64_t& id);
  void free_held();
  void enqueue(ReplayKind kind, std::uint32_t place, ContentKey key, std::uint32_t lane);
  void start_ready(std::uint32_t place);
  void issue(Lane& lane);
  void send(Lane& lane, std::uint32_t index);
  void completed(std::uint32_t index, const ReplayOutcome& outcome);
  void release(std::uint32_t index);
  void find(const ReplayOperation& operation, std::string_view what);
  void give_up();
  [[nodiscard]] bool idle() const { return free_operations_.size() == operations_.size(); }

  ReplayOptions options_;
  TraceReader& trace_;
  ReplayPlaces& places_of_;
  ReplayLanes& carriers_;
  std::unordered_map<std::uint64_t, std::uint64_t> times_stored_;
  std::vector<Lane> lanes_;
  std::vector<Place> places_;
  std::vector<Operation> operations_;  // as many as may be under way, started or queued
  std::vector<std::uint32_t> free_operations_;

  TraceRequest request_;
  std::size_t reference_ = 0;                    // next of request_.hash_ids
  rdma::TimerId waiting_ = rdma::TimerId::none;  // for the time of request_, with --speed
  std::uint32_t next_to_free_ = 0;
  Stage stage_ = Stage::trace;
  bool over_ = false;  // no more references are taken
  TimePoint started_;
  std::function<void()> done_;
  ReplayResult result_;
  std::atomic<std::uint64_t> progress_{0};
};

}  // namespace kbtp::tools
