#include "pcap/live_reader.h"

#include <cerrno>
#include <cstring>
#include <pcap.h>
#include <poll.h>
#include <utility>

#include "pcap/live_handle.h"

namespace kbtp::trace {

namespace {

constexpr std::size_t kBufferOctets = std::size_t{64} << 20;
/// A signal that comes between the look at `stop` and the waiting is noticed so much later.
constexpr int kWaitMs = 200;
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kMicrosecond = 1000;

}  // namespace

struct LiveReader::State {
  LiveHandle live;
  std::uint64_t frames = 0;
  const std::function<void(const FrameView&)>* deliver = nullptr;

  void take(const pcap_pkthdr& header, const std::byte* octets) {
    const std::int64_t fraction = live.nanoseconds ? header.ts.tv_usec : header.ts.tv_usec * kMicrosecond;
    (*deliver)(FrameView{++frames, header.ts.tv_sec * kSecond + fraction, live.link, header.len,
                         Octets(octets, header.caplen)});
  }
};

Expected<LiveReader, CaptureError> LiveReader::open(const std::string& interface, const std::string& filter) {
  auto live = open_live(interface, kBufferOctets);
  if (!live) return unexpected(std::move(live.error()));
  if (!filter.empty()) {
    if (auto set = set_filter(*live, filter); !set) return unexpected(std::move(set.error()));
  }
  auto state = std::make_unique<State>();
  state->live = std::move(*live);
  return LiveReader(std::move(state));
}

LiveReader::LiveReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
LiveReader::LiveReader(LiveReader&&) noexcept = default;
LiveReader& LiveReader::operator=(LiveReader&&) noexcept = default;
LiveReader::~LiveReader() = default;

std::string LiveReader::run(const std::atomic<bool>& stop, const std::function<void(const FrameView&)>& frame,
                            const std::function<void()>& idle) {
  state_->deliver = &frame;
  pcap_t* handle = state_->live.handle.get();
  const auto deliver = [](u_char* self, const pcap_pkthdr* header, const u_char* octets) {
    reinterpret_cast<State*>(self)->take(*header, reinterpret_cast<const std::byte*>(octets));
  };
  while (!stop.load(std::memory_order_relaxed)) {
    const int got = pcap_dispatch(handle, -1, deliver, reinterpret_cast<u_char*>(state_.get()));
    if (got == PCAP_ERROR) return pcap_geterr(handle);
    if (got > 0) continue;
    idle();
    pollfd fd{pcap_get_selectable_fd(handle), POLLIN, 0};
    if (::poll(&fd, 1, kWaitMs) < 0 && errno != EINTR) return std::strerror(errno);
  }
  return {};
}

std::uint64_t LiveReader::dropped() const {
  pcap_stat stat{};
  return pcap_stats(state_->live.handle.get(), &stat) == 0 ? stat.ps_drop : 0;
}

}  // namespace kbtp::trace
