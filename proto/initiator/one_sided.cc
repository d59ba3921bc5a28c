#include "proto/initiator/one_sided.h"

#include <utility>
#include <variant>
#include <vector>

namespace kbtp::initiator {

void OneSided::open(rdma::Stream& stream) { stream_ = &stream; }

void OneSided::stop() {
  stream_ = nullptr;
  // Taken out first: what goes with them may come back here.
  const auto begin = std::exchange(begin_, {});
  const auto go_on = std::exchange(go_on_, {});
}

void OneSided::close() {
  stop();
  const auto posted = std::exchange(posted_, {});
}

void OneSided::read(MutableOctets sink, const rdma::RemoteBuffer& source, Turn turn, Then then) {
  rdma::Read read;
  read.id = ++last_id_;
  read.sink = sink;
  read.source = source;
  wait(turn, {read, std::move(then)});
}

void OneSided::fetch_add(const rdma::RemoteBuffer& word, std::uint64_t add, std::uint64_t mask, Turn turn,
                         Then then) {
  wait(turn, {rdma::FetchAdd{++last_id_, word, add, mask}, std::move(then)});
}

rdma::Write OneSided::write(Octets source, const rdma::RemoteBuffer& destination, Then then) {
  const rdma::WorkId id = ++last_id_;
  posted_.emplace(id, Posted{loop_.now(), std::move(then), false});
  return {id, source, destination, nullptr};
}

void OneSided::wait(Turn turn, Waiting waiting) {
  if (stream_ == nullptr) return;
  switch (turn) {
    case Turn::begins:
      begin_.push_back(std::move(waiting));
      break;
    case Turn::goes_on:
      go_on_.push_back(std::move(waiting));
      break;
  }
  pump();
}

void OneSided::pump() {
  std::vector<rdma::WorkRequest> requests;
  while (stream_ != nullptr && reads_ < stream_->capabilities().ord) {
    std::deque<Waiting>& queue = go_on_.empty() ? begin_ : go_on_;
    if (queue.empty()) break;
    Waiting waiting = std::move(queue.front());
    queue.pop_front();
    const rdma::WorkId id = std::holds_alternative<rdma::Read>(waiting.request)
                                ? std::get<rdma::Read>(waiting.request).id
                                : std::get<rdma::FetchAdd>(waiting.request).id;
    posted_.emplace(id, Posted{loop_.now(), std::move(waiting.then), true});
    requests.push_back(std::move(waiting.request));
    ++reads_;
  }
  if (!requests.empty()) stream_->post(std::move(requests));
}

void OneSided::on_completion(const rdma::Completion& completion) {
  const auto found = posted_.find(completion.id);
  if (found == posted_.end()) return;
  const Posted posted = std::move(found->second);
  posted_.erase(found);
  if (posted.read) --reads_;
  if (completion.status == rdma::WorkStatus::success && stream_ != nullptr)
    posted.then({posted.posted, completion.original});
  pump();
}

}  // namespace kbtp::initiator
