// RDMA Reads, Atomics and Writes that a session makes itself, with what to do when each has ended. Internal
// to proto/initiator.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>

#include "proto/rdma/provider.h"

namespace kbtp::initiator {

/// At most ORD Reads and Atomics are posted at a time and the others wait here: inside the provider they
/// would hold up every Send and Write that is posted behind them.
class OneSided {
 public:
  explicit OneSided(rdma::Loop& loop) : loop_(loop) {}

  struct Ended {
    TimePoint posted;            ///< the peer has not read the memory before
    std::uint64_t original = 0;  ///< of an Atomic, the word before
  };
  /// Runs when the operation has succeeded. What a stream's end flushes is forgotten.
  using Then = std::function<void(const Ended& ended)>;

  /// Who has begun goes first, so that what is under way ends soon and not more than about ORD are.
  enum class Turn : std::uint8_t {
    begins,
    goes_on,
  };

  void open(rdma::Stream& stream);
  /// Nothing is posted any more. What is posted keeps its memory until it has ended.
  void stop();
  /// The stream has ended, and everything posted with it.
  void close();

  void read(MutableOctets sink, const rdma::RemoteBuffer& source, Turn turn, Then then);
  void fetch_add(const rdma::RemoteBuffer& word, std::uint64_t add, std::uint64_t mask, Turn turn, Then then);
  /// A Write for the caller to post.
  [[nodiscard]] rdma::Write write(Octets source, const rdma::RemoteBuffer& destination, Then then);

  /// Of a request with an id; those of Sends have none (0).
  void on_completion(const rdma::Completion& completion);

 private:
  struct Waiting {
    rdma::WorkRequest request;
    Then then;
  };
  struct Posted {
    TimePoint posted;
    Then then;
    bool read = false;
  };
  void wait(Turn turn, Waiting waiting);
  void pump();

  rdma::Loop& loop_;
  rdma::Stream* stream_ = nullptr;
  rdma::WorkId last_id_ = 0;
  std::uint32_t reads_ = 0;  // posted
  std::deque<Waiting> begin_;
  std::deque<Waiting> go_on_;
  std::unordered_map<rdma::WorkId, Posted> posted_;
};

}  // namespace kbtp::initiator
