// One FPDU as a witness tells it. Witnesses are our decoder over a capture, tshark over the same capture, and
// the RNICs that sent and received it; rows of two witnesses are compared with ==.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pcap/trace.h"
#include "rdmap_binding/rnic/rnic.h"

namespace kbtp::second_opinion {

struct Row {
  std::uint16_t ulpdu_length = 0;
  bool tagged = false;
  bool last = false;
  std::uint8_t opcode = 0;
  std::uint32_t stag = 0;  ///< tagged
  std::uint64_t to = 0;    ///< tagged
  std::uint32_t qn = 0;    ///< untagged
  std::uint32_t msn = 0;   ///< untagged
  std::uint32_t mo = 0;    ///< untagged
  std::string crc;         ///< "good", "bad" or "off"
  /// What else a witness reads in it, the RDMAP header above all, by tshark's names for it. An RNIC tells
  /// none.
  std::map<std::string, std::uint64_t> more;

  /// Nothing is told otherwise: of `more` what both tell.
  bool operator==(const Row& other) const;
};
[[nodiscard]] std::string to_string(const Row& row);

/// Rows of each direction in stream order, by "SOURCE > DESTINATION".
using Rows = std::map<std::string, std::vector<Row>>;

/// Where two witnesses part: the first row that differs of each direction, with its number; empty when they
/// agree.
[[nodiscard]] std::string difference(const Rows& one, const Rows& other);
[[nodiscard]] std::size_t count(const Rows& rows);
/// How many values of Row::more two witnesses have both.
[[nodiscard]] std::size_t count_more(const Rows& one, const Rows& other);

/// Whole FPDUs only: nobody else tells of one that the stream breaks off in.
[[nodiscard]] Rows rows_of(const trace::Trace& trace);
[[nodiscard]] Row row_of(const rnic::FpduEvent& event);
/// "SOURCE > DESTINATION" of the direction that an FPDU went.
[[nodiscard]] std::string direction_of(const rnic::FpduEvent& event);

}  // namespace kbtp::second_opinion
