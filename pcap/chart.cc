#include "pcap/chart.h"

#include <algorithm>
#include <utility>

#include "pcap/analysis.h"
#include "pcap/chart_svg.h"

namespace kbtp::trace {
namespace {

constexpr std::size_t kMostMarks = 3;  ///< of one message

/// The field that names the frame of the request.
const FieldInfo* request_frame() {
  static const FieldInfo* const info = [] {
    const auto fields = analysis_fields();
    return &*std::ranges::find(fields, std::string_view("analysis.request_frame"), &FieldInfo::name);
  }();
  return info;
}

/// By the titles that line_text.h gives.
Chart::Kind kind_of(std::string_view title, std::string_view text) {
  using enum Chart::Kind;
  const auto begins = [title](auto... words) { return (title.starts_with(words) || ...); };
  if (begins("Terminate", "TCP RST", "no MPA", "CM REJ") || text.starts_with("REJECTED")) return failure;
  if (begins("note", "missing")) return remark;
  if (begins("KBTP COMPLETION", "KBTP HELLO_ACK")) return text.starts_with("SUCCESS") ? completion : failure;
  if (begins("KBTP")) return request;
  if (begins("MPA", "CM ")) return setup;
  if (begins("RDMA Read", "Atomic", "Compare", "Fetch", "CmpSwap")) return fetch;
  if (begins("RDMA Write", "Write", "Send", "Immediate", "FPDU")) return data;
  return minor;
}

}  // namespace

void Chart::begin_line(const ConnectionInfo& connection, Side side, FrameRef at, bool announce) {
  line_.drop();
  auto stream = std::ranges::find(streams_, connection.number, &ConnectionInfo::number);
  if (stream == streams_.end() && announce && rows_.size() < limits_.messages) {
    if (streams_.size() < limits_.streams) {
      stream = streams_.insert(stream, connection);
    } else {
      ++streams_left_out_;
    }
  }
  dropped_ = stream == streams_.end() || rows_.size() >= limits_.messages;
  if (dropped_) return;
  *stream = connection;  // its queue pairs may be known only now
  open_ = Row{};
  open_.stream = static_cast<std::size_t>(stream - streams_.begin());
  open_.from = side;
  open_.at = at;
}

void Chart::since(FrameRef first, FrameRef last) {
  if (first.number != last.number) open_.first_frame = first.number;
}

void Chart::end_line(const Annotation& annotation) {
  if (dropped_) {
    ++left_out_;
    return;
  }
  // A title of fixed width, and at least two spaces.
  const std::string_view line = line_.held();
  const std::size_t gap = std::min(line.find("  "), line.size());
  const std::size_t text = std::min(line.find_first_not_of(' ', gap), line.size());
  open_.title = line.substr(0, gap);
  open_.text = line.substr(text);
  open_.kind = kind_of(open_.title, open_.text);
  open_.added = annotation.text;
  for (const Field& field : annotation.fields) {
    if (field.info == request_frame()) open_.request_frame = field.number;
  }
  for (const Finding& finding : annotation.findings) {
    if (open_.marks.size() < kMostMarks) open_.marks.push_back({finding.severity, finding.text});
  }
  rows_.push_back(std::move(open_));
}

void Chart::write(std::string_view name, Output& out) const {
  ChartSvg(*this, out).write(name, left_out_, streams_left_out_);
}

}  // namespace kbtp::trace
