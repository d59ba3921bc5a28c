#include "second_opinion/rows.h"

#include <algorithm>
#include <fmt/format.h>

namespace kbtp::second_opinion {

std::string to_string(const Row& row) {
  const std::string place = row.tagged ? fmt::format("STag {:#x} TO {:#x}", row.stag, row.to)
                                       : fmt::format("QN {} MSN {} MO {}", row.qn, row.msn, row.mo);
  return fmt::format("opcode {:#x} ulpdu {} {}{} CRC {}", row.opcode, row.ulpdu_length,
                     row.last ? "last " : "", place, row.crc);
}

std::string difference(const Rows& one, const Rows& other) {
  std::string text;
  Rows all = one;
  all.insert(other.begin(), other.end());
  for (const auto& [direction, unused] : all) {
    const auto rows_in = [&, &key = direction](const Rows& rows) {
      const auto at = rows.find(key);
      return at == rows.end() ? std::vector<Row>{} : at->second;
    };
    const std::vector<Row> a = rows_in(one);
    const std::vector<Row> b = rows_in(other);
    const auto [at_a, at_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    if (at_a == a.end() && at_b == b.end()) continue;
    text += fmt::format("{}, FPDU {} of {} and {}:\n  {}\n  {}\n", direction, at_a - a.begin() + 1, a.size(),
                        b.size(), at_a == a.end() ? "none" : to_string(*at_a),
                        at_b == b.end() ? "none" : to_string(*at_b));
  }
  return text;
}

std::size_t count(const Rows& rows) {
  std::size_t n = 0;
  for (const auto& [direction, list] : rows) n += list.size();
  return n;
}

namespace {

std::string crc_text(trace::CrcState crc) {
  switch (crc) {
    case trace::CrcState::good:
      return "good";
    case trace::CrcState::bad:
      return "bad";
    case trace::CrcState::off:
      return "off";
    case trace::CrcState::unknown:
      return "unknown";
  }
  return {};
}

std::string crc_text(rnic::CrcVerdict crc) {
  switch (crc) {
    case rnic::CrcVerdict::good:
      return "good";
    case rnic::CrcVerdict::bad:
      return "bad";
    case rnic::CrcVerdict::ignored:
      return "off";
  }
  return {};
}

Row row_of(const trace::Fpdu& fpdu) {
  Row row;
  row.ulpdu_length = fpdu.ulpdu_length;
  row.opcode = fpdu.rdmap.opcode;
  row.crc = crc_text(fpdu.crc);
  if (const ddp::TaggedHeader* tagged = fpdu.tagged()) {
    row.tagged = true;
    row.last = tagged->last;
    row.stag = tagged->stag;
    row.to = tagged->tagged_offset;
  } else if (const ddp::UntaggedHeader* untagged = fpdu.untagged()) {
    row.last = untagged->last;
    row.qn = untagged->queue_number;
    row.msn = untagged->msn;
    row.mo = untagged->message_offset;
  }
  return row;
}

}  // namespace

Rows rows_of(const trace::Trace& trace) {
  Rows rows;
  for (const trace::Connection& connection : trace.connections) {
    for (const trace::Event& event : connection.events) {
      if (const auto* fpdu = event.as<trace::Fpdu>();
          fpdu != nullptr && fpdu->extent == trace::Extent::whole) {
        rows[connection.address(event.from).to_string() + " > " +
             connection.address(other(event.from)).to_string()]
            .push_back(row_of(*fpdu));
      }
    }
  }
  return rows;
}

Row row_of(const rnic::FpduEvent& event) {
  Row row;
  row.ulpdu_length = event.ulpdu_length;
  row.tagged = event.tagged();
  row.last = event.last();
  row.opcode = event.opcode();
  row.stag = event.stag;
  row.to = event.tagged_offset;
  row.qn = event.queue_number;
  row.msn = event.msn;
  row.mo = event.mo;
  row.crc = crc_text(event.crc);
  return row;
}

std::string direction_of(const rnic::FpduEvent& event) {
  const bool sent = event.direction == rnic::Direction::sent;
  const std::string local = trace::TransportAddress::from(event.local).to_string();
  const std::string peer = trace::TransportAddress::from(event.peer).to_string();
  return sent ? local + " > " + peer : peer + " > " + local;
}

}  // namespace kbtp::second_opinion
