// A message sequence chart as SVG: the lines of LinePrinter as arrows between the lifelines of their stream's
// ends. One self-contained file without scripts, readable in light and dark mode.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pcap/decoder.h"
#include "pcap/output.h"
#include "pcap/print_lines.h"
#include "pcap/record.h"

namespace kbtp::trace {

/// What a chart holds at most; what is beyond is counted, and the chart says so. Nobody reads more.
struct ChartLimits {
  std::size_t messages = 1000;
  std::size_t streams = 6;  ///< side by side
};

/// Collects what a LinePrinter would tell, to be written at the end. One thread.
class Chart final : public LinePrinter {
 public:
  explicit Chart(ChartLimits limits = {}) : LinePrinter(line_, false), limits_(limits) {}

  /// `name`: of the capture, any octets.
  void write(std::string_view name, Output& out) const;

  /// What an arrow is about; each has its colour.
  enum class Kind : std::uint8_t {
    request,     ///< of KBTP
    completion,  ///< of KBTP, and HELLO_ACK
    data,        ///< Writes, Sends, Immediate Data
    fetch,       ///< Reads, Atomics and their responses
    setup,       ///< MPA, Communication Manager
    failure,     ///< Terminate, reset, rejection, another status than SUCCESS
    minor,       ///< Acknowledges, FIN
    remark,      ///< no message: what the capture lacks, notes
  };
  struct Mark {
    Finding::Severity severity;
    std::string text;
  };
  struct Row {
    std::size_t stream = 0;  ///< in streams()
    Side from = Side::client;
    Kind kind = Kind::minor;
    FrameRef at;
    std::optional<std::uint64_t> first_frame;  ///< when it is another
    std::string title, text;
    std::string added;                           ///< by the analysis
    std::optional<std::uint64_t> request_frame;  ///< that it answers
    std::vector<Mark> marks;
  };
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
  [[nodiscard]] const std::vector<ConnectionInfo>& streams() const { return streams_; }
  /// Messages that are not in rows().
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
  [[nodiscard]] std::int64_t started_ns() const { return start_ns(); }

 private:
  void begin_line(const ConnectionInfo& connection, Side side, FrameRef at, bool announce) override;
  void since(FrameRef first, FrameRef last) override;
  void end_line(const Annotation& annotation) override;

  ChartLimits limits_;
  Output line_{-1};  ///< what line_text.h says of the row that is open
  Row open_;
  bool dropped_ = false;  ///< the open row finds no room
  std::vector<Row> rows_;
  std::vector<ConnectionInfo> streams_;
  std::uint64_t left_out_ = 0;
  std::uint64_t streams_left_out_ = 0;
};

}  // namespace kbtp::trace
