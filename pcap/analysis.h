// What follows from several events together: which response answers which request and after how long, what a
// Read or a Write is for, the life of STags, what went wrong.
//
// An Analyzer is told every event of the iWARP connections of a capture in order. It holds a bounded number
// of open requests, buffers and handles for each connection, the oldest making room, and of all connections
// together: what is known of those that were silent longest is forgotten then. One thread.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "pcap/decoder.h"
#include "pcap/event.h"
#include "pcap/record.h"
#include "proto/wire/assignment.h"
#include "proto/wire/terms.h"

namespace kbtp::trace {

/// One that was answered. Times are those of the frames that completed request and answer.
struct Answered {
  enum class Kind : std::uint8_t {
    kbtp,    ///< a request and its COMPLETION; HELLO and HELLO_ACK
    read,    ///< RDMA Read Request and the last segment of its Response
    atomic,  ///< Atomic Request and Response
  };
  Kind kind = Kind::kbtp;
  wire::Opcode op = wire::Opcode::hello;        ///< of Kind::kbtp
  wire::Status status = wire::Status::success;  ///< of Kind::kbtp
  std::uint64_t octets = 0;                     ///< of block data, of the Read
  std::int64_t latency_ns = 0;
};

class Analyzer {
 public:
  /// `assignment`: the decoder's.
  explicit Analyzer(const wire::Assignment& assignment = wire::kProposed);
  ~Analyzer();
  Analyzer(const Analyzer&) = delete;
  Analyzer& operator=(const Analyzer&) = delete;

  /// Adds to `annotation` what is known with this event. What it points to is valid until the next call.
  void event(const ConnectionInfo& connection, const Event& event, Annotation& annotation);
  /// What the last event answered.
  [[nodiscard]] const std::optional<Answered>& answered() const { return answered_; }
  /// The connection's state is forgotten.
  void end(const ConnectionInfo& connection);

 private:
  class Connection;
  void charge(Connection& connection);
  void forget_oldest();

  wire::Assignment assignment_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::uint64_t last_number_ = 0;  ///< of `last_`: most events are of the connection of the one before
  Connection* last_ = nullptr;
  std::uint64_t events_ = 0;
  std::size_t held_ = 0;  ///< memory of all connections
  std::optional<Answered> answered_;
};

[[nodiscard]] std::span<const FieldInfo> analysis_fields();

}  // namespace kbtp::trace
