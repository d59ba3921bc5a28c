// What a connection has been asked to do and what of it the device has been handed: cuts requests into the
// device's work requests as far as the send queue, the Read depth and the staging memory allow, and puts the
// completions together again, in the order of posting. Without libibverbs.
//
//   post() by the upper layer; while next() gives an order, it goes to the device; ended() for each that the
//   device has ended, in order; after both, take() until there is nothing to tell.

#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "proto/rdma/completion.h"
#include "proto/rdma/work_request.h"
#include "verbs/staging.h"

namespace kbtp::verbs {

struct QueueLimits {
  std::uint32_t depth = 0;         ///< orders that the device holds at a time
  std::uint32_t ord = 0;           ///< Reads and Atomics among them
  std::uint32_t inline_limit = 0;  ///< octets of a Send
  std::uint64_t max_message = 0;   ///< octets of one order
  bool write_immediate = false;
  bool plain_atomics = false;
  bool send_invalidate = false;
};

/// Where an order's octets lie on this side.
enum class Place : std::uint8_t {
  nowhere,      ///< none
  inlined,      ///< copied by the device's driver when it is handed over
  out_staging,  ///< in the ring for what leaves
  in_staging,   ///< in the ring for what arrives
  region,       ///< in a region of the upper layer
};

/// One work request for the device.
struct Order {
  enum class Kind : std::uint8_t {
    send,
    write,
    write_immediate,
    read,
    fetch_add,
    compare_swap,
    bind_window,
  };
  Kind kind = Kind::send;
  Place place = Place::nowhere;
  Octets local;                     ///< sent from, or read into
  std::uint32_t local_key = 0;      ///< of a region
  std::uint64_t local_address = 0;  ///< of `local` in that region, as the device counts
  rdma::RemoteBuffer remote;
  bool solicited = false;
  std::optional<rdma::STag> invalidate;
  std::uint32_t immediate = 0;
  std::uint64_t operand = 0;  ///< the addend, or what is compared
  std::uint64_t swap = 0;
  std::uint64_t window = 0;  ///< of bind_window: the number given to bind()
};

/// What take() has to tell.
struct Ended {
  std::optional<rdma::Completion> completion;  ///< none for orders that the upper layer does not know
  std::optional<rdma::STag> revoke;            ///< a LocalInvalidate has come to its place: to be done first
};

class WorkQueue {
 public:
  /// How the device finds octets in a region.
  struct InRegion {
    std::uint32_t key = 0;
    std::uint64_t address = 0;
  };
  /// A region that holds all of `octets` and that may be sent from where it lies.
  using FindRegion = std::function<std::optional<InRegion>(Octets octets)>;

  WorkQueue(const QueueLimits& limits, MutableOctets out, MutableOctets in, FindRegion find_region);

  void post(rdma::WorkRequest request);
  /// What is posted from here on is told as flushed, in its turn.
  void close() { closed_ = true; }
  /// Binds a memory window, in order with requests.
  void bind(std::uint64_t window);
  /// After set-up: what was agreed.
  void set_ord(std::uint32_t ord) { limits_.ord = ord; }

  [[nodiscard]] std::optional<Order> next();
  /// An order has ended well, the one that next() gave as the `order`-th, counted from 0; a Read's octets are
  /// in its sink now. Siw tells of a Send before it tells of a Read that was posted in front of it.
  void ended(std::uint64_t order);
  /// The oldest one that has not ended.
  void ended() { ended(orders_ended_); }
  [[nodiscard]] std::optional<Ended> take();
  /// Nothing more reaches the device: everything that is left is told as flushed by take().
  void flush();

  /// Requests of which the device has no order yet.
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  /// No request is left, told or untold.
  [[nodiscard]] bool idle() const { return waiting_.empty() && begun_.empty(); }
  /// An order of ours that needs no answer of the peer has been with the device for some time.
  [[nodiscard]] bool sending() const;
  [[nodiscard]] std::uint64_t orders_ended() const { return orders_ended_; }

 private:
  struct Window {
    std::uint64_t number = 0;
  };
  using Item = std::variant<rdma::WorkRequest, Window>;
  struct Waiting {
    Item item;
    bool late = false;  // posted after close()
  };
  /// A request of which the device has an order, or that waits for its turn to be told.
  struct Begun {
    Item item;
    rdma::WorkId id = 0;
    std::uint64_t done = 0;    ///< octets in orders
    std::uint32_t orders = 0;  ///< with the device
    bool whole = false;        ///< all orders have been given
    rdma::WorkStatus status = rdma::WorkStatus::success;
    std::uint64_t original = 0;
  };
  struct Flying {
    std::uint64_t number = 0;  // of its Begun
    Place place = Place::nowhere;
    bool answered = false;  // takes up Read depth
    bool atomic = false;
    MutableOctets staged;
    MutableOctets sink;
    bool shared_sink = false;
    bool ended = false;
  };

  [[nodiscard]] const char* objection(const rdma::WorkRequest& request) const;
  void begin();
  [[nodiscard]] bool revokes_last() const;
  std::optional<Order> order(Begun& begun, const rdma::Send& send);
  std::optional<Order> order(Begun& begun, const rdma::Write& write);
  std::optional<Order> order(Begun& begun, const rdma::WriteImmediate& write);
  std::optional<Order> order(Begun& begun, const rdma::Immediate& immediate);
  std::optional<Order> order(Begun& begun, const rdma::Read& read);
  std::optional<Order> order(Begun& begun, const rdma::FetchAdd& add);
  std::optional<Order> order(Begun& begun, const rdma::CompareSwap& swap);
  std::optional<Order> order(Begun& begun, const rdma::LocalInvalidate& invalidate);
  std::optional<Order> order(Begun& begun, const Window& window);
  std::optional<Order> atomic(Begun& begun, Order order);
  [[nodiscard]] Begun& begun(std::uint64_t number) { return begun_[number - first_]; }
  [[nodiscard]] std::size_t piece(std::uint64_t left, const StagingRing& ring) const;
  bool stage(Order& order, Octets source);
  void fly(Begun& begun, const Order& order, Flying flying);

  QueueLimits limits_;
  StagingRing out_;
  StagingRing in_;
  FindRegion find_region_;
  std::deque<Waiting> waiting_;
  std::deque<Begun> begun_;  // oldest first
  std::uint64_t first_ = 0;  // number of begun_.front()
  std::deque<Flying> flying_;
  std::uint32_t answers_due_ = 0;
  std::uint64_t orders_ended_ = 0;  // number of flying_.front()
  bool closed_ = false;
  bool flushed_ = false;
};

}  // namespace kbtp::verbs
