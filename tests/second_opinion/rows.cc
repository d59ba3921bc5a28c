#include "second_opinion/rows.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

#include "pcap/terminate_reading.h"

namespace kbtp::second_opinion {

bool Row::operator==(const Row& other) const {
  for (const auto& [name, value] : more) {
    const auto theirs = other.more.find(name);
    if (theirs != other.more.end() && theirs->second != value) return false;
  }
  const auto tie = [](const Row& r) {
    return std::tie(r.ulpdu_length, r.tagged, r.last, r.opcode, r.stag, r.to, r.qn, r.msn, r.mo, r.crc);
  };
  return tie(*this) == tie(other);
}

std::string to_string(const Row& row) {
  const std::string place = row.tagged ? fmt::format("STag {:#x} TO {:#x}", row.stag, row.to)
                                       : fmt::format("QN {} MSN {} MO {}", row.qn, row.msn, row.mo);
  std::string text = fmt::format("opcode {:#x} ulpdu {} {}{} CRC {}", row.opcode, row.ulpdu_length,
                                 row.last ? "last " : "", place, row.crc);
  for (const auto& [name, value] : row.more) text += fmt::format(" {} {:#x}", name, value);
  return text;
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

std::size_t count_more(const Rows& one, const Rows& other) {
  std::size_t n = 0;
  for (const auto& [direction, rows] : one) {
    const auto there = other.find(direction);
    if (there == other.end()) continue;
    for (std::size_t i = 0; i < std::min(rows.size(), there->second.size()); ++i) {
      for (const auto& [name, value] : rows[i].more) n += there->second[i].more.contains(name) ? 1 : 0;
    }
  }
  return n;
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

/// By the names that tshark has for them.
std::map<std::string, std::uint64_t> more_of(const trace::Fpdu& fpdu) {
  std::map<std::string, std::uint64_t> more;
  if (!fpdu.ddp) return more;
  more["rdma.version"] = fpdu.rdmap.version;
  more["rdma.rsv"] = fpdu.rdmap.reserved;
  if (const ddp::TaggedHeader* tagged = fpdu.tagged()) more["ddp.dv"] = tagged->version;
  if (const ddp::UntaggedHeader* untagged = fpdu.untagged()) {
    more["ddp.dv"] = untagged->version;
    more["rdma.inval_stag"] = untagged->rsvdulp_stag;
  }
  if (const auto* read = std::get_if<rdmap::ReadRequest>(&fpdu.header)) {
    more["rdma.sinkstag"] = read->sink_stag;
    more["rdma.sinkto"] = read->sink_to;
    more["rdma.rdmardsz"] = read->size;
    more["rdma.srcstag"] = read->source_stag;
    more["rdma.srcto"] = read->source_to;
  } else if (const auto* atomic = std::get_if<rdmap::AtomicRequest>(&fpdu.header)) {
    more["rdma.atomic.opcode"] = static_cast<std::uint8_t>(atomic->operation);
    more["rdma.atomic.request_identifier"] = atomic->request_identifier;
    more["rdma.atomic.remote_stag"] = atomic->remote_stag;
    more["rdma.atomic.remote_tagged_offset"] = atomic->remote_to;
    more["rdma.atomic.add_data"] = more["rdma.atomic.swap_data"] = atomic->add_or_swap_data;
    more["rdma.atomic.add_mask"] = more["rdma.atomic.swap_mask"] = atomic->add_or_swap_mask;
    more["rdma.atomic.compare_data"] = atomic->compare_data;
    more["rdma.atomic.compare_mask"] = atomic->compare_mask;
  } else if (const auto* response = std::get_if<rdmap::AtomicResponse>(&fpdu.header)) {
    more["rdma.atomic.original_request_identifier"] = response->request_identifier;
    more["rdma.atomic.original_remote_data_value"] = response->original_value;
  } else if (fpdu.terminate() != nullptr) {
    const auto reading = trace::read_terminate(fpdu.payload());
    if (!reading) return more;
    more["rdma.term_layer"] = reading->control.code.layer;
    more["rdma.term_etype"] = reading->control.code.error_type;
    more["rdma.term_errcode"] = reading->control.code.error_code;
    more["rdma.term_hdrct_m"] = reading->control.length_valid ? 1 : 0;
    more["rdma.hdrct_d"] = reading->control.ddp_header ? 1 : 0;
    more["rdma.hdrct_r"] = reading->control.rdma_header ? 1 : 0;
  }
  return more;
}

Row row_of(const trace::Fpdu& fpdu) {
  Row row;
  row.more = more_of(fpdu);
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
