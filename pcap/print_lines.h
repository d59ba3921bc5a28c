// One line a message: the segments of an RDMA Write, a Read Response or a Send are counted together and told
// with the last of them.

#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "pcap/decoder.h"
#include "pcap/event.h"
#include "pcap/line_text.h"
#include "pcap/output.h"
#include "pcap/record.h"

namespace kbtp::trace {

class LinePrinter {
 public:
  /// With `each_segment` every FPDU has its line.
  LinePrinter(Output& output, bool each_segment) : output_(output), each_segment_(each_segment) {}
  LinePrinter(const LinePrinter&) = delete;
  LinePrinter& operator=(const LinePrinter&) = delete;
  virtual ~LinePrinter() = default;

  /// Times are told from here: the time of the capture's first frame.
  void set_start(std::int64_t ns) { start_ns_ = ns; }

  /// To be called for every event of a connection in order. A message is told when one of its events is
  /// `wanted`.
  void event(const ConnectionInfo& connection, const Event& event, const Annotation& annotation, bool wanted);
  void end(const ConnectionInfo& connection);

  /// Frame, time, stream and direction, then the event alone.
  void heading(const ConnectionInfo& connection, const Event& event, const Annotation& annotation);

 protected:
  /// A line begins; what line_text.h writes goes into the output next. `announce`: it is the stream's first.
  virtual void begin_line(const ConnectionInfo& connection, Side side, FrameRef at, bool announce);
  /// Where its message began.
  virtual void since(FrameRef first, FrameRef last);
  /// It ends. Of the annotation's fields numbers alone are still there.
  virtual void end_line(const Annotation& annotation);
  [[nodiscard]] std::int64_t start_ns() const { return start_ns_; }

 private:
  /// A message of which segments were seen.
  struct Pending {
    std::uint32_t count = 0;  ///< 0: none
    bool tagged = false;
    bool complete = false;  ///< a Send whose last segment was seen: its message comes next
    bool wanted = false;
    rdmap::Opcode opcode = rdmap::Opcode::send;
    std::uint32_t stag = 0;  ///< or MSN
    std::uint64_t first_to = 0;
    std::uint64_t next_to = 0;  ///< Tagged Offset or Message Offset of what goes on
    FrameRef first, last;
    Annotation added;
  };
  /// Packets of InfiniBand that were seen of a message.
  struct PendingIb {
    std::uint32_t count = 0;  ///< 0: none
    std::uint64_t octets = 0;
    ib::Packet first, last;  ///< their payloads are gone
    FrameRef first_frame, last_frame;
    bool wanted = false;
    Annotation added;
  };
  struct Stream {
    bool announced = false;
    bool kbtp_seen = false;
    std::array<Pending, 2> pending;       ///< by Side
    std::array<PendingIb, 2> pending_ib;  ///< by Side
  };

  Stream& stream(const ConnectionInfo& connection, const Event& event);
  [[nodiscard]] bool collect(Stream& stream, const ConnectionInfo& connection, const Event& event,
                             const Fpdu& fpdu, const Annotation& annotation, bool wanted);
  void flush(Stream& stream, const ConnectionInfo& connection, Side side);
  [[nodiscard]] bool collect(Stream& stream, const ConnectionInfo& connection, const Event& event,
                             const IbPacket& ib, const Annotation& annotation, bool wanted);
  [[nodiscard]] bool finish_ib(Stream& stream, const ConnectionInfo& connection, const Event& event,
                               const Annotation& annotation, bool wanted);
  void flush_ib(Stream& stream, const ConnectionInfo& connection, Side side);
  void begin_line(Stream& stream, const ConnectionInfo& connection, Side side, FrameRef at) {
    begin_line(connection, side, at, !std::exchange(stream.announced, true));
  }

  Output& output_;
  bool each_segment_;
  std::int64_t start_ns_ = 0;
  std::unordered_map<std::uint64_t, Stream> streams_;
  std::uint64_t latest_number_ = 0;
  Stream* latest_ = nullptr;
};

}  // namespace kbtp::trace
