// All frames of an interface as they come, for the dissector. One thread, except stop().

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "pcap/frame.h"
#include "pcap/live_capture.h"

namespace kbtp::trace {

class LiveReader {
 public:
  /// `filter` is in libpcap's language; empty: everything.
  [[nodiscard]] static Expected<LiveReader, CaptureError> open(const std::string& interface,
                                                               const std::string& filter);
  LiveReader(LiveReader&&) noexcept;
  LiveReader& operator=(LiveReader&&) noexcept;
  ~LiveReader();

  /// Gives out frames, valid during the call, until `stop` is set (a signal ends the waiting) or the
  /// interface is gone; `idle` is called whenever no frame is there. Why it ended early; empty: it was
  /// stopped.
  [[nodiscard]] std::string run(const std::atomic<bool>& stop,
                                const std::function<void(const FrameView&)>& frame,
                                const std::function<void()>& idle);
  /// Frames that the kernel dropped.
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  struct State;
  explicit LiveReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kbtp::trace
