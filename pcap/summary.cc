#include "pcap/summary.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <vector>

namespace kbtp::trace {

namespace {

constexpr double kNsPerSecond = 1e9;

double seconds(std::int64_t ns) { return static_cast<double>(ns) / kNsPerSecond; }

std::string octets(std::uint64_t n) {
  constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(n);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", n) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}
std::string micro(double us) {
  return us < 10'000 ? fmt::format("{:.1f} us", us) : fmt::format("{:.1f} ms", us / 1000);
}

std::string name_of(const Answered& answered) {
  switch (answered.kind) {
    case Answered::Kind::kbtp:
      return fmt::format("{} {}", wire::to_string(answered.op), wire::to_string(answered.status));
    case Answered::Kind::read:
      return "RDMA Read";
    case Answered::Kind::atomic:
      return "Atomic";
  }
  return {};
}

CrcState state_of(IcrcState icrc) {
  switch (icrc) {
    case IcrcState::good:
      return CrcState::good;
    case IcrcState::bad:
      return CrcState::bad;
    case IcrcState::unknown:
      return CrcState::unknown;
  }
  return CrcState::unknown;
}

bool is_write(const ib::OperationFacts& facts) {
  using enum ib::Operation;
  return facts.operation >= write_first && facts.operation <= write_only_immediate;
}
bool is_read_response(const ib::OperationFacts& facts) {
  using enum ib::Operation;
  return facts.operation >= read_response_first && facts.operation <= read_response_only;
}

std::string counted(std::uint64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string end_of(const ConnectionInfo& info, Side side) {
  const auto& qp = info.qp[static_cast<std::size_t>(side)];
  return qp ? fmt::format("{} QP {:#x}", info.end_text(side), *qp) : info.end_text(side);
}

std::string_view to_string(Finding::Severity severity) {
  switch (severity) {
    case Finding::Severity::note:
      return "note";
    case Finding::Severity::warning:
      return "warning";
    case Finding::Severity::error:
      return "error";
  }
  return {};
}

}  // namespace

void Summary::frame(const FrameView& frame) {
  if (frames_++ == 0) first_ns_ = frame.time_ns;
  last_ns_ = std::max(last_ns_, frame.time_ns);
  wire_octets_ += frame.wire_length;
}

void Summary::count(const ConnectionInfo& connection) {
  if (connection.transport != Transport::tcp) ++queue_pairs_;
  if (connection.transport == Transport::infiniband) ++native_;
}

void Summary::find(const ConnectionInfo& connection, const Event& event) {
  last_number_ = connection.number;
  if (streams_.size() >= kMostStreams && !streams_.contains(connection.number)) {
    last_ = &rest_;
    return;
  }
  const auto [at, fresh] = streams_.try_emplace(connection.number);
  last_ = &at->second;
  if (!fresh) return;
  last_->info = connection;
  count(connection);
  last_->first_ns = event.first.time_ns;
}

void Summary::event(const ConnectionInfo& connection, const Event& event, const Annotation& annotation,
                    const std::optional<Answered>& answered) {
  if (last_ == nullptr || last_number_ != connection.number) find(connection, event);
  Stream& stream = *last_;
  stream.last_ns = std::max(stream.last_ns, event.frame.time_ns);
  Direction& direction = stream.by_side[static_cast<std::size_t>(event.from)];
  if (connection.transport == Transport::tcp)
    direction.octets = std::max(direction.octets, event.offset + event.octets.size());
  if (const auto* fpdu = event.as<Fpdu>()) {
    ++direction.fpdus;
    ++direction.crc[static_cast<std::size_t>(fpdu->crc)];
    direction.markers += fpdu->markers;
    if (const ddp::TaggedHeader* tagged = fpdu->tagged()) {
      direction.data += fpdu->payload_length;
      if (fpdu->is(rdmap::Opcode::rdma_write)) writes_.add(fpdu->payload_length, tagged->last);
    }
  } else if (const auto* ib = event.as<IbPacket>()) {
    ++direction.fpdus;
    ++direction.crc[static_cast<std::size_t>(state_of(ib->icrc))];
    direction.octets += ib->length;
    const ib::OperationFacts* facts = ib->facts();
    const bool write = facts != nullptr && is_write(*facts);
    if (write || (facts != nullptr && is_read_response(*facts))) direction.data += ib->packet.payload_length;
    if (write && ib->order != PsnOrder::repeated)
      writes_.add(ib->packet.payload_length,
                  facts->place == ib::Place::last || facts->place == ib::Place::only);
  } else if (const auto* message = event.as<Message>()) {
    sends_.add(message->octets.size(), true);
  }
  if (answered) {
    Operations& operations = operations_[name_of(*answered)];
    operations.octets += answered->octets;
    operations.longest_ns = std::max(operations.longest_ns, answered->latency_ns);
    operations.latencies.add(std::chrono::nanoseconds(answered->latency_ns));
  }
  for (const Finding& finding : annotation.findings) {
    Found& found = found_[finding.kind];
    if (found.count++ != 0) continue;
    found = {finding.severity, 1, event.frame.number, connection.number, finding.text};
  }
}

void Summary::end(const ConnectionInfo& connection) {
  connections_ = std::max(connections_, connection.number);
  const auto at = streams_.find(connection.number);
  if (at != streams_.end()) {
    at->second.info = connection;
  } else if (streams_.size() >= kMostStreams &&
             (connection.is_iwarp || connection.transport != Transport::tcp)) {
    ++more_;
    count(connection);
  }
}

std::string Summary::text(std::size_t most_streams) const {
  const double took = seconds(last_ns_ - first_ns_);
  std::string out =
      fmt::format("{}, {} on the wire, in {:.6f} s; {}, {} of them iWARP", counted(frames_, "frame"),
                  octets(wire_octets_), took, counted(connections_ - queue_pairs_, "TCP connection"),
                  streams_.size() + more_ - queue_pairs_);
  if (queue_pairs_ != native_) out += "; " + counted(queue_pairs_ - native_, "RoCE conversation");
  if (native_ != 0) out += "; " + counted(native_, "InfiniBand conversation");
  out += '\n';
  append_streams(out, most_streams);
  append_operations(out);
  append_findings(out);
  return out;
}

void Summary::append_streams(std::string& out, std::size_t most) const {
  if (streams_.empty()) return;
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "\nstream  {:<44} {:>12} {:>9} {:>10} {:>10}  CRCs\n", "client > server", "seconds",
                 queue_pairs_ == 0 ? "FPDUs" : "packets", "octets", "data");
  std::size_t told = 0;
  for (const auto& [number, stream] : streams_) {
    if (told++ == most) {
      fmt::format_to(to, "  ... and {} more\n", streams_.size() + more_ - most);
      break;
    }
    Direction sum;
    for (const Direction& direction : stream.by_side) {
      sum.octets += direction.octets;
      sum.fpdus += direction.fpdus;
      sum.data += direction.data;
      sum.markers += direction.markers;
      for (std::size_t i = 0; i < sum.crc.size(); ++i) sum.crc[i] += direction.crc[i];
    }
    const auto crc = [&](CrcState state) { return sum.crc[static_cast<std::size_t>(state)]; };
    std::string crcs = sum.fpdus == 0            ? "-"
                       : crc(CrcState::off) != 0 ? "off"
                                                 : fmt::format("{} right", crc(CrcState::good));
    if (crc(CrcState::bad) != 0) crcs += fmt::format(", {} WRONG", crc(CrcState::bad));
    if (crc(CrcState::unknown) != 0) crcs += fmt::format(", {} unknown", crc(CrcState::unknown));
    if (sum.markers != 0) crcs += fmt::format("; {} markers", sum.markers);
    const std::uint64_t missing = stream.info.counters[0].missing + stream.info.counters[1].missing;
    const std::uint64_t again = stream.info.counters[0].retransmitted + stream.info.counters[1].retransmitted;
    if (missing != 0) crcs += fmt::format("; {} missing", octets(missing));
    if (again != 0) crcs += fmt::format("; {} sent again", octets(again));
    fmt::format_to(to, "{:>6}  {:<44} {:>12.6f} {:>9} {:>10} {:>10}  {}\n", number,
                   end_of(stream.info, Side::client) + " > " + end_of(stream.info, Side::server),
                   seconds(stream.last_ns - stream.first_ns), sum.fpdus, octets(sum.octets), octets(sum.data),
                   crcs);
  }
}

void Summary::append_operations(std::string& out) const {
  if (operations_.empty() && sends_.count == 0 && writes_.count == 0) return;
  const auto to = std::back_inserter(out);
  const double took = seconds(last_ns_ - first_ns_);
  fmt::format_to(to, "\n{:<28} {:>9} {:>10} {:>12} {:>11} {:>11} {:>11}\n", "operation", "count", "data",
                 "data/s", "p50", "p99", "longest");
  const auto rate = [&](std::uint64_t n) {
    return octets(took > 0 ? static_cast<std::uint64_t>(static_cast<double>(n) / took) : 0) + "/s";
  };
  for (const auto& [name, operations] : operations_) {
    fmt::format_to(to, "{:<28} {:>9} {:>10} {:>12} {:>11} {:>11} {:>11}\n", name,
                   operations.latencies.count(), octets(operations.octets), rate(operations.octets),
                   micro(operations.latencies.percentile_us(0.5)),
                   micro(operations.latencies.percentile_us(0.99)),
                   micro(static_cast<double>(operations.longest_ns) / 1000));
  }
  for (const auto& [name, carried] : {std::pair("RDMA Write", writes_), std::pair("Send", sends_)}) {
    if (carried.count == 0) continue;
    fmt::format_to(to, "{:<28} {:>9} {:>10} {:>12}\n", name, carried.count, octets(carried.octets),
                   rate(carried.octets));
  }
}

void Summary::append_findings(std::string& out) const {
  const auto to = std::back_inserter(out);
  if (found_.empty()) {
    if (!streams_.empty()) out += "\nnothing was found wrong\n";
    return;
  }
  std::vector<std::pair<std::string_view, const Found*>> sorted;
  for (const auto& [kind, found] : found_) sorted.emplace_back(kind, &found);
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return std::pair(-static_cast<int>(a.second->severity), a.second->frame) <
           std::pair(-static_cast<int>(b.second->severity), b.second->frame);
  });
  fmt::format_to(to, "\n{:<8} {:<24} {:>7}  first\n", "finding", "", "count");
  for (const auto& [kind, found] : sorted) {
    fmt::format_to(to, "{:<8} {:<24} {:>7}  #{} on stream {}: {}\n", to_string(found->severity), kind,
                   found->count, found->frame, found->stream, found->text);
  }
}

}  // namespace kbtp::trace
