// KBTP 6.5: Completion. A COMPLETION message; or a completion record, for a request that asks for it in a
// session that was granted RECORD_COMPLETION. Without the grant a RECORD flag changes nothing, and nothing is
// written to its descriptor (G-13, P-01).

#include "proto/wire/completion.h"

#include <array>
#include <memory>
#include <utility>

#include "base/fault.h"
#include "proto/target/session.h"

namespace kbtp::target {

namespace {

/// Work requests that no request of the initiator has caused, HELLO_ACK for one.
constexpr std::size_t kOurOwn = 32;

}  // namespace

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
  send_completion(completion, &operation.request(), std::move(write), pinned_block);
  close_when_idle();
}

// G-16: Generation and Data Length of the entry when the session can see it, whatever was wrong.
void Session::answer_at_once(const wire::Header& header, wire::Status status, const wire::Request* request) {
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
  send_completion(completion, request, {}, {});
}

rdma::WorkRequest Session::completion_message(const wire::Completion& completion,
                                              std::optional<std::uint32_t> invalidate) {
  rdma::Send send;
  send.id = next_work_++;
  send.payload = wire::encode(completion, core_->config.assignment);
  // G-12: only when asked for, only a real STag, and only if the provider can; else the initiator does it.
  if (invalidate && *invalidate != 0 && stream_->capabilities().invalidate_tx &&
      !fault(Fault::invalidate_ignored)) {
    send.invalidate = invalidate;
  }
  return send;
}

// KBTP 9.2: by RDMA Write with Immediate, so that the initiator learns of it from its completion queue. What
// the immediate says is left open: the low half of the Request ID (G-42).
rdma::WorkRequest Session::completion_record(const wire::Completion& completion,
                                             const wire::CompletionDescriptor& slot) {
  const bool beside = fault(Fault::record_beside_descriptor);
  const auto record = std::make_shared<std::array<std::byte, wire::kCompletionRecordSize>>(
      wire::encode(wire::CompletionRecord{.request_id = completion.request_id,
                                          .status = completion.status,
                                          .generation = completion.generation,
                                          .data_length = completion.data_length,
                                          .block_offset = completion.block_offset},
                   core_->config.assignment));
  rdma::WriteImmediate write;
  write.write = {next_work_++, *record, {slot.stag, slot.tagged_offset + (beside ? 4 : 0)}, record};
  if (fault(Fault::record_without_immediate)) return write.write;
  write.immediate = static_cast<std::uint32_t>(completion.request_id);
  return write;
}

namespace {

/// Where the request asks for its completion record.
std::optional<wire::CompletionDescriptor> record_slot(const wire::Request& request, wire::Status status) {
  const auto* load = std::get_if<wire::Load>(&request);
  const bool success = status == wire::Status::success;
  if (fault(Fault::record_for_loads_only) && load == nullptr) return std::nullopt;
  if (fault(Fault::record_for_success_only) && !success) return std::nullopt;
  if (fault(Fault::record_unasked) && load != nullptr && success && !load->record)
    return wire::CompletionDescriptor{load->destination.stag, load->destination.tagged_offset};
  return wire::record_of(request);
}

}  // namespace

void Session::send_completion(const wire::Completion& completion, const wire::Request* request,
                              std::optional<rdma::Write> write, std::optional<std::uint64_t> pinned_block) {
  wire::Completion sent = completion;
  if (fault(Fault::completion_truncates_request_id)) sent.request_id &= 0xFFFF'FFFFu;
  if (fault(Fault::generation_may_be_zero) && sent.generation == 1) sent.generation = 0;
  const auto record = granted_.record_completion && request != nullptr
                          ? record_slot(*request, completion.status)
                          : std::nullopt;
  if (record && fault(Fault::record_truncates_request_id)) sent.request_id &= 0xFFFF'FFFFu;
  if (record && fault(Fault::record_without_block)) sent.block_offset = 0;
  const auto invalidate = request != nullptr ? wire::stag_to_invalidate(*request) : std::nullopt;

  std::vector<rdma::WorkRequest> requests;
  const auto add_write = [&] {
    if (!write) return;
    write->id = next_work_++;
    posted_.push_back({Posted::Kind::write, pinned_block, nullptr, {}});
    requests.emplace_back(std::move(*write));
  };
  const auto add_completion = [&] {
    posted_.push_back({});
    requests.push_back(record ? completion_record(sent, *record) : completion_message(sent, invalidate));
  };
  // The data is in place once a later Send is delivered (RFC 5040 5.5 rule 5). A record is a Write itself: it
  // is granted only where no Write becomes visible before the data of earlier ones.
  requests.reserve(2);
  if (fault(Fault::load_completes_before_write) || (record && fault(Fault::record_before_data))) {
    add_completion();
    add_write();
  } else {
    add_write();
    add_completion();
  }
  if ((fault(Fault::refusal_completes_twice) && completion.status != wire::Status::success) ||
      (record && fault(Fault::record_and_message))) {
    posted_.push_back({});
    requests.emplace_back(rdma::Send{next_work_++, wire::encode(sent, core_->config.assignment), false, {}});
  }
  repost_receive();
  stream_->post(std::move(requests));
}

// P-06: the receive that a request used up is there again before the initiator can know that it is completed.
// But one that takes no completions has no right to more requests (G-06), each of which would cost memory
// here, that of a LOAD a copy of its block. What waits to leave belongs to requests that the initiator cannot
// know to be completed: two work requests for each of its credits at most, and some of our own.
void Session::repost_receive() {
  if (stream_->backlog() <= 2 * std::size_t{max_requests_} + kOurOwn) stream_->post_receives(1);
}

}  // namespace kbtp::target
