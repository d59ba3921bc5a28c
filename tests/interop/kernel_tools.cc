#include "tests/interop/kernel_tools.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace kbtp::interop {

namespace {

constexpr std::size_t kMessage = 16;
constexpr rdma::WorkId kSend = 1;
constexpr rdma::WorkId kRead = 2;
constexpr rdma::WorkId kWrite = 3;

}  // namespace

std::vector<std::byte> PingBuffer::encode() const {
  std::vector<std::byte> octets(kMessage);
  ByteWriter out(octets);
  out.u64(tagged_offset);
  out.u32(stag);
  out.u32(length);
  return octets;
}

PingBuffer PingBuffer::decode(Octets octets) {
  ByteReader in(octets);
  PingBuffer buffer;
  buffer.tagged_offset = in.u64();
  buffer.stag = in.u32();
  buffer.length = in.u32();
  return buffer;
}

std::vector<std::byte> ping_data(std::uint32_t iteration, std::size_t size) {
  constexpr unsigned kLetters = 'z' - 'A' + 1;
  std::string text = "rdma-ping-" + std::to_string(iteration) + ": ";
  for (unsigned i = 0; text.size() < size; ++i)
    text.push_back(static_cast<char>('A' + (i + iteration) % kLetters));
  text.resize(size);
  if (size > 0) text.back() = '\0';
  return to_vector(as_octets(text));
}

// --- What all have in common -----------------------------------------------------------------------------

void Tool::on_open(rdma::Stream& stream, Octets /*private_data*/) {
  stream_ = &stream;
  begin();
}

void Tool::on_completion(const rdma::Completion& completion) {
  if (completion.status == rdma::WorkStatus::bad_request) return fail("a work request was refused");
  if (completion.status == rdma::WorkStatus::success) completed(completion.id);
}

void Tool::on_peer_finished() { stream_->close(); }

void Tool::on_closed(const rdma::CloseReason& reason) {
  // The tools disconnect when they are done, which a kernel may do by a reset.
  const bool ended = reason.kind == rdma::CloseReason::Kind::graceful ||
                     (reason.kind == rdma::CloseReason::Kind::transport_lost && lacking().empty());
  if (wrong_.empty()) wrong_ = ended ? lacking() : reason.text;
  finished_(wrong_);
}

void Tool::send(std::vector<std::byte> payload) {
  stream_->post({rdma::Send{kSend, std::move(payload), false, std::nullopt}});
}

void Tool::fail(std::string wrong) {
  if (!wrong_.empty()) return;
  wrong_ = std::move(wrong);
  stream_->abort(wrong_);
}

// --- rping -----------------------------------------------------------------------------------------------

void PingServer::on_received(const rdma::Received& received) {
  stream().post_receives(1);
  if (received.payload.size() != kMessage) return fail("rping's client sends 16 octets");
  const auto told = PingBuffer::decode(received.payload);
  if (told.length > buffer_.size()) return fail("the client's buffer is larger than ours");
  const MutableOctets data = MutableOctets(buffer_).first(told.length);
  const rdma::RemoteBuffer remote{told.stag, told.tagged_offset};
  if (!writing_) {
    length_ = told.length;
    stream().post({rdma::Read{kRead, data, remote}});
  } else if (told.length != length_) {
    fail("the client's second buffer has another length than its first");
  } else {
    stream().post({rdma::Write{kWrite, data, remote, nullptr}});
  }
}

void PingServer::completed(rdma::WorkId id) {
  if (id == kSend) return;
  if (id == kWrite) ++iterations_;
  writing_ = id == kRead;
  const std::string begins = "rdma-ping-" + std::to_string(iterations_) + ": ";
  if (id == kRead &&
      !std::ranges::equal(as_octets(begins), Octets(buffer_).first(std::min(begins.size(), buffer_.size()))))
    return fail("what was read is not iteration " + std::to_string(iterations_));
  send(std::vector<std::byte>(kMessage));
}

std::string PingServer::lacking() const {
  return iterations_ > 0 && !writing_ ? "" : "the client left within an iteration, or before one";
}

void PingClient::begin() {
  const auto source =
      stream().register_region({source_, rdma::Access::remote_read, rdma::Content::octets, 0x10000, false});
  const auto sink =
      stream().register_region({sink_, rdma::Access::remote_write, rdma::Content::octets, 0x20000, false});
  if (!source || !sink) return fail("no memory could be registered");
  const auto told = [](const rdma::Region& region) {
    return PingBuffer{region.tagged_offset, region.stag, static_cast<std::uint32_t>(region.length)};
  };
  source_buffer_ = told(*source);
  sink_buffer_ = told(*sink);
  ping();
}

