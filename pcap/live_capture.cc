#include "pcap/live_capture.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <netinet/in.h>
#include <pcap.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "base/random.h"
#include "pcap/ib_decoder.h"
#include "pcap/live_handle.h"

namespace kbtp::trace {
namespace {

constexpr std::uint16_t kDiscardPort = 9;  // RFC 863: nobody minds a datagram there

/// What a fence datagram carries: 16 octets of the run's own, then which fence it is.
constexpr std::size_t kFenceKey = 16;
constexpr std::size_t kFenceLength = kFenceKey + 8;
constexpr Duration kFenceInterval = std::chrono::milliseconds(20);

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_ = -1;
};

CaptureError error(CaptureError::Kind kind, std::string text) { return {kind, std::move(text)}; }

std::string filter_text(const LiveCapture::Options& options, std::uint16_t fence_port) {
  const std::vector<std::uint16_t>& ports = options.ports;
  std::string text = "(udp port " + std::to_string(fence_port) + ") or ";
  if (options.roce) text += "(udp dst port " + std::to_string(kRoceV2Port) + ") or ";
  text += "(tcp";
  for (std::size_t i = 0; i < ports.size(); ++i)
    text += (i == 0 ? " and (port " : " or port ") + std::to_string(ports[i]);
  return text + (ports.empty() ? ")" : "))");
}

}  // namespace

/// What the capture thread and the owner of a case both touch.
struct CaseCapture::Share {
  std::shared_ptr<LiveCapture::State> capture;
  std::uint64_t fence = 0;  ///< number of the fence that ends this case
  std::size_t max_octets = 0;

  std::mutex mutex;  ///< guards all below
  std::condition_variable changed;
  std::vector<TransportAddress> locals;
  std::vector<Flow> flows;
  CaseTrace trace;
  std::size_t octets = 0;
  std::uint64_t dropped_before = 0;

  [[nodiscard]] bool wants(const TcpSegment& segment) const {
    const auto is_local = [](const TransportAddress& local, const TransportAddress& end) {
      if (local.port != end.port) return false;
      return local == end || std::all_of(local.host.begin(), local.host.end(), [](auto o) { return o == 0; });
    };
    const Flow flow(segment.source, segment.destination);
    return std::any_of(locals.begin(), locals.end(),
                       [&](const auto& local) {
                         return is_local(local, segment.source) || is_local(local, segment.destination);
                       }) ||
           std::find(flows.begin(), flows.end(), flow) != flows.end();
  }

  /// `segment`: null for a RoCE packet.
  void take(const TcpSegment* segment, Frame& frame) {
    const std::lock_guard lock(mutex);
    if (trace.complete || (segment != nullptr && !wants(*segment))) return;
    if (octets + frame.octets.size() > max_octets) {
      ++trace.not_kept;
      return;
    }
    octets += frame.octets.size();
    frame.number = trace.frames.size() + 1;
    trace.frames.push_back(frame);
  }

  void fence_read(std::uint64_t dropped) {
    const std::lock_guard lock(mutex);
    trace.complete = true;
    trace.dropped = dropped - dropped_before;
    changed.notify_all();
  }
};

struct LiveCapture::State {
  Options options;
  LiveHandle live;
  FileDescriptor fence_socket;
  SocketAddress fence_to;
  std::array<std::byte, kFenceKey> fence_key{};
  FileDescriptor wake;  ///< an eventfd: there is a question, or it is time to stop
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<std::uint64_t> next_fence{1};
  std::mutex mutex;  ///< guards all below but the thread
  std::condition_variable answered;
  std::vector<std::shared_ptr<CaseCapture::Share>> cases;
  std::uint64_t questions = 0;  ///< how often the drops were asked for, and up to where that is answered
  std::uint64_t answers = 0;
  bool stopping = false;
  bool over = false;  ///< the thread reads no more
  std::thread thread;

