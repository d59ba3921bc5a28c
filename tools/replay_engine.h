// The replay of a trace: which operation follows from each block reference, in what order they may run, and
// the check of every loaded octet.
//
// What is a hit is decided in trace order before anything is sent, so the numbers do not depend on how many
// operations are outstanding. Every place of the LRU is one handle; operations on one handle wait for each
// other (LOADs only for what is no LOAD), others run side by side.
//
// Threads: an engine lives on its sessions' loop. Only progress() may be called from elsewhere.

#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "proto/initiator/initiator.h"
#include "tools/content.h"
#include "tools/histogram.h"
#include "tools/lru.h"
#include "tools/trace_reader.h"

namespace kbtp::tools {

struct ReplayOptions {
  std::uint32_t capacity = 0;     ///< blocks held at most
  std::uint32_t block_size = 0;   ///< octets stored in each
  std::uint32_t outstanding = 0;  ///< operations of one session at most
  std::optional<double> speed;    ///< times the trace's own pace; unset: as fast as it can
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
  std::string lost;       ///< why a session ended early; empty when none did
  std::string bad_trace;  ///< what is wrong with the trace; empty when nothing is
};

class ReplayEngine {
 public:
  using Sessions = std::vector<std::shared_ptr<initiator::Session>>;

  /// Place p belongs to sessions[p mod sessions.size()]; each session must have been granted handles_of()
  /// handles and blocks.
  ReplayEngine(Sessions sessions, TraceReader& trace, const ReplayOptions& options);

  /// Blocks that session `index` of `count` needs for `capacity` places.
  static std::uint32_t share(std::uint32_t capacity, std::size_t index, std::size_t count);

  /// Starts; `done` runs on the loop when everything has ended and every held block is freed again.
  void start(std::function<void()> done);

  [[nodiscard]] const ReplayResult& result() const { return result_; }
  /// Requests of the trace taken up so far. Any thread.
  [[nodiscard]] std::uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  enum class Kind : std::uint8_t {
    load,
    alloc_store,
    free,
  };
  enum class Stage : std::uint8_t {
    trace,    ///< following the trace
    freeing,  ///< the trace is over, or given up: freeing what is held
    ended,
  };
  struct Operation {
    Kind kind = Kind::load;
    std::uint32_t place = 0;
    std::uint32_t next = kNone;  ///< in its place's queue
    std::uint32_t session = 0;
    std::uint32_t slot = 0;  ///< of the session, while outstanding
    ContentKey key;
    TimePoint issued;
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
  /// A session with its buffers, one a slot.
  struct Lane {
    std::shared_ptr<initiator::Session> session;
    std::vector<std::byte> memory;
    initiator::Buffer buffer;
    std::vector<std::uint32_t> free_slots;
    std::deque<std::uint32_t> ready;  ///< operations that may start once a slot is free
  };

  bool register_buffers();
  void step();
  void follow_trace();
  [[nodiscard]] bool next_reference(std::uint64_t& id);
  void free_held();
  void enqueue(Kind kind, std::uint32_t place, ContentKey key, std::uint32_t session);
  void start_ready(std::uint32_t place);
  void issue(Lane& lane);
  void send(Lane& lane, std::uint32_t index);
  void completed(std::uint32_t index, const initiator::Outcome& outcome);
  void check_load(const Operation& operation, const initiator::Outcome& outcome);
  void release(std::uint32_t index);
  void find(const Operation& operation, std::string_view what);
  void give_up();
  [[nodiscard]] std::uint32_t owner(std::uint32_t place) const;
  [[nodiscard]] std::uint64_t handle(std::uint32_t place) const;
  [[nodiscard]] MutableOctets slot_memory(Lane& lane, std::uint32_t slot) const;
  [[nodiscard]] bool idle() const { return free_operations_.size() == operations_.size(); }

  ReplayOptions options_;
  TraceReader& trace_;
  Lru lru_;
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
