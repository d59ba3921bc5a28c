#include "verbs/facts.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace kbtp::verbs {
namespace {

// As the drivers of Linux 6.1 describe themselves.
DeviceFacts siw() {
  DeviceFacts facts;
  facts.name = "siw0";
  facts.wire = Wire::iwarp;
  facts.vendor_id = 0x626d74;
  facts.part_id = 1;
  facts.memory_management = true;
  facts.ird = facts.ord = 128;
  facts.inline_limit = 80;
  return facts;
}
DeviceFacts rxe() {
  DeviceFacts facts;
  facts.name = "rxe0";
  facts.wire = Wire::roce;
  facts.atomics = true;
  facts.memory_management = true;
  facts.windows_of_type_2 = true;
  facts.ird = facts.ord = 128;
  return facts;
}
DeviceFacts chelsio() {
  DeviceFacts facts = siw();
  facts.name = "cxgb4_0";
  facts.vendor_id = 0x1425;
  return facts;
}

const Use& use(const std::vector<Use>& uses, const std::string& name) {
  return *std::find_if(uses.begin(), uses.end(), [&](const Use& u) { return u.name == name; });
}

TEST(DeviceFacts, SiwPromisesMoreThanItKeeps) {
  const auto c = capabilities_of(siw());
  EXPECT_FALSE(c.invalidate_tx) << "its Send with Invalidate carries STag 0";
  EXPECT_FALSE(c.invalidate_rx) << "it revokes, but does not tell";
  EXPECT_EQ(c.atomics, rdma::Atomics::none);
  EXPECT_FALSE(c.write_immediate);
  EXPECT_FALSE(c.ordered_write_visibility);
  EXPECT_TRUE(c.read_sink_needs_remote_write);
  EXPECT_EQ(c.max_private_data, 251U) << "with 252 its MPA frame says that there is none";
  EXPECT_TRUE(quirks_of(siw()).offset_is_address);
  EXPECT_TRUE(quirks_of(siw()).blames_requests_for_ends);
}

TEST(DeviceFacts, AnotherIwarpDeviceIsTakenAtItsWord) {
  const auto c = capabilities_of(chelsio());
  EXPECT_EQ(c.max_private_data, 252U);
  EXPECT_TRUE(c.invalidate_tx);
  EXPECT_TRUE(c.invalidate_rx);
  EXPECT_FALSE(quirks_of(chelsio()).offset_is_address);
  EXPECT_FALSE(quirks_of(chelsio()).blames_requests_for_ends);
  DeviceFacts without = chelsio();
  without.memory_management = false;
  EXPECT_FALSE(capabilities_of(without).invalidate_tx);
}

TEST(DeviceFacts, RxeHasWhatKbtpOverInfinibandNeeds) {
  const auto c = capabilities_of(rxe());
  EXPECT_TRUE(c.invalidate_tx);
  EXPECT_TRUE(c.invalidate_rx);
  EXPECT_EQ(c.atomics, rdma::Atomics::plain);
  EXPECT_EQ(c.atomic_scope, rdma::AtomicScope::device);
  EXPECT_TRUE(c.write_immediate);
  EXPECT_TRUE(c.ordered_write_visibility);
  EXPECT_FALSE(c.read_sink_needs_remote_write);
  EXPECT_EQ(c.max_private_data, 56U);
  DeviceFacts without = rxe();
  without.windows_of_type_2 = false;
  EXPECT_FALSE(capabilities_of(without).invalidate_rx);
}

TEST(DeviceFacts, DepthsFitTheConnectionManagersOctet) {
  DeviceFacts deep = rxe();
  deep.ird = 16'384;
  deep.ord = 300;
  EXPECT_EQ(capabilities_of(deep).ird, 255U);
  EXPECT_EQ(capabilities_of(deep).ord, 255U);
}

TEST(DeviceFacts, WhatIsNotPossibleHasAReason) {
  DeviceFacts nothing;
  DeviceFacts no_reads = siw();
  no_reads.ird = 0;
  DeviceFacts no_atomics = rxe();
  no_atomics.atomics = false;
  DeviceFacts iwarp_atomics = chelsio();
  iwarp_atomics.atomics = true;
  for (const DeviceFacts& facts : {siw(), rxe(), chelsio(), nothing, no_reads, no_atomics, iwarp_atomics}) {
    const auto uses = uses_of(facts);
    ASSERT_FALSE(uses.empty());
    for (const Use& one : uses) {
      EXPECT_TRUE(one.possible || !one.why.empty()) << facts.name << ": " << one.name;
    }
  }
  EXPECT_TRUE(use(uses_of(rxe()), "DIRECT_ALLOC").possible);
  EXPECT_FALSE(use(uses_of(siw()), "DIRECT_ALLOC").possible);
  EXPECT_FALSE(use(uses_of(iwarp_atomics), "DIRECT_ALLOC").possible) << "9.1 counts with masked FetchAdds";
  EXPECT_TRUE(use(uses_of(rxe()), "RECORD_COMPLETION").possible);
  EXPECT_FALSE(use(uses_of(siw()), "RECORD_COMPLETION").possible);
  EXPECT_FALSE(use(uses_of(no_reads), "operations").possible);
}

}  // namespace
}  // namespace kbtp::verbs
