#include "conformance/raw_peer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/sockios.h>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <set>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/random.h"
#include "conformance/pieces.h"
#include "rdmap_binding/ddp/segment.h"
#include "rdmap_binding/mpa/fpdu.h"
#include "rdmap_binding/rdmap/opcode.h"
#include "rdmap_binding/rdmap/segment.h"

namespace kbtp::conformance {

namespace {

constexpr std::size_t kSegmentPayload = 8192;  // of the Read Responses that the suite sends

std::string errno_text() { return std::strerror(errno); }

/// Whether this process connects from `port` for the first time.
bool first_use(std::uint16_t port) {
  static std::mutex mutex;
  static std::set<std::uint16_t> used;
  const std::scoped_lock lock(mutex);
  return used.insert(port).second;
}

/// The local address from which `target` is reached, port 0: what a datagram socket picks.
Result<SocketAddress> source_for(const SocketAddress& target) {
  const int probe = ::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return failure("no socket: " + errno_text());
  SocketAddress source;
  socklen_t length = SocketAddress::capacity();
  const bool good = ::connect(probe, target.get(), target.length()) == 0 &&
                    ::getsockname(probe, source.get(), &length) == 0;
  const std::string why = errno_text();
  ::close(probe);
  if (!good) return failure(target.to_string() + " is not reachable: " + why);
  source.set_length(length);
  source.set_port(0);
  return source;
}

void append(std::vector<std::byte>& to, Octets octets) { to.insert(to.end(), octets.begin(), octets.end()); }

}  // namespace

std::vector<std::byte> ulpdu(const ddp::Header& header, Octets payload) {
  std::vector<std::byte> out(ddp::header_size(header));
  ddp::encode(header, out);
  append(out, payload);
  return out;
}

std::vector<std::byte> tagged_ulpdu(rdmap::Opcode opcode, std::uint32_t stag, std::uint64_t tagged_offset,
                                    Octets payload) {
  return ulpdu(rdmap::make_tagged(opcode, stag, tagged_offset, true), payload);
}

Result<std::unique_ptr<RawPeer>> RawPeer::bind_for(const SocketAddress& target,
                                                   const Allowances& allowances) {
  auto source = source_for(target);
  if (!source) return unexpected(source.error());
  // A port that was used before would do, but whoever reads the capture of the run takes the two connections
  // for one: the kernel is asked for another, unless a long run has used them up.
  constexpr int kTries = 100;
  for (int tries = 1;; ++tries) {
    const int socket = ::socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) return failure("no socket: " + errno_text());
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    SocketAddress local = *source;
    socklen_t length = SocketAddress::capacity();
    if (::bind(socket, local.get(), local.length()) != 0 ||
        ::getsockname(socket, local.get(), &length) != 0) {
      const std::string why = errno_text();
      ::close(socket);
      return failure("no local port: " + why);
    }
    local.set_length(length);
    if (first_use(local.port()) || tries == kTries)
      return std::unique_ptr<RawPeer>(new RawPeer(socket, local, target, allowances));
    ::close(socket);
  }
}

std::unique_ptr<RawPeer> RawPeer::dead(std::string why) {
  std::unique_ptr<RawPeer> peer(new RawPeer(-1, {}, {}, {}));
  peer->give_up(std::move(why));
  return peer;
}

RawPeer::RawPeer(int socket, SocketAddress local, SocketAddress target, const Allowances& allowances)
    : socket_(socket), local_(local), target_(target), allowances_(allowances) {}

RawPeer::~RawPeer() { RawPeer::close(); }

void RawPeer::give_up(std::string why) {
  ended_ = true;
  if (trouble_.empty()) trouble_ = std::move(why);
}

bool RawPeer::connect() {
  if (::connect(socket_, target_.get(), target_.length()) != 0) {
    if (errno != EINPROGRESS) {
      give_up("TCP: " + errno_text());
      return false;
    }
    pollfd wait{.fd = socket_, .events = POLLOUT, .revents = 0};
    const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(allowances_.patience);
    if (::poll(&wait, 1, static_cast<int>(patience.count())) != 1) {
      give_up("TCP: no answer");
      return false;
    }
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      give_up(std::string("TCP: ") + std::strerror(error));
      return false;
    }
  }
  return true;
}