  [[nodiscard]] std::string open_fence_socket() {
    fence_to = options.fence_to;
    if (fence_to.length() == 0) {
      sockaddr_in loopback{};
      loopback.sin_family = AF_INET;
      loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      fence_to = SocketAddress(reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback);
    }
    const bool to_self = options.fence_to.length() == 0;
    fence_socket = FileDescriptor(::socket(fence_to.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fence_socket.get() < 0) return std::strerror(errno);
    SocketAddress local = fence_to;
    if (!to_self) {  // any address; the port is what the filter looks for
      sockaddr_storage any{};
      any.ss_family = static_cast<sa_family_t>(fence_to.family());
      local = SocketAddress(reinterpret_cast<const sockaddr*>(&any), fence_to.length());
      if (fence_to.port() == 0) fence_to.set_port(kDiscardPort);
    }
    if (::bind(fence_socket.get(), local.get(), local.length()) != 0) return std::strerror(errno);
    socklen_t length = SocketAddress::capacity();
    if (::getsockname(fence_socket.get(), local.get(), &length) != 0) return std::strerror(errno);
    local.set_length(length);
    fence_port = local.port();
    if (to_self) fence_to = local;
    return {};
  }
  std::uint16_t fence_port = 0;

  void send_fence(std::uint64_t number) const {
    std::byte datagram[kFenceLength];
    std::copy(fence_key.begin(), fence_key.end(), datagram);
    store_be(datagram + kFenceKey, number);
    // What becomes of it shows in the capture alone; nobody reads it from the socket.
    ::sendto(fence_socket.get(), datagram, sizeof datagram, 0, fence_to.get(), fence_to.length());
  }

  void count_drops() {
    pcap_stat stat{};
    if (pcap_stats(live.handle.get(), &stat) == 0) dropped.store(stat.ps_drop, std::memory_order_relaxed);
  }

  void take(const pcap_pkthdr& header, const std::byte* octets) {
    const auto packet = decode_frame(live.link, Octets(octets, header.caplen), header.len);
    if (!packet) return;
    if (const auto* udp = std::get_if<UdpDatagram>(&*packet)) {
      if (udp->payload.size() == kFenceLength &&
          std::equal(fence_key.begin(), fence_key.end(), udp->payload.begin())) {
        count_drops();
        const auto number = load_be<std::uint64_t>(udp->payload.data() + kFenceKey);
        const std::lock_guard lock(mutex);
        for (const auto& share : cases) {
          if (share->fence == number) share->fence_read(dropped.load(std::memory_order_relaxed));
        }
        return;
      }
      if (!options.roce || udp->destination.port != kRoceV2Port) return;
    }
    Frame frame;
    frame.time_ns = std::int64_t{header.ts.tv_sec} * 1'000'000'000 +
                    std::int64_t{header.ts.tv_usec} * (live.nanoseconds ? 1 : 1000);
    frame.link = live.link;
    frame.wire_length = header.len;
    frame.octets.assign(octets, octets + header.caplen);
    const std::lock_guard lock(mutex);
    for (const auto& share : cases) share->take(std::get_if<TcpSegment>(&*packet), frame);
  }

  void wake_up() const {
    const std::uint64_t one = 1;
    // A write of 1 to an eventfd whose counter is far from its limit cannot fail.
    [[maybe_unused]] const ssize_t written = ::write(wake.get(), &one, sizeof one);
  }

  /// The drops up to now, as the capture thread counts them: libpcap's handle is that thread's alone.
  [[nodiscard]] std::uint64_t ask_drops() {
    std::unique_lock lock(mutex);
    const std::uint64_t question = ++questions;
    wake_up();
    answered.wait(lock, [&] { return over || answers >= question; });
    return dropped.load(std::memory_order_relaxed);
  }

  /// Counts and answers; false when it is time to stop.
  [[nodiscard]] bool answer() {
    std::uint64_t asked = 0;
    [[maybe_unused]] const ssize_t taken = ::read(wake.get(), &asked, sizeof asked);
    count_drops();
    const std::lock_guard lock(mutex);
    answers = questions;
    answered.notify_all();
    return !stopping;
  }

  void run() {
    read_frames();
    const std::lock_guard lock(mutex);
    over = true;
    answered.notify_all();
  }

  void read_frames() {
    pollfd fds[2] = {{pcap_get_selectable_fd(live.handle.get()), POLLIN, 0}, {wake.get(), POLLIN, 0}};
    while (true) {
      if (::poll(fds, 2, -1) < 0) {
        if (errno == EINTR) continue;
        return;
      }
      if ((fds[1].revents & POLLIN) != 0 && !answer()) return;
      if (fds[0].revents == 0) continue;
      const auto deliver = [](u_char* self, const pcap_pkthdr* header, const u_char* octets) {
        reinterpret_cast<State*>(self)->take(*header, reinterpret_cast<const std::byte*>(octets));
      };
      const int status = pcap_dispatch(live.handle.get(), -1, deliver, reinterpret_cast<u_char*>(this));
      count_drops();
      if (status == PCAP_ERROR) return;  // the interface is gone: fences are not read, and cases say so
    }
  }
};

Expected<std::unique_ptr<LiveCapture>, CaptureError> LiveCapture::open(Options options) {
  auto state = std::make_shared<State>();
  state->options = std::move(options);
  const Options& wanted = state->options;
  const auto other = [](std::string text) {
    return unexpected(error(CaptureError::Kind::other, std::move(text)));
  };

  auto live = open_live(wanted.interface, wanted.buffer_octets);
  if (!live) return unexpected(std::move(live.error()));
  state->live = std::move(*live);

  random_octets(state->fence_key);
  if (const std::string why = state->open_fence_socket(); !why.empty())
    return other("cannot open a socket for the fences that end a case's capture: " + why);
  if (auto set = set_filter(state->live, filter_text(wanted, state->fence_port)); !set)
    return unexpected(std::move(set.error()));

  state->wake = FileDescriptor(::eventfd(0, EFD_CLOEXEC));
  if (state->wake.get() < 0) return other(std::string("cannot make an eventfd: ") + std::strerror(errno));
  state->thread = std::thread([raw = state.get()] { raw->run(); });
  return std::unique_ptr<LiveCapture>(new LiveCapture(std::move(state)));
}

LiveCapture::LiveCapture(std::shared_ptr<State> state) : state_(std::move(state)) {}

LiveCapture::~LiveCapture() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->cases.clear();
  }
  state_->wake_up();
  state_->thread.join();
}

