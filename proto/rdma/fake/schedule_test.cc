// Every order of a few events: that all of them are met, and what a completion record read early says (6.5).

#include "proto/rdma/fake/schedule.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "proto/rdma/fake/fabric.h"

namespace kbtp::fake {
namespace {

struct Peer : rdma::StreamHandler {
  void on_open(rdma::Stream& opened, Octets) override { stream = &opened; }
  void on_received(const rdma::Received&) override { ++received; }
  void on_completion(const rdma::Completion&) override { ++completed; }
  void on_closed(const rdma::CloseReason&) override { closed = true; }
  rdma::Stream* stream = nullptr;
  int received = 0;
  int completed = 0;
  bool closed = false;
};

/// A LOAD's end as a target makes it: the data, then the record. The reader looks after each event.
class Load {
 public:
  Load(Rules rules, Schedule& schedule, std::size_t octets = 2)
      : data(octets),
        ones_(octets, std::byte{1}),
        schedule_(schedule),
        fabric_({.rules = rules, .max_pieces = 2, .schedule = &schedule}) {
    const HostOptions options = rules == Rules::infiniband ? infiniband_host() : HostOptions{};
    auto& initiator = fabric_.add_host(options);
    auto& target = fabric_.add_host(options);
    listener_ = std::move(*target.listen(
        fabric_.address(1, 1), [this](const auto&, rdma::Loop&) { return rdma::Accept{&target_, {}}; }));
    initiator.connect(fabric_.address(1, 1), 0, {}, initiator_);
    fabric_.run_until([this] { return initiator_.stream != nullptr && target_.stream != nullptr; });
    fabric_.run_for(std::chrono::seconds(1));
    const auto expose = [&](std::span<std::byte> memory) {
      const auto region = initiator_.stream->register_region({memory, rdma::Access::remote_write});
      return rdma::RemoteBuffer{region->stag, region->tagged_offset};
    };
    data_there_ = expose(data);
    record_there_ = expose(record);
  }
  ~Load() {
    target_.stream->abort("the test is over");
    fabric_.run_until([this] { return initiator_.closed && target_.closed; });
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  [[nodiscard]] rdma::Write data_write() const { return {0, ones_, data_there_, nullptr}; }
  [[nodiscard]] rdma::Write record_write() const {
    return {1, Octets(ones_).first(1), record_there_, nullptr};
  }
  /// `look` runs after each event until it returns false or nothing is left to happen.
  template <class Look>
  void run(std::vector<rdma::WorkRequest> requests, Look look) {
    const std::size_t count = requests.size();
    target_.stream->post(std::move(requests));
    schedule_.begin();
    while (look() && !(all_placed() && target_.completed == static_cast<int>(count)) && fabric_.step()) {
    }
    schedule_.end();
  }
  [[nodiscard]] bool data_placed() const { return data == ones_; }
  [[nodiscard]] bool record_placed() const { return record.front() == std::byte{1}; }
  [[nodiscard]] bool all_placed() const { return data_placed() && record_placed(); }
  [[nodiscard]] int received() const { return initiator_.received; }

  std::vector<std::byte> data;
  std::vector<std::byte> record = std::vector<std::byte>(1);

 private:
  std::vector<std::byte> ones_;
  Schedule& schedule_;
  Fabric fabric_;
  Peer initiator_, target_;
  std::unique_ptr<rdma::Listener> listener_;
  rdma::RemoteBuffer data_there_, record_there_;
};

std::vector<rdma::WorkRequest> data_then_record(const Load& load, bool immediate) {
  std::vector<rdma::WorkRequest> requests;
  requests.emplace_back(load.data_write());
  if (immediate) {
    requests.emplace_back(rdma::WriteImmediate{load.record_write(), 1, false});
  } else {
    requests.emplace_back(load.record_write());
  }
  return requests;
}

/// All that a reader of memory can come to see, one view after the other: the data's octets, and the record.
std::set<std::string> views(Rules rules, std::size_t octets, bool record, Tell tell, Explored& explored) {
  std::set<std::string> seen;
  explored = explore(500'000, tell, [&](Schedule& schedule) {
    Load load(rules, schedule, octets);
    auto requests = data_then_record(load, false);
    if (!record) requests.pop_back();
    std::string view;
    load.run(std::move(requests), [&] {
      std::string now;
      for (const std::byte octet : load.data) now += octet == std::byte{1} ? '1' : '0';
      if (record) now += load.record_placed() ? '1' : '0';
      if (!view.ends_with(now)) view += " " + now;
      return true;
    });
    if (!schedule.abandoned()) seen.insert(view);
    return std::optional<std::string>();
  });
  EXPECT_TRUE(explored.all);
  return seen;
}

// What is left out is nothing that a reader could tell: with and without it the same views come out.
TEST(Schedules, OrdersThatAreLeftOutShowNothingNew) {
  Explored reduced;
  Explored every;
  const auto some = views(Rules::rdmap, 2, false, Tell::watched_memory, reduced);
  const auto all = views(Rules::rdmap, 2, false, Tell::every_order, every);
  std::cout << "a Write in two pieces: " << every.orders << " orders, " << reduced.orders
            << " of them tell all\n";
  EXPECT_EQ(some, all);
  EXPECT_LT(reduced.orders, every.orders);
  EXPECT_EQ(all, (std::set<std::string>{" 00 01 11", " 00 10 11"}));
}

TEST(Schedules, EveryViewOfTwoWritesIsMet) {
  Explored explored;
  EXPECT_EQ(views(Rules::rdmap, 1, true, Tell::watched_memory, explored),
            (std::set<std::string>{" 00 01 11", " 00 10 11"}));
  // One may bring the other with it.
  EXPECT_EQ(views(Rules::infiniband, 1, true, Tell::watched_memory, explored),
            (std::set<std::string>{" 00 10 11", " 00 11"}));
}

Explored read_early(Rules rules) {
  return explore(500'000, Tell::watched_memory, [&](Schedule& schedule) -> std::optional<std::string> {
    Load load(rules, schedule);
    bool stale = false;
    load.run(data_then_record(load, false), [&] {
      stale = stale || (load.record_placed() && !load.data_placed());
      return !stale;
    });
    if (stale) return "the record is there and the data is not";
    return std::nullopt;
  });
}

TEST(CompletionRecordReadEarly, Kbtp_6_5_05_IsStaleUnderRdmapsRules) {
  EXPECT_EQ(read_early(Rules::rdmap).wrong, "the record is there and the data is not");
}

TEST(CompletionRecordReadEarly, Kbtp_6_5_05_IsNeverStaleUnderInfiniBands) {
  const Explored explored = read_early(Rules::infiniband);
  EXPECT_EQ(explored.wrong, "");
  EXPECT_TRUE(explored.all);
  std::cout << explored.orders << " orders\n";
}

// Who waits for the receive that an immediate uses up is safe with both: what RDMAP lacks is the reader's
// patience.
TEST(CompletionRecordAwaited, Kbtp_9_2_03_IsRightUnderBoth) {
  for (const Rules rules : {Rules::rdmap, Rules::infiniband}) {
    const Explored explored =
        explore(500'000, Tell::watched_memory, [&](Schedule& schedule) -> std::optional<std::string> {
          Load load(rules, schedule);
          bool wrong = false;
          load.run(data_then_record(load, true), [&] {
            wrong = wrong || (load.received() > 0 && !load.all_placed());
            return !wrong;
          });
          if (wrong) return "the immediate is there and the data is not";
          return std::nullopt;
        });
    EXPECT_EQ(explored.wrong, "");
    EXPECT_TRUE(explored.all);
    EXPECT_GT(explored.orders, 10u);
  }
}

}  // namespace
}  // namespace kbtp::fake