bool RawPeer::open(const OnBound& on_bound) {
  on_bound(local_);
  return connect();
}

void RawPeer::note(Side from, Octets octets) {
  record_.push_back({.from = from, .kind = RecordEntry::Kind::octets, .octets = to_vector(octets)});
}

void RawPeer::write_all(Octets octets) {
  if (ended_ || finished_ || octets.empty()) return;
  note(Side::suite, octets);
  const TimePoint deadline = Clock::now() + allowances_.patience;
  while (!octets.empty()) {
    const ssize_t sent = ::send(socket_, octets.data(), octets.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      octets = octets.subspan(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return;  // the receive side tells how the connection ended
    if (Clock::now() >= deadline) return give_up("the target takes no more octets");
    // A target that is stuck in sending takes nothing: read meanwhile, but answer nothing in mid-frame.
    pollfd wait{.fd = socket_, .events = POLLIN | POLLOUT, .revents = 0};
    if (::poll(&wait, 1, 100) == 1 && (wait.revents & POLLIN) != 0) receive_octets();
  }
}

void RawPeer::make_no_allowances() {
  allowances_ = {.patience = allowances_.patience};
  quiet_until_ = {};
}

void RawPeer::write(Octets octets) {
  if (quiet_until_ != TimePoint{}) std::this_thread::sleep_until(std::exchange(quiet_until_, {}));
  if (allowances_.whole_trailers && in_operation()) {
    write_whole_trailers(octets);
  } else {
    write_all(octets);
  }
}

// A write that finds nothing unsent begins a segment, and is one when it is no longer than the segment size.
void RawPeer::write_whole_trailers(Octets octets) {
  int segment = 0;
  socklen_t length = sizeof segment;
  if (getsockopt(socket_, IPPROTO_TCP, TCP_MAXSEG, &segment, &length) != 0) segment = 0;
  const auto most = static_cast<std::size_t>(std::max(segment, 64));
  const TimePoint deadline = Clock::now() + allowances_.patience;
  for (const std::size_t piece : pieces_with_whole_trailers(octets, most)) {
    for (int unsent = 1; !ended_ && Clock::now() < deadline;) {
      if (::ioctl(socket_, SIOCOUTQNSD, &unsent) != 0 || unsent == 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    write_all(octets.first(piece));
    octets = octets.subspan(piece);
  }
}

void RawPeer::send(Octets octets) { write(octets); }

void RawPeer::send_one_by_one(Octets octets) {
  const std::size_t last = allowances_.whole_trailers && in_operation() ? trailer_at(octets) : octets.size();
  for (std::size_t i = 0; i < last; ++i) write(octets.subspan(i, 1));
  write(octets.subspan(last));
}

void RawPeer::finish() {
  if (socket_ < 0 || finished_) return;
  finished_ = true;
  ::shutdown(socket_, SHUT_WR);
  record_.push_back({.from = Side::suite, .kind = RecordEntry::Kind::fin, .octets = {}});
}

void RawPeer::close() {
  if (socket_ < 0) return;
  finish();
  ::close(socket_);
  socket_ = -1;
  ended_ = true;
}

std::optional<SetupFrame> RawPeer::start_up(const mpa::StartupFrame& request) {
  if (request.markers) markers_.emplace();
  send(mpa::encode_startup(request));
  pump([this] { return reply_.has_value(); });
  if (!reply_ && trouble_.empty()) trouble_ = "MPA: no Reply";
  if (reply_ && reply_->reject) trouble_ = "MPA: rejected";
  return reply_;
}

bool RawPeer::establish(const mpa::StartupFrame& request) {
  const auto reply = start_up(request);
  return reply && !reply->reject;
}

void RawPeer::send_messages(const std::vector<std::vector<std::byte>>& messages) {
  std::vector<std::byte> octets;
  for (const auto& message : messages) append(octets, framed(next_send(message)));
  write(octets);
}

void RawPeer::send_fpdu(Octets payload, std::byte pad) {
  std::vector<std::byte> fpdu = mpa::encode_fpdu(payload);
  const auto crc_at = fpdu.size() - mpa::kCrcSize;
  std::fill(fpdu.begin() + static_cast<std::ptrdiff_t>(mpa::kLengthSize + payload.size()),
            fpdu.begin() + static_cast<std::ptrdiff_t>(crc_at), pad);
  store_crc32c(fpdu.data() + crc_at, crc32c(Octets(fpdu).first(crc_at)));
  write(fpdu);
}

void RawPeer::send_damaged_fpdu(Octets payload) {
  std::vector<std::byte> fpdu = mpa::encode_fpdu(payload);
  // The last octet of the ULPDU: of a FREE or LOAD it is nothing that would make the request fail by itself.
  fpdu[mpa::kLengthSize + payload.size() - 1] ^= std::byte{0x10};
  write(fpdu);
}

std::vector<std::byte> RawPeer::next_send(Octets payload, std::optional<std::uint32_t> invalidate) {
  const auto opcode = invalidate ? rdmap::Opcode::send_invalidate : rdmap::Opcode::send;
  return ulpdu(rdmap::make_untagged(opcode, send_msn_++, 0, true, invalidate.value_or(0)), payload);
}

std::vector<std::byte> RawPeer::next_read_request(const rdmap::ReadRequest& request) {
  return ulpdu(rdmap::make_untagged(rdmap::Opcode::read_request, read_msn_++), rdmap::encode(request));
}

ExposedBuffer& RawPeer::expose(std::size_t size, Revocable /*revocable*/) {
  ExposedBuffer& buffer = buffers_.emplace_back();
  buffer.stag = random_u32();
  buffer.tagged_offset = (random_u64() >> 8) & ~std::uint64_t{0xFFF};
  buffer.storage.assign(size + 2 * ExposedBuffer::kGuard, std::byte{0xA5});
  return buffer;
}

ExposedBuffer* RawPeer::buffer(std::uint32_t stag) {
  const auto found =
      std::ranges::find_if(buffers_, [&](const ExposedBuffer& one) { return one.stag == stag; });
  return found == buffers_.end() ? nullptr : &*found;
}

void RawPeer::answer_reads() {
  while (!pending_reads_.empty()) {
    const rdmap::ReadRequest request = pending_reads_.front();
    pending_reads_.pop_front();
    answer(request);
  }
}

void RawPeer::answer(const rdmap::ReadRequest& request) {
  const ExposedBuffer* source = buffer(request.source_stag);
  Octets data;
  if (source != nullptr) {
    const std::uint64_t at = request.source_to - source->tagged_offset + ExposedBuffer::kGuard;
    if (at <= source->storage.size() && request.size <= source->storage.size() - at)
      data = Octets(source->storage).subspan(at, request.size);
  }
  if (data.size() != request.size) return;  // not ours to give: the judge sees the Read Request
  std::size_t sent = 0;
  do {
    const std::size_t now = std::min(kSegmentPayload, data.size() - sent);
    const bool last = sent + now == data.size();
    send_fpdu(ulpdu(
        rdmap::make_tagged(rdmap::Opcode::read_response, request.sink_stag, request.sink_to + sent, last),
        data.subspan(sent, now)));
    sent += now;
  } while (sent < data.size());
}

bool RawPeer::pump(const std::function<bool()>& done, Duration patience) {
  const TimePoint deadline = Clock::now() + patience;
  while (!done()) {
    const TimePoint now = Clock::now();
    if (ended_ || now >= deadline) break;
    receive_some(deadline - now);
  }
  return done();
}

void RawPeer::receive_some(Duration patience) {
  if (ended_) return;
  pollfd wait{.fd = socket_, .events = POLLIN, .revents = 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(patience).count();
  if (::poll(&wait, 1, static_cast<int>(ms)) != 1) return;
  receive_octets();
  handle_input();
}

void RawPeer::receive_octets() {
  std::byte octets[65536];
  const ssize_t got = ::recv(socket_, octets, sizeof octets, 0);
  if (got > 0) {
    const Octets piece(octets, static_cast<std::size_t>(got));
    note(Side::target, piece);
    append(input_, piece);
    return;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  record_.push_back({.from = Side::target,
                     .kind = got == 0 ? RecordEntry::Kind::fin : RecordEntry::Kind::reset,
                     .octets = {}});
  ended_ = true;
  if (trouble_.empty()) trouble_ = got == 0 ? "the target closed the connection" : "the target reset it";
}

void RawPeer::handle_input() {
  std::size_t used = 0;
  if (in_setup_) {
    const auto result = mpa::decode_startup(input_, mpa::StartupKind::reply);
    if (const auto* complete = std::get_if<mpa::StartupComplete>(&result)) {
      const mpa::StartupFrame& frame = complete->frame;
      reply_ = SetupFrame{
          .reject = frame.reject, .enhanced = frame.enhanced.has_value(), .revision = frame.revision};
      if (frame.enhanced) {
        reply_->ird = frame.enhanced->ird;
        reply_->ord = frame.enhanced->ord;
        reply_->rtr_send = frame.enhanced->rtr_send;
        reply_->rtr_write = frame.enhanced->rtr_write;
        reply_->rtr_read = frame.enhanced->rtr_read;
      }
      in_setup_ = false;
      if (allowances_.pause_after_reply > Duration{})
        quiet_until_ = Clock::now() + allowances_.pause_after_reply;
      used = complete->size;
    } else if (std::holds_alternative<mpa::StartupError>(result)) {
      give_up("MPA: what came is no Reply");
      return;
    }
  }
  while (!in_setup_ && markers_) {
    const std::size_t size = handle_marked_fpdu(Octets(input_).subspan(used));
    if (size == 0) break;
    used += size;
  }
  while (!in_setup_ && !markers_) {
    const auto result = mpa::decode_fpdu(Octets(input_).subspan(used), mpa::CrcUse::check);
    if (const auto* fpdu = std::get_if<mpa::Fpdu>(&result)) {
      handle_ulpdu(fpdu->ulpdu);
      used += fpdu->size;
    } else if (std::holds_alternative<WireError>(result)) {
      return give_up("the target sent an FPDU that is none");
    } else {
      break;
    }
  }
  input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(used));
}

/// The octets that it took up; 0 when they are no whole FPDU, or none.
std::size_t RawPeer::handle_marked_fpdu(Octets octets) {
  const auto measured = mpa::measure_marked(octets, *markers_);
  if (std::holds_alternative<mpa::NeedMore>(measured)) return 0;
  const auto* fpdu = std::get_if<mpa::MarkedFpdu>(&measured);
  if (fpdu == nullptr || !mpa::check_marked_crc(octets.first(fpdu->size))) {
    give_up("the target sent an FPDU that is none");
    return 0;
  }
  std::vector<std::byte> clean(mpa::fpdu_size(fpdu->ulpdu_length));
  mpa::remove_markers(clean, octets.first(fpdu->size), *markers_);
  markers_->advance(fpdu->size);
  handle_ulpdu(Octets(clean).subspan(mpa::kLengthSize, fpdu->ulpdu_length));
  return fpdu->size;
}

void RawPeer::handle_ulpdu(Octets octets) {
  const auto segment = read_segment(octets);
  if (!segment) return;
  if (segment->tagged && segment->opcode == kOpWrite) {
    ExposedBuffer* sink = buffer(segment->stag);
    if (sink == nullptr) return;
    const std::uint64_t at = segment->tagged_offset - sink->tagged_offset + ExposedBuffer::kGuard;
    if (at <= sink->storage.size() && segment->payload.size() <= sink->storage.size() - at)
      std::ranges::copy(segment->payload, sink->storage.begin() + static_cast<std::ptrdiff_t>(at));
  } else if (segment->tagged && segment->opcode == kOpReadResponse) {
    if (segment->last) ++read_responses_;
  } else if (!segment->tagged && segment->opcode == kOpReadRequest &&
             segment->payload.size() == rdmap::kReadRequestSize) {
    const auto request = rdmap::decode_read_request(segment->payload.first<rdmap::kReadRequestSize>());
    pending_reads_.push_back(request);
    if (!hold_reads_) answer_reads();
  } else if (!segment->tagged && segment->opcode >= kOpSend &&
             segment->opcode <= kOpSendSolicitedInvalidate) {
    append(partial_send_, segment->payload);
    if (segment->last) messages_.push_back(std::exchange(partial_send_, {}));
  }
}

}  // namespace kbtp::conformance
