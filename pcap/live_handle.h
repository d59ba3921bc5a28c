// Opening an interface for live capture: what LiveCapture and LiveReader share.

#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "pcap/frame.h"
#include "pcap/live_capture.h"

struct pcap;  // libpcap's handle

namespace kbtp::trace {

struct PcapCloser {
  void operator()(pcap* handle) const;
};

/// Immediate mode, not blocking, snap length 262144.
struct LiveHandle {
  std::unique_ptr<pcap, PcapCloser> handle;
  LinkType link = LinkType::ethernet;
  bool nanoseconds = false;  ///< times have nanoseconds where libpcap says microseconds
};
[[nodiscard]] Expected<LiveHandle, CaptureError> open_live(const std::string& interface,
                                                           std::size_t buffer_octets);

/// Compiles a filter in libpcap's language (pcap-filter(7)) and gives it to the kernel.
[[nodiscard]] Expected<void, CaptureError> set_filter(const LiveHandle& live, const std::string& expression);

}  // namespace kbtp::trace
