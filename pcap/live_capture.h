// Live capture: one libpcap handle a run, one thread that reads it and sorts the frames of TCP connections
// into cases (docs/design.md, "Capture").
//
// A case says which connections are its own before they begin to speak: by the local address that its socket
// is bound to, or by both ends. It ends with a fence: a datagram on the same interface, behind which no frame
// of the case can come; when the fence is read the case is complete. Frames that the kernel dropped are
// counted.
//
// All functions may be called from any thread, except that a CaseCapture belongs to one thread at a time.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "base/time.h"
#include "pcap/frame.h"

namespace kbtp::trace {

/// Why no capture can be had. `text` says it in one sentence with what can be done about it; the command
/// prints it and ends with 3.
struct CaptureError {
  enum class Kind : std::uint8_t {
    not_permitted,  ///< neither root nor CAP_NET_RAW
    no_such_interface,
    interface_down,
    unsupported_link,  ///< frames of a link type that is not in LinkType
    other,
  };
  Kind kind = Kind::other;
  std::string text;
};

/// What a case captured.
struct CaseTrace {
  std::vector<Frame> frames;   ///< of the case's connections only (and RoCE), numbered from 1
  bool complete = false;       ///< the fence was read: nothing that belongs to the case is missing at its end
  std::uint64_t dropped = 0;   ///< frames that the kernel dropped while the case ran, whoever's they were
  std::uint64_t not_kept = 0;  ///< frames beyond max_case_octets
  /// Whether a verdict may rest on the absence of a frame.
  [[nodiscard]] bool whole() const { return complete && dropped == 0 && not_kept == 0; }
};

class LiveCapture;

/// One case's share of the capture. Ends (without a fence) when destroyed.
class CaseCapture {
 public:
  CaseCapture(const CaseCapture&) = delete;
  CaseCapture& operator=(const CaseCapture&) = delete;
  ~CaseCapture();

  /// From now on every TCP frame from or to `local` (an address and port that a socket is bound to) is the
  /// case's. With an unspecified address (0.0.0.0 or ::) every frame from or to that port, whatever the
  /// address.
  void add_local(const SocketAddress& local);
  /// From now on every TCP frame between these two is the case's.
  void add_flow(const SocketAddress& one, const SocketAddress& other);

  /// Frames so far.
  [[nodiscard]] std::uint64_t frame_count() const;
  /// Sends a fence, waits for it (the deadline bounds the wait) and gives the frames out; the case is over.
  [[nodiscard]] CaseTrace finish(TimePoint deadline);

 private:
  friend class LiveCapture;
  struct Share;
  explicit CaseCapture(std::shared_ptr<Share> share);
  std::shared_ptr<Share> share_;
};

class LiveCapture {
 public:
  struct Options {
    std::string interface = "lo";
    /// TCP ports of interest; frames with neither port among them are filtered out in the kernel. Empty: all.
    std::vector<std::uint16_t> ports;
    /// RoCEv2 packets too. Their queue pairs are not known before they speak: each is every case's.
    bool roce = false;
    /// Where fences go: an address that is reached through the interface. Unset: 127.0.0.1, right for "lo".
    SocketAddress fence_to;
    std::size_t buffer_octets = std::size_t{64} << 20;
    std::size_t max_case_octets = std::size_t{256} << 20;
  };

  [[nodiscard]] static Expected<std::unique_ptr<LiveCapture>, CaptureError> open(Options options);
  ~LiveCapture();
  LiveCapture(const LiveCapture&) = delete;
  LiveCapture& operator=(const LiveCapture&) = delete;

  [[nodiscard]] std::unique_ptr<CaseCapture> begin_case();
  /// Frames dropped by the kernel since the capture was opened.
  [[nodiscard]] std::uint64_t dropped() const;
  [[nodiscard]] LinkType link() const;

 private:
  friend class CaseCapture;
  struct State;
  explicit LiveCapture(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace kbtp::trace
