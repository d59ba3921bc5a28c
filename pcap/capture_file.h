// Capture files: reading pcap and pcapng ourselves and everything else through libpcap, all of them unpacked
// when gzip-compressed; writing classic pcap with nanosecond times.
//
// Reading never throws and never trusts a length in the file; a file that breaks off or turns foreign in the
// middle yields the frames before that point and a sentence that says where it ended.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "pcap/frame.h"

namespace kbtp::trace {

/// Reads a capture file frame by frame. One thread at a time.
class CaptureReader {
 public:
  /// Fails when the file ("-" is standard input) cannot be opened, is no capture file, or has one link type
  /// that is not in LinkType. Frames of a pcapng file have that of their interface, in LinkType or not.
  [[nodiscard]] static Result<CaptureReader> open(const std::string& path);
  /// The same over octets in memory, which must outlive the reader.
  [[nodiscard]] static Result<CaptureReader> over(Octets file);

  CaptureReader(CaptureReader&&) noexcept;
  CaptureReader& operator=(CaptureReader&&) noexcept;
  ~CaptureReader();

  /// The next frame; nothing at the end of the file or where it can be read no further (see damage()). Its
  /// octets are valid until the next call. Its time is between the years 1823 and 2116, so that the
  /// difference of any two fits.
  [[nodiscard]] std::optional<FrameView> next_view();
  /// The same with octets of its own.
  [[nodiscard]] std::optional<Frame> next();
  /// Why reading stopped before the end of the file; empty when it did not.
  [[nodiscard]] const std::string& damage() const;

 private:
  struct State;
  explicit CaptureReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// All frames of a file, with what CaptureReader::damage() said at the end.
struct CaptureFile {
  std::vector<Frame> frames;
  std::string damage;
};
[[nodiscard]] Result<CaptureFile> read_capture(const std::string& path);
[[nodiscard]] Result<CaptureFile> read_capture(Octets file);

/// The octets of a classic pcap file: big-endian, magic 0xA1B23C4D (nanoseconds), snap length 262144. All
/// frames have the link type of the first (Ethernet when there is none); frames are numbered by their place
/// in the file, whatever Frame::number says.
[[nodiscard]] std::vector<std::byte> encode_capture(std::span<const Frame> frames);

/// Writes encode_capture(frames) to `path`, replacing what was there.
[[nodiscard]] Result<> write_capture(const std::string& path, std::span<const Frame> frames);

}  // namespace kbtp::trace
