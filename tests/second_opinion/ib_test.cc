// Our InfiniBand decoder against tshark, packet by packet: Linux rxe's captures, and a packet of each
// operation. tshark 4.0 gives no verdict on the ICRC; its value is compared, and rxe's must be good.

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "pcap/capture_file.h"
#include "pcap/test_ib_frames.h"
#include "pcap/trace.h"
#include "second_opinion/tshark.h"

namespace kbtp::second_opinion {
namespace {

using namespace trace::test;

constexpr std::array<std::string_view, 21> kFields{
    "frame.number",
    "infiniband.bth.opcode",
    "infiniband.bth.se",
    "infiniband.bth.m",
    "infiniband.bth.padcnt",
    "infiniband.bth.p_key",
    "infiniband.bth.destqp",
    "infiniband.bth.a",
    "infiniband.bth.psn",
    "infiniband.deth.srcqp",
    "infiniband.reth.va",
    "infiniband.reth.r_key",
    "infiniband.reth.dmalen",
    "infiniband.atomiceth.swapdt",
    "infiniband.atomiceth.cmpdt",
    "infiniband.aeth.syndrome",
    "infiniband.aeth.msn",
    "infiniband.atomicacketh.origremdt",
    "infiniband.immdt",
    "infiniband.ieth",
    "infiniband.invariant.crc",
};

/// Numbers without leading zeros, in base 10; "" for what is not there.
std::string normal(std::string_view field, const std::string& text) {
  if (text.empty()) return text;
  const bool hex = field == "infiniband.immdt" || field == "infiniband.ieth" || text.starts_with("0x");
  return fmt::format("{}", std::stoull(text, nullptr, hex ? 16 : 10));
}

using Rows = std::vector<std::vector<std::string>>;

std::vector<std::string> row_of(const trace::Event& event, const trace::IbPacket& ib) {
  const ib::Packet& p = ib.packet;
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  const auto maybe = [&](const auto& value) { return value ? text(*value) : std::string(); };
  std::vector<std::string> row{text(event.frame.number),
                               text(p.bth.opcode.value),
                               text(int{p.bth.solicited_event}),
                               text(int{p.bth.migration}),
                               text(p.bth.pad_count),
                               text(p.bth.partition_key),
                               text(p.bth.destination_qp),
                               text(int{p.bth.acknowledge_request}),
                               text(p.bth.psn),
                               p.deth ? text(p.deth->source_qp) : "",
                               p.reth ? text(p.reth->virtual_address) : "",
                               p.reth ? text(p.reth->remote_key) : "",
                               p.reth ? text(p.reth->dma_length) : "",
                               p.atomic ? text(p.atomic->swap_or_add) : "",
                               p.atomic ? text(p.atomic->compare) : "",
                               p.aeth ? text(p.aeth->syndrome) : "",
                               p.aeth ? text(p.aeth->msn) : "",
                               maybe(p.atomic_original),
                               maybe(p.immediate),
                               maybe(p.invalidated_key),
                               p.icrc ? text(__builtin_bswap32(*p.icrc)) : ""};
  // tshark has one name for the address and the key of a RETH and of an AtomicETH.
  if (p.atomic) row[10] = text(p.atomic->virtual_address);
  if (p.atomic) row[11] = text(p.atomic->remote_key);
  return row;
}

/// Both opinions of a file; how many packets both see.
std::size_t expect_same(const std::string& path) {
  const auto ours = trace::decode_trace_file(path);
  const auto theirs = ask_tshark_fields(path, "infiniband", kFields);
  EXPECT_TRUE(ours && theirs) << path;
  if (!ours || !theirs) return 0;
  Rows rows;
  for (const trace::Connection& connection : ours->connections) {
    for (const trace::Event& event : connection.events) {
      const auto* ib = event.as<trace::IbPacket>();
      if (ib == nullptr) continue;
      rows.push_back(row_of(event, *ib));
      EXPECT_EQ(ib->icrc, trace::IcrcState::good) << path << " #" << event.frame.number;
    }
  }
  std::ranges::sort(rows, {}, [](const auto& row) { return std::stoull(row.front()); });
  EXPECT_EQ(rows.size(), theirs->size()) << path;
  for (std::size_t i = 0; i < std::min(rows.size(), theirs->size()); ++i) {
    EXPECT_EQ((*theirs)[i].size(), kFields.size());
    for (std::size_t f = 0; f < std::min(kFields.size(), (*theirs)[i].size()); ++f)
      EXPECT_EQ(rows[i][f], normal(kFields[f], (*theirs)[i][f]))
          << path << " #" << rows[i][0] << " " << kFields[f];
  }
  return rows.size();
}

class IbSecondOpinion : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = tshark_missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(IbSecondOpinion, CapturesOfRxe) {
  const char* set = std::getenv("KBTP_SHARED");
  const std::string folder =
      (set != nullptr ? std::string(set) : std::string(KBTP_SOURCE_DIR "/../shared")) + "/captures/rxe";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no captures at " << folder;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".pcap") continue;
    ++files;
    EXPECT_GE(expect_same(entry.path().string()), 40U) << entry.path();
  }
  EXPECT_EQ(files, 6U);
}

TEST_F(IbSecondOpinion, EveryOperation) {
  std::vector<trace::Frame> frames;
  for (const ib::Service service : {ib::Service::reliable_connection, ib::Service::unreliable_connection,
                                    ib::Service::unreliable_datagram}) {
    for (const ib::OperationFacts& facts : ib::kOperations) {
      if (make_opcode(service, facts.operation).facts() == nullptr) continue;
      const Bytes payload = facts.payload ? pattern(6) : Bytes();
      ib::Packet packet =
          ib_packet(facts.operation, 0xABCDEF, static_cast<std::uint32_t>(frames.size()), payload, service);
      packet.bth.acknowledge_request = frames.size() % 2 == 0;
      packet.bth.solicited_event = frames.size() % 3 == 0;
      Bytes octets = roce(packet, v4(1, 0), v4(2, 0));
      frames.push_back(trace::Frame{frames.size() + 1, 0, trace::LinkType::ethernet,
                                    static_cast<std::uint32_t>(octets.size()), std::move(octets)});
    }
  }
  const auto path = std::filesystem::temp_directory_path() /
                    ("kbtp-second-opinion-" + std::to_string(::getpid()) + "-ib.pcap");
  ASSERT_TRUE(trace::write_capture(path.string(), frames));
  EXPECT_EQ(expect_same(path.string()), frames.size());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kbtp::second_opinion
