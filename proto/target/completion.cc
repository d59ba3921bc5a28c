// KBTP 6.5: Completion. Always a COMPLETION message, for RECORD_COMPLETION is never offered (G-13).

#include "proto/wire/completion.h"

#include <utility>

#include "base/fault.h"
#include "proto/target/session.h"

namespace kbtp::target {

void Session::complete(Operation& operation, const Answer& answer, std::optional<rdma::Write> write,
                       std::optional<std::uint64_t> pinned_block) {
  const wire::RequestHead head = operation.head();
  operations_.erase(head.request_id);
  core_->count(wire::opcode(operation.request()), answer.status, answer.octets);
  wire::Completion completion;
  completion.request_id = head.request_id;
  completion.handle = head.handle;
  completion.status = answer.status;
  completion.generation = answer.generation;
  completion.data_length = answer.data_length;
  completion.block_offset = answer.block_offset;
  if (fault(Fault::completion_without_block)) completion.block_offset = 0;
  if (fault(Fault::completion_echoes_generation)) completion.generation = head.generation;
  send_completion(completion, wire::stag_to_invalidate(operation.request()), std::move(write), pinned_block);
  close_when_idle();
}

// G-16: Generation and Data Length of the entry when the session can see it, whatever was wrong.
void Session::answer_at_once(const wire::Header& header, wire::Status status,
                             std::optional<std::uint32_t> invalidate) {
  wire::Completion completion;
  completion.request_id = header.request_id;
  completion.handle = header.handle;
  completion.status = status;
  if (core_->table.contains(header.handle) && sees(header.handle)) {
    const wire::TableEntry entry = core_->table.read(header.handle);
    completion.generation = entry.generation;
    completion.data_length = entry.data_length;
  } else if (fault(Fault::invisible_handle_told)) {
    completion.generation = 1;
  }
  if (const auto opcode = core_->config.assignment.opcode(header.opcode)) core_->count(*opcode, status, 0);
  send_completion(completion, invalidate, {}, {});
}

void Session::send_completion(const wire::Completion& completion, std::optional<std::uint32_t> invalidate,
                              std::optional<rdma::Write> write, std::optional<std::uint64_t> pinned_block) {
  wire::Completion sent = completion;
  if (fault(Fault::completion_truncates_request_id)) sent.request_id &= 0xFFFF'FFFFu;
  if (fault(Fault::generation_may_be_zero) && sent.generation == 1) sent.generation = 0;

  rdma::Send send;
  send.payload = wire::encode(sent, core_->config.assignment);
  // G-12: only when asked for, only a real STag, and only if the provider can; else the initiator does it.
  if (invalidate && *invalidate != 0 && stream_->capabilities().invalidate_tx &&
      !fault(Fault::invalidate_ignored)) {
    send.invalidate = invalidate;
  }

  std::vector<rdma::WorkRequest> requests;
  const auto add_write = [&] {
    if (!write) return;
    write->id = next_work_++;
    posted_.push_back({Posted::Kind::write, pinned_block, nullptr, {}});
    requests.emplace_back(std::move(*write));
  };
  const auto add_send = [&] {
    send.id = next_work_++;
    posted_.push_back({});
    requests.emplace_back(std::move(send));
  };
  // RFC 5040 5.5 rule 5: the data is in place once a later Send is delivered.
  requests.reserve(2);
  if (fault(Fault::load_completes_before_write)) {
    add_send();
    add_write();
  } else {
    add_write();
    add_send();
  }
  if (fault(Fault::refusal_completes_twice) && completion.status != wire::Status::success) {
    posted_.push_back({});
    requests.emplace_back(rdma::Send{next_work_++, wire::encode(sent, core_->config.assignment), false, {}});
  }
  // P-06: the receive that the request used up is there again before the initiator can know.
  stream_->post_receives(1);
  stream_->post(std::move(requests));
}

}  // namespace kbtp::target
