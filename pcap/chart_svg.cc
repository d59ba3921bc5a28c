#include "pcap/chart_svg.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

namespace kbtp::trace {
namespace {

// Pixels; a letter of the labels is taken to be as wide as a digit.
constexpr std::size_t kGutter = 150;  ///< frames and times
constexpr std::size_t kFrameRight = 56;
constexpr std::size_t kTimeRight = 140;
constexpr std::size_t kHeadTop = 78;
constexpr std::size_t kHeadHeight = 40;
constexpr std::size_t kFirstRow = kHeadTop + kHeadHeight + 40;
constexpr std::size_t kRow = 34;
constexpr std::size_t kMark = 16;
constexpr std::size_t kPause = 26;
constexpr std::int64_t kPauseNs = 100'000'000;  ///< without a message that is told
constexpr std::size_t kLetterTenths = 69;
constexpr std::size_t kLanes = 5;  ///< of lines from a request to its answer, beside a lifeline
constexpr std::size_t kLane = 8;
constexpr std::size_t kMargin = 24;

struct KindFacts {
  std::string_view style;   ///< class
  std::string_view legend;  ///< nothing: not told
};
constexpr std::array<KindFacts, 8> kKinds{{{"request", "KBTP request"},
                                           {"completion", "KBTP completion"},
                                           {"data", "data"},
                                           {"fetch", "Read, Atomic"},
                                           {"setup", "set-up"},
                                           {"failure", "Terminate, reset, failed"},
                                           {"minor", "Acknowledge, FIN"},
                                           {"remark", ""}}};
const KindFacts& facts(Chart::Kind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

constexpr std::string_view kStyle = R"(<style>
text{font:12px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#1e293b}
.paper{fill:#ffffff}
.name{font-size:17px;font-weight:600}
.dim{fill:#64748b}
.count{font-size:11px;fill:#64748b;font-variant-numeric:tabular-nums;text-anchor:end}
.middle{text-anchor:middle}
.what{font-weight:600}
.box{fill:#f1f5f9;stroke:#94a3b8}
.life{stroke:#94a3b8;stroke-dasharray:3 4}
.pause{stroke:#cbd5e1;stroke-dasharray:2 6}
.hit{fill:#64748b;fill-opacity:0}
.message:hover .hit{fill-opacity:.09}
.arrow{stroke-width:1.6}
.many{stroke-width:3.2}
.answer{fill:none;stroke-width:1.3;stroke-opacity:.55}
.answer:hover{stroke-width:3;stroke-opacity:1}
.request{stroke:#1d4ed8;fill:#1d4ed8}
.completion{stroke:#15803d;fill:#15803d}
.data{stroke:#7c3aed;fill:#7c3aed}
.fetch{stroke:#b45309;fill:#b45309}
.setup{stroke:#0e7490;fill:#0e7490}
.failure{stroke:#dc2626;fill:#dc2626}
.minor{stroke:#94a3b8;fill:#94a3b8}
.remark{stroke:#ca8a04;fill:#fef9c3}
.answer.request,.answer.fetch,.answer.completion,.answer.setup,.answer.data,.answer.minor,.answer.failure{fill:none}
.error{fill:#dc2626}
.warning{fill:#b45309}
.note{fill:#1d4ed8}
.sign{fill:#ffffff;font-weight:700;font-size:10px;text-anchor:middle}
@media (prefers-color-scheme:dark){
text{fill:#e2e8f0}
.paper{fill:#0f172a}
.dim,.count{fill:#94a3b8}
.box{fill:#1e293b;stroke:#64748b}
.life{stroke:#64748b}
.pause{stroke:#475569}
.request{stroke:#7aa2ff;fill:#7aa2ff}
.completion{stroke:#5fd08a;fill:#5fd08a}
.data{stroke:#b795ff;fill:#b795ff}
.fetch{stroke:#f0b35a;fill:#f0b35a}
.setup{stroke:#57c7e0;fill:#57c7e0}
.failure{stroke:#ff7b72;fill:#ff7b72}
.minor{stroke:#64748b;fill:#64748b}
.remark{stroke:#ca8a04;fill:#422006}
.error{fill:#ff7b72}
.warning{fill:#f0b35a}
.note{fill:#7aa2ff}
.sign{fill:#0f172a}
}
</style>
)";

std::size_t letters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}
std::size_t width_of(std::size_t letters) { return letters * kLetterTenths / 10; }
/// The room of a title and the gap behind it, in letters: bold ones are wider.
std::size_t titled(std::string_view title) { return letters(title) * 9 / 8 + 2; }
std::size_t room_of(std::size_t pixels) { return pixels * 10 / kLetterTenths; }

/// The first `most` letters, with an ellipsis when that is not all.
std::string shortened(std::string_view text, std::size_t most) {
  if (letters(text) <= most) return std::string(text);
  std::size_t size = 0;
  for (std::size_t n = 0; size < text.size(); ++size) {
    if ((static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) continue;
    if (++n >= std::max<std::size_t>(most, 1)) break;
  }
  std::string_view kept = text.substr(0, size);
  while (!kept.empty() && (kept.back() == ' ' || kept.back() == ',')) kept.remove_suffix(1);
  return std::string(kept) + "…";
}

/// Less the Request ID, for which there is no room: the answer is tied to its request anyway.
std::string without_request(std::string_view text) {
  constexpr std::string_view kRequest = "request 0x";
  const std::size_t from = text.find(kRequest);
  if (from == std::string_view::npos) return std::string(text);
  std::size_t to = std::min(text.find_first_not_of("0123456789abcdef", from + kRequest.size()), text.size());
  std::string before(text.substr(0, from));
  if (before.ends_with(' ')) {
    before.pop_back();  // "SUCCESS request 0x7, handle 3"
  } else if (text.substr(to).starts_with(", ")) {
    to += 2;
  }
  return before + std::string(text.substr(to));
}

std::string_view transport_name(Transport transport) {
  switch (transport) {
    case Transport::tcp:
      return "iWARP";
    case Transport::rocev2:
      return "RoCEv2";
    case Transport::rocev1:
      return "RoCEv1";
    case Transport::infiniband:
      return "InfiniBand";
  }
  return "";
}

std::string_view word(Finding::Severity severity) {
  switch (severity) {
    case Finding::Severity::note:
      return "note";
    case Finding::Severity::warning:
      return "warning";
    case Finding::Severity::error:
      return "error";
  }
  return "";
}

std::string quantity(std::uint64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

}  // namespace

ChartSvg::ChartSvg(const Chart& chart, Output& out) : chart_(chart), out_(out) {
  place_columns();
  place_rows();
}

/// A stream is as wide as its labels want, within reason: less when there are several.
void ChartSvg::place_columns() {
  const std::size_t streams = chart_.streams().size();
  const std::size_t widest = streams <= 1 ? 760 : streams == 2 ? 600 : 480;
  std::vector<std::size_t> wanted(streams, 0);
  for (const Chart::Row& row : chart_.rows()) {
    const std::size_t size = titled(row.title) + letters(row.text) + letters(row.added) + 5;
    wanted[row.stream] = std::max(wanted[row.stream], width_of(size) + 2 * kMargin);
  }
  std::size_t at = kGutter;
  for (std::size_t i = 0; i < streams; ++i) {
    Column column;
    for (const Side side : {Side::client, Side::server})
      column.half = std::max(
          {column.half, std::size_t{70}, width_of(letters(chart_.streams()[i].end_text(side))) / 2 + 16});
    const std::size_t narrowest = std::max(std::size_t{320}, 2 * column.half + 90);
    const std::size_t width = std::max(narrowest, std::min(wanted[i], widest));
    column.left = at + std::max(column.half, kLanes * kLane + 16);
    column.right = column.left + width;
    at = column.right + std::max(column.half, kLanes * kLane + 16) + kMargin;
    columns_.push_back(column);
  }
  width_ = std::max(at, std::size_t{640});
}

void ChartSvg::place_rows() {
  std::size_t at = kFirstRow;
  const Chart::Row* before = nullptr;
  for (const Chart::Row& row : chart_.rows()) {
    if (before != nullptr && row.at.time_ns - before->at.time_ns >= kPauseNs) at += kPause;
    ys_.push_back(at);
    at += kRow + kMark * row.marks.size();
    before = &row;
  }
  bottom_ = at - kRow / 2;
}

ChartSvg& ChartSvg::attribute(std::string_view name, std::size_t value) {
  out_.sign(' ').text(name).text("=\"").number(value).sign('"');
  return *this;
}

void ChartSvg::write(std::string_view name, std::uint64_t left_out, std::uint64_t streams_left_out) {
  const bool long_one = chart_.rows().size() > 20;
  const std::size_t height = bottom_ + (long_one ? kHeadHeight : 0) + 2 * kMargin +
                             (left_out != 0 || chart_.rows().empty() ? kMargin : 0);
  out_.text("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"");
  attribute("width", width_).attribute("height", height);
  out_.text(" viewBox=\"0 0 ").number(width_).sign(' ').number(height).text("\" role=\"img\">\n<title>");
  out_.text("Messages of ").xml_text(name).text("</title>\n");
  write_style();
  out_.text("<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n<text class=\"name\"");
  attribute("x", kMargin).attribute("y", 34);
  out_.sign('>')
      .xml_text(shortened(name, 48))
      .text("<tspan class=\"dim\" dx=\"12\" font-size=\"12\" font-weight=\"400\">");
  out_.text(quantity(chart_.streams().size(), "stream")).text(", ");
  out_.text(quantity(chart_.rows().size(), "line"));
  if (!chart_.rows().empty()) {
    const std::int64_t spent = chart_.rows().back().at.time_ns - chart_.rows().front().at.time_ns;
    out_.text(" in ").fixed(std::max<std::int64_t>(spent, 0), 9, 6).text(" s");
  }
  out_.text("</tspan></text>\n");
  write_legend();
  write_ends(kHeadTop);
  for (const Column& column : columns_) {
    for (const Side side : {Side::client, Side::server}) {
      out_.text("<line class=\"life\"");
      attribute("x1", column.x(side)).attribute("x2", column.x(side));
      attribute("y1", kHeadTop + kHeadHeight).attribute("y2", bottom_);
      out_.text("/>\n");
    }
  }
  write_answers();
  for (std::size_t i = 0; i < chart_.rows().size(); ++i) write_row(i);
  if (long_one) write_ends(bottom_);
  write_left_out(left_out, streams_left_out);
  out_.text("</svg>\n");
}

void ChartSvg::write_style() { out_.text(kStyle); }

void ChartSvg::write_legend() {
  std::size_t x = kMargin;
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
    const bool there = std::ranges::any_of(
        chart_.rows(), [kind](const Chart::Row& row) { return static_cast<std::size_t>(row.kind) == kind; });
    if (!there || kKinds[kind].legend.empty()) continue;
    out_.text("<rect class=\"")
        .text(kKinds[kind].style)
        .text("\" y=\"51\" width=\"14\" height=\"3\" rx=\"1\"");
    attribute("x", x);
    out_.text("/><text class=\"dim\" y=\"57\"");
    attribute("x", x + 20);
    out_.sign('>').text(kKinds[kind].legend).text("</text>\n");
    x += 44 + width_of(letters(kKinds[kind].legend));
  }
}

void ChartSvg::write_ends(std::size_t top) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    const ConnectionInfo& stream = chart_.streams()[i];
    for (const Side side : {Side::client, Side::server}) {
      out_.text("<rect class=\"box\" rx=\"5\"");
      attribute("x", column.x(side) - column.half).attribute("y", top);
      attribute("width", 2 * column.half).attribute("height", kHeadHeight);
      out_.text("/><text class=\"middle what\"");
      attribute("x", column.x(side)).attribute("y", top + 17);
      out_.sign('>').xml_text(stream.end_text(side)).text("</text><text class=\"middle dim\"");
      attribute("x", column.x(side)).attribute("y", top + 33);
      out_.text(side == Side::client ? ">client" : ">server");
      if (const auto& qp = stream.qp[static_cast<std::size_t>(side)]) out_.text(", QP ").hex(*qp);
      out_.text("</text>\n");
    }
    out_.text("<text class=\"middle dim\"");
    attribute("x", (column.left + column.right) / 2).attribute("y", top + 24);
    out_.text(">stream ").number(stream.number).text(", ").text(transport_name(stream.transport));
    out_.text("</text>\n");
  }
}

void ChartSvg::write_row(std::size_t index) {
  const Chart::Row& row = chart_.rows()[index];
  const Column& column = columns_[row.stream];
  const std::size_t y = ys_[index];
  if (index != 0) {
    const std::int64_t pause = row.at.time_ns - chart_.rows()[index - 1].at.time_ns;
    if (pause >= kPauseNs) {
      const std::size_t at = y - kRow;
      out_.text("<line class=\"pause\"");
      attribute("x1", kGutter).attribute("x2", width_ - kMargin).attribute("y1", at).attribute("y2", at);
      out_.text("/><text class=\"count\"");
      attribute("x", kTimeRight).attribute("y", at + 4);
      out_.sign('>').fixed(pause, 9, 3).text(" s later</text>\n");
    }
  }
  out_.text("<g class=\"message\"><title>");
  write_tooltip(row);
  out_.text("</title><rect class=\"hit\"");
  attribute("x", 8).attribute("y", y - 20).attribute("width", width_ - 16);
  attribute("height", kRow + kMark * row.marks.size() - 2);
  out_.text("/><text class=\"count\"");
  attribute("x", kFrameRight).attribute("y", y + 4);
  out_.sign('>').number(row.at.number).text("</text><text class=\"count\"");
  attribute("x", kTimeRight).attribute("y", y + 4);
  out_.sign('>').fixed(row.at.time_ns - chart_.started_ns(), 9, 6).text("</text>");
  if (row.kind == Chart::Kind::remark) {
    out_.text("<rect class=\"remark\" rx=\"4\"");
    attribute("x", column.left + kMargin).attribute("width", column.right - column.left - 2 * kMargin);
    attribute("y", y - 18).attribute("height", 22);
    out_.text("/>");
  } else {
    const std::size_t from = column.x(row.from);
    const std::size_t to = column.x(other(row.from));
    out_.text("<path class=\"arrow ").text(facts(row.kind).style).text(row.first_frame ? " many" : "");
    out_.text("\" d=\"M").number(from).sign(' ').number(y).sign('H');
    out_.number(to > from ? to - 6 : to + 6).text("M").number(to).sign(' ').number(y);
    out_.text(to > from ? "l-10-4v8z\"/>" : "l10-4v8z\"/>");
  }
  write_label(row, column, y);
  write_marks(row, column, y);
  out_.text("</g>\n");
}

/// What it is and what the analysis says of it before what it says itself, when there is no room for all.
void ChartSvg::write_label(const Chart::Row& row, const Column& column, std::size_t y) {
  constexpr std::size_t kLeast = 8;  ///< of a text that says anything
  const std::size_t room = room_of(column.right - column.left - kMargin);
  const std::string title = shortened(row.title, room * 8 / 9);
  const std::size_t behind_title = room - std::min(room, titled(title));
  const std::string added = shortened(row.added, behind_title);
  const std::size_t left = behind_title - std::min(behind_title, added.empty() ? 0 : letters(added) + 2);
  const std::string text = letters(row.text) <= left
                               ? row.text
                               : shortened(without_request(row.text), std::max<std::size_t>(left, 1));
  out_.text("<text class=\"middle\"");
  attribute("x", (column.left + column.right) / 2)
      .attribute("y", y - (row.kind == Chart::Kind::remark ? 3 : 6));
  out_.text("><tspan class=\"what\">").xml_text(title).text("</tspan>");
  if (!text.empty() && (left >= kLeast || letters(row.text) <= left))
    out_.text("<tspan dx=\"7\">").xml_text(text).text("</tspan>");
  if (!added.empty()) out_.text("<tspan class=\"dim\" dx=\"9\">").xml_text(added).text("</tspan>");
  out_.text("</text>");
}

void ChartSvg::write_tooltip(const Chart::Row& row) {
  const ConnectionInfo& stream = chart_.streams()[row.stream];
  out_.sign('#').number(row.at.number);
  if (row.first_frame) out_.text(" since #").number(*row.first_frame);
  out_.text(", stream ").number(stream.number).text(", from ").xml_text(stream.end_text(row.from));
  out_.sign('\n').xml_text(row.title).text(": ").xml_text(row.text);
  if (!row.added.empty()) out_.sign('\n').xml_text(row.added);
}

/// Below the arrow, a sign and the sentence; all of it as a tooltip.
void ChartSvg::write_marks(const Chart::Row& row, const Column& column, std::size_t y) {
  const std::size_t room = room_of(column.right - column.left - 2 * kMargin);
  for (const Chart::Mark& mark : row.marks) {
    y += kMark;
    out_.text("<g class=\"finding\"><title>").text(word(mark.severity)).text(": ").xml_text(mark.text);
    out_.text("</title><circle r=\"6\" class=\"").text(word(mark.severity)).sign('"');
    attribute("cx", column.left + kMargin).attribute("cy", y - 1);
    out_.text("/><text class=\"sign\"");
    attribute("x", column.left + kMargin).attribute("y", y + 3);
    out_.text(mark.severity == Finding::Severity::note ? ">i</text>" : ">!</text>");
    out_.text("<text class=\"").text(word(mark.severity)).sign('"');
    attribute("x", column.left + kMargin + 12).attribute("y", y + 3);
    out_.sign('>').xml_text(shortened(mark.text, room)).text("</text></g>");
  }
}

/// Beside the lifeline of who asked, a line from each request to its answer, as long as there is a lane free.
void ChartSvg::write_answers() {
  const auto& rows = chart_.rows();
  std::vector<std::array<std::size_t, 2 * kLanes>> busy(columns_.size());  // down to which y, by lane
  for (auto& lanes : busy) lanes.fill(0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Chart::Row& answer = rows[i];
    if (!answer.request_frame) continue;
    std::size_t asked = i;
    while (asked > 0) {
      --asked;
      if (rows[asked].at.number < *answer.request_frame) break;
      const bool found = rows[asked].at.number == *answer.request_frame &&
                         rows[asked].stream == answer.stream && rows[asked].from != answer.from;
      if (!found) continue;
      const Side side = rows[asked].from;
      const auto lanes = std::span(busy[answer.stream]).subspan(side == Side::client ? 0 : kLanes, kLanes);
      const auto lane = std::ranges::find_if(lanes, [&](std::size_t y) { return y < ys_[asked]; });
      if (lane == lanes.end()) break;
      *lane = ys_[i];
      const std::size_t away = 8 + kLane * static_cast<std::size_t>(lane - lanes.begin());
      const std::size_t x = columns_[answer.stream].x(side);
      const bool left = side == Side::client;
      out_.text("<path class=\"answer ").text(facts(rows[asked].kind).style).text("\" d=\"M").number(x);
      out_.sign(' ').number(ys_[asked]).sign('H').number(left ? x - away : x + away);
      out_.sign('V').number(ys_[i]).sign('H').number(x).text("\"><title>");
      out_.xml_text(rows[asked].title).text(" of #").number(rows[asked].at.number).text(": #");
      out_.number(answer.at.number).sign(' ').xml_text(answer.added).text("</title></path>\n");
      break;
    }
  }
}

void ChartSvg::write_left_out(std::uint64_t messages, std::uint64_t streams) {
  if (messages == 0 && !chart_.rows().empty()) return;
  const std::size_t head = chart_.rows().size() > 20 ? kHeadHeight : 0;
  out_.text("<text class=\"left-out\"");
  attribute("x", kMargin).attribute("y", bottom_ + head + kMargin + 10);
  if (chart_.rows().empty()) {
    out_.text(">No message was selected.</text>\n");
    return;
  }
  out_.sign('>')
      .text(quantity(messages, "more line"))
      .text(messages == 1 ? " was" : " were")
      .text(" left out");
  if (streams != 0) out_.text(", and all of ").text(quantity(streams, "more stream"));
  out_.text(". Choose with --follow, --frames or --filter.</text>\n");
}

}  // namespace kbtp::trace
