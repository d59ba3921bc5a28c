// One request from its arrival to its completion. Each section of the draft has its handler: load.cc (6.1),
// store.cc (6.2), alloc_store.cc (6.3), free.cc (6.4), bind.cc (6.6). Internal to proto/target.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "proto/rdma/completion.h"
#include "proto/rdma/work_request.h"
#include "proto/target/handle_queue.h"
#include "proto/wire/request.h"
#include "proto/wire/structures.h"

namespace kbtp::target {

class Core;
class Session;

/// What a completion says (G-16, G-17).
struct Answer {
  wire::Status status = wire::Status::success;
  std::uint16_t generation = 0;
  std::uint32_t data_length = 0;
  std::uint64_t block_offset = 0;
  std::uint64_t octets = 0;  ///< moved, for the counters
};

class Operation : public Work, public std::enable_shared_from_this<Operation> {
 public:
  Operation(std::shared_ptr<Session> session, wire::Request request);

  /// The handler of the request's section.
  [[nodiscard]] static std::shared_ptr<Operation> make(std::shared_ptr<Session> session,
                                                       const wire::Request& request);

  [[nodiscard]] const wire::Request& request() const { return request_; }
  [[nodiscard]] const wire::RequestHead& head() const { return wire::head(request_); }
  [[nodiscard]] rdma::Loop& loop() final;
  void turn() final;

  /// The request's octets go away: keeps the inline data. Before anything that does not end at once.
  void keep_inline_data();
  /// The RDMA Read that Session::read() posted has ended.
  virtual void on_read(rdma::WorkStatus) {}
  /// The stream is gone, and everything posted on it has ended.
  virtual void on_session_closed() {}

 protected:
  /// First step; the handle is this operation's until finish() or drop().
  virtual void run() = 0;

  [[nodiscard]] Session& session() const { return *session_; }
  [[nodiscard]] Core& core() const;
  [[nodiscard]] wire::TableEntry entry() const;

  /// Completes and lets the next operation on the handle go on.
  void finish(const Answer& answer, std::optional<rdma::Write> write = {},
              std::optional<std::uint64_t> pinned_block = {});
  /// Completes with an error: Generation and Data Length of the entry as it is (G-16).
  void refuse(wire::Status status);
  /// Nobody can be told any more: only lets go of the handle.
  void drop();

  wire::Request request_;

 private:
  std::shared_ptr<Session> session_;
  std::vector<std::byte> kept_;
};

}  // namespace kbtp::target
