#include "second_opinion/rows.h"

#include <fmt/format.h>

namespace kbtp::second_opinion {

std::ostream& operator<<(std::ostream& out, const Row& row) {
  out << fmt::format("opcode {:#x} ulpdu {} {}", row.opcode, row.ulpdu_length, row.last ? "last " : "");
  if (row.tagged) {
    out << fmt::format("STag {:#x} TO {:#x}", row.stag, row.to);
  } else {
    out << fmt::format("QN {} MSN {} MO {}", row.qn, row.msn, row.mo);
  }
  return out << " CRC " << row.crc;
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
      if (const auto* fpdu = event.as<trace::Fpdu>()) {
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