std::unique_ptr<CaseCapture> LiveCapture::begin_case() {
  auto share = std::make_shared<CaseCapture::Share>();
  share->capture = state_;
  share->fence = state_->next_fence.fetch_add(1, std::memory_order_relaxed);
  share->max_octets = state_->options.max_case_octets;
  share->dropped_before = state_->ask_drops();
  const std::lock_guard lock(state_->mutex);
  state_->cases.push_back(share);
  return std::unique_ptr<CaseCapture>(new CaseCapture(std::move(share)));
}

std::uint64_t LiveCapture::dropped() const { return state_->dropped.load(std::memory_order_relaxed); }
LinkType LiveCapture::link() const { return state_->live.link; }

CaseCapture::CaseCapture(std::shared_ptr<Share> share) : share_(std::move(share)) {}

CaseCapture::~CaseCapture() {
  const std::lock_guard lock(share_->capture->mutex);
  std::erase(share_->capture->cases, share_);
}

void CaseCapture::add_local(const SocketAddress& local) {
  const std::lock_guard lock(share_->mutex);
  share_->locals.push_back(TransportAddress::from(local));
}

void CaseCapture::add_flow(const SocketAddress& one, const SocketAddress& other) {
  const std::lock_guard lock(share_->mutex);
  share_->flows.emplace_back(TransportAddress::from(one), TransportAddress::from(other));
}

std::uint64_t CaseCapture::frame_count() const {
  const std::lock_guard lock(share_->mutex);
  return share_->trace.frames.size();
}

CaseTrace CaseCapture::finish(TimePoint deadline) {
  // A fence is dropped like any frame when the kernel's buffer is full, so it is sent again until it is read.
  std::unique_lock lock(share_->mutex);
  for (TimePoint now = Clock::now(); !share_->trace.complete && now < deadline; now = Clock::now()) {
    lock.unlock();
    share_->capture->send_fence(share_->fence);
    lock.lock();
    share_->changed.wait_until(lock, std::min(deadline, now + kFenceInterval),
                               [&] { return share_->trace.complete; });
  }
  if (!share_->trace.complete) {
    share_->trace.dropped = share_->capture->dropped.load(std::memory_order_relaxed) - share_->dropped_before;
  }
  CaseTrace result = std::move(share_->trace);
  share_->trace = {};
  share_->trace.complete = true;  // takes no more frames
  return result;
}

}  // namespace kbtp::trace