void PingClient::ping() {
  const auto data = ping_data(done_, source_.size());
  std::ranges::copy(data, source_.begin());
  std::ranges::fill(sink_, std::byte{0});
  read_ = false;
  send(source_buffer_.encode());
}

void PingClient::on_received(const rdma::Received& /*received*/) {
  stream().post_receives(1);
  if (!read_) {
    read_ = true;
    return send(sink_buffer_.encode());
  }
  if (sink_ != source_) return fail("iteration " + std::to_string(done_) + " came back with other octets");
  if (++done_ < wanted_) return ping();
  stream().close();
}

std::string PingClient::lacking() const {
  return done_ == wanted_ ? "" : "the server left after " + std::to_string(done_) + " iterations";
}

// --- rdma_client and rdma_server ---------------------------------------------------------------------------

void HelloServer::on_received(const rdma::Received& received) {
  if (received.payload.size() != kMessage) return fail("rdma_client sends 16 octets");
  answered_ = true;
  send(std::vector<std::byte>(kMessage));
}
std::string HelloServer::lacking() const { return answered_ ? "" : "the client sent nothing"; }

void HelloClient::begin() { send(std::vector<std::byte>(kMessage)); }
void HelloClient::on_received(const rdma::Received& received) {
  if (received.payload.size() != kMessage) return fail("rdma_server sends 16 octets");
  answered_ = true;
  stream().close();
}
std::string HelloClient::lacking() const { return answered_ ? "" : "the server sent nothing"; }

// --- perftest --------------------------------------------------------------------------------------------

BandwidthServer::BandwidthServer(rdma::Provider& provider, std::size_t size, Finished finished)
    : memory_(size),
      domain_(provider.create_domain()),
      finished_(std::move(finished)),
      handshake_(*this, one_ended()),
      test_(*this, one_ended()) {
  const auto region =
      provider.register_region(domain_, {memory_, rdma::Access::remote_read | rdma::Access::remote_write,
                                         rdma::Content::octets, 0x100000, false});
  if (region) {
    region_ = *region;
  } else {
    wrong_ = region.error().text;
  }
}

rdma::AcceptDecision BandwidthServer::accept() {
  if (accepted_ == 2) return rdma::Reject{};
  Tool& tool = accepted_++ == 0 ? static_cast<Tool&>(handshake_) : test_;
  rdma::StreamOptions options;
  options.domain = domain_;
  options.initial_receives = 64;
  options.receive_size = 4096;
  options.ird = 128;
  return rdma::Accept{&tool, options};
}

/// Tells when the second of both has ended.
Finished BandwidthServer::one_ended() {
  return [this](const std::string& wrong) {
    if (wrong_.empty()) wrong_ = wrong;
    if (++ended_ == 2) finished_(wrong_);
  };
}

void BandwidthServer::Handshake::on_received(const rdma::Received& received) {
  constexpr std::size_t kBuffer = 56;
  constexpr std::size_t kQueuePairAt = 8;
  constexpr std::size_t kStagAt = 16;
  constexpr std::size_t kOffsetAt = 24;
  stream().post_receives(1);
  std::vector<std::byte> answer = to_vector(received.payload);
  if (answer.size() == kBuffer && load_be<std::uint32_t>(answer.data() + kQueuePairAt) != 0) {
    server_.client_ = {load_be<std::uint32_t>(answer.data() + kStagAt),
                       load_be<std::uint64_t>(answer.data() + kOffsetAt)};
    store_be(answer.data() + kStagAt, server_.region_.stag);
    store_be(answer.data() + kOffsetAt, server_.region_.tagged_offset);
    ++buffers_told_;
  }
  send(std::move(answer));
}
std::string BandwidthServer::Handshake::lacking() const {
  return buffers_told_ > 0 ? "" : "the client did not tell of its buffer";
}

void BandwidthServer::Test::on_received(const rdma::Received& /*received*/) {
  stream().post_receives(1);
  const auto count = std::make_shared<std::vector<std::byte>>(sizeof received_);
  store_be(count->data(), __builtin_bswap32(++received_));
  stream().post({rdma::Write{kWrite, *count, server_.client_, count}});
}

}  // namespace kbtp::interop
