// How a Chart is drawn.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "pcap/chart.h"
#include "pcap/output.h"

namespace kbtp::trace {

class ChartSvg {
 public:
  ChartSvg(const Chart& chart, Output& out);
  ChartSvg(const ChartSvg&) = delete;
  ChartSvg& operator=(const ChartSvg&) = delete;
  ~ChartSvg() = default;

  /// `left_out`: messages and streams that the chart had no room for.
  void write(std::string_view name, std::uint64_t left_out, std::uint64_t streams_left_out);

 private:
  /// Pixels.
  struct Column {
    std::size_t left = 0, right = 0;  ///< the lifelines
    std::size_t half = 0;             ///< of a box at an end of a lifeline
    [[nodiscard]] std::size_t x(Side side) const { return side == Side::client ? left : right; }
  };

  void place_columns();
  void place_rows();
  void write_style();
  void write_legend();
  void write_ends(std::size_t top);
  void write_row(std::size_t index);
  void write_label(const Chart::Row& row, const Column& column, std::size_t y);
  void write_tooltip(const Chart::Row& row);
  void write_marks(const Chart::Row& row, const Column& column, std::size_t y);
  void write_answers();
  void write_left_out(std::uint64_t messages, std::uint64_t streams);
  ChartSvg& attribute(std::string_view name, std::size_t value);

  const Chart& chart_;
  Output& out_;
  std::vector<Column> columns_;
  std::vector<std::size_t> ys_;  ///< of the rows' arrows
  std::size_t width_ = 0;
  std::size_t bottom_ = 0;  ///< of the lifelines
};

}  // namespace kbtp::trace
