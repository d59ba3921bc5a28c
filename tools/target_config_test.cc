#include "tools/target_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kbtp::tools {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(std::string_view text) {
  const auto settings = parse_target_config(text, "t.toml");
  return settings ? "" : settings.error().text;
}

TEST(TargetConfig, AnEmptyFileIsTheDefaults) {
  const auto settings = parse_target_config("", "t.toml");
  ASSERT_TRUE(settings) << settings.error().text;
  EXPECT_EQ(settings->target.blocks, target::TargetConfig{}.blocks);
  EXPECT_EQ(settings->network, Network::unsaid);
  EXPECT_FALSE(settings->listen);
  EXPECT_TRUE(settings->rnic.crc) << "off only by an explicit option (G-50)";
}

TEST(TargetConfig, ReadsEveryKey) {
  const auto settings = parse_target_config(R"(
listen = "[::1]:7420"
metrics = "127.0.0.1:9420"
transport = "rdmap"
network = "trusted"
blocks = 8192
block_size = 4096
handles = 9000
table_base_handle = 100
reserve = 128
max_inline = 512
max_requests = 32
max_sessions = 8
ird = 4
ord = 5
crc = false
spin = true
loops = 2
congestion_control = "reno"

[deadlines]
hello = 1
allocation = 2.5
read = 3
send = 4
setup = 5
linger = 6

[anonymous]
accept = true
accept_unknown_identity = false
trust_domain = "guests"
max_quota = 7
max_handles = 9

[direct]
ticket_timeout_ms = 2500
abandonment = "invalidate_partition"

[[initiator]]
identity = "123e4567-e89b-12d3-a456-426614174000"
address = "192.0.2.7"
trust_domain = "red"
quota = 10
handles = 20
base_handle = 500
direct_load = true
direct_alloc = true

[[initiator]]
identity = "123e4567-e89b-12d3-a456-426614174001"
address = "2001:db8::7"
quota = 3
)",
                                            "t.toml");
  ASSERT_TRUE(settings) << settings.error().text;
  EXPECT_EQ(settings->listen->to_string(), "[::1]:7420");
  EXPECT_EQ(settings->metrics->to_string(), "127.0.0.1:9420");
  EXPECT_EQ(settings->network, Network::trusted);
  EXPECT_TRUE(settings->handles_given);
  EXPECT_FALSE(settings->rnic.crc);
  EXPECT_TRUE(settings->rnic.spin);
  EXPECT_EQ(settings->rnic.loops, 2U);
  EXPECT_EQ(settings->rnic.congestion_control, "reno");
  const target::TargetConfig& target = settings->target;
  EXPECT_EQ(target.blocks, 8192U);
  EXPECT_EQ(target.block_size, 4096U);
  EXPECT_EQ(target.handles, 9000U);
  EXPECT_EQ(target.table_base_handle, 100U);
  EXPECT_EQ(target.reserve, 128U);
  EXPECT_EQ(target.max_inline, 512U);
  EXPECT_EQ(target.max_requests, 32U);
  EXPECT_EQ(target.max_sessions, 8U);
  EXPECT_EQ(target.ird, 4U);
  EXPECT_EQ(target.ord, 5U);
  EXPECT_EQ(target.deadlines.hello, std::chrono::seconds(1));
  EXPECT_EQ(target.deadlines.allocation, std::chrono::milliseconds(2500));
  EXPECT_EQ(target.deadlines.linger, std::chrono::seconds(6));
  EXPECT_FALSE(target.anonymous.accept_unknown_identity);
  EXPECT_EQ(target.anonymous.domain, "guests");
  EXPECT_EQ(target.anonymous.max_quota, 7U);
  EXPECT_EQ(target.anonymous.max_handles, 9U);
  EXPECT_EQ(target.direct.ticket_timeout, std::chrono::milliseconds(2500));
  EXPECT_EQ(target.direct.abandonment, target::Abandonment::invalidate_partition);
  ASSERT_EQ(target.initiators.size(), 2U);
  EXPECT_EQ(target.initiators[0].identity.to_string(), "123e4567-e89b-12d3-a456-426614174000");
  EXPECT_EQ(target.initiators[0].address, "192.0.2.7");
  EXPECT_EQ(target.initiators[0].domain, "red");
  EXPECT_EQ(target.initiators[0].quota, 10U);
  EXPECT_EQ(target.initiators[0].handles, 20U);
  EXPECT_EQ(target.initiators[0].base_handle, 500U);
  EXPECT_TRUE(target.initiators[0].direct_load);
  EXPECT_TRUE(target.initiators[0].direct_alloc);
  EXPECT_EQ(target.initiators[1].handles, 3U) << "as many as the quota unless said otherwise";
  EXPECT_EQ(target.initiators[1].base_handle, std::nullopt);
}

TEST(TargetConfig, MistakesNameFileLineAndKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"\ncolour = 1", "t.toml:2: 'colour' is no key of this table"},
      {"[deadlines]\nhallo = 1", "t.toml:2: 'deadlines.hallo' is no key of this table"},
      {"[anonymous]\nquota = 1", "t.toml:2: 'anonymous.quota' is no key of this table"},
      {"blocks = \"many\"", "t.toml:1: 'blocks' must be a whole number from 1 to"},
      {"blocks = 0", "t.toml:1: 'blocks' must be a whole number from 1 to"},
      {"blocks = -1", "t.toml:1: 'blocks' must be a whole number from 1 to"},
      {"blocks = 1.0", "t.toml:1: 'blocks' must be a whole number from 1 to"},
      {"crc = 1", "t.toml:1: 'crc' must be true or false"},
      {"listen = 7420", "t.toml:1: 'listen' must be a string"},
      {"listen = \"::1:7420\"", "an IPv6 address stands in brackets"},
      {"transport = \"tcp\"", "t.toml:1: 'transport' must be \"rdmap\" or \"verbs\""},
      {"network = \"friendly\"", "t.toml:1: 'network' must be \"trusted\" or \"untrusted\""},
      {"deadlines = 5", "t.toml:1: 'deadlines' must be a table"},
      {"[deadlines]\nsend = 0", "t.toml:2: 'deadlines.send' must be a number of seconds above 0"},
      {"initiator = 5", "t.toml:1: 'initiator' must be given as [[initiator]]"},
      {"blocks = 1\nblocks = 2", "t.toml:2: "},
      {"blocks = ", "t.toml:1: "},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(error_of(text), HasSubstr(expected)) << text;
    EXPECT_THAT(error_of(text), StartsWith("t.toml:")) << text;
  }
}

std::string initiator(std::string_view keys) {
  return "[[initiator]]\nidentity = \"123e4567-e89b-12d3-a456-426614174000\"\naddress = \"192.0.2.7\"\n" +
         std::string(keys);
}

TEST(TargetConfig, InitiatorsNeedIdentityAndWhatProvesIt) {
  EXPECT_EQ(error_of(initiator("")), "");
  EXPECT_THAT(error_of("[[initiator]]\naddress = \"192.0.2.7\""),
              HasSubstr("'initiator.identity' is missing"));
  EXPECT_THAT(error_of("[[initiator]]\nidentity = \"123e4567-e89b-12d3-a456-426614174000\""),
              HasSubstr("'initiator.address' is missing"));
  EXPECT_THAT(error_of("[[initiator]]\nidentity = \"7\"\naddress = \"192.0.2.7\""), HasSubstr("no UUID"));
  EXPECT_THAT(
      error_of("[[initiator]]\nidentity = \"00000000-0000-0000-0000-000000000000\"\naddress = \"192.0.2.7\""),
      HasSubstr("must not be all zero"));
  EXPECT_THAT(
      error_of("[[initiator]]\nidentity = \"123e4567-e89b-12d3-a456-426614174000\"\naddress = \"host\""),
      HasSubstr("'initiator.address' must be an IPv4 or IPv6 address"));
  EXPECT_THAT(error_of(initiator("quota = 3\nhandles = 0")), HasSubstr("must be at least 1"));
  EXPECT_THAT(error_of(initiator("colour = 3")), HasSubstr("t.toml:4: 'initiator.colour' is no key"));
  EXPECT_THAT(error_of(initiator("") + initiator("")), HasSubstr("t.toml:4: this identity is named twice"));
}

TEST(TargetConfig, DirectModes) {
  const auto settings = parse_target_config(initiator("quota = 4\ndirect_alloc = true"), "t.toml");
  ASSERT_TRUE(settings) << settings.error().text;
  EXPECT_TRUE(settings->target.initiators[0].direct_alloc);
  EXPECT_FALSE(settings->target.initiators[0].direct_load) << "a mode is granted by its own key only";
  EXPECT_EQ(settings->target.direct.ticket_timeout, std::chrono::seconds(10));
  EXPECT_EQ(settings->target.direct.abandonment, target::Abandonment::end_connection);
  EXPECT_EQ(error_of(initiator("direct_load = true")), "");
  EXPECT_THAT(error_of(initiator("direct_alloc = true")),
              HasSubstr("t.toml:4: 'initiator.direct_alloc' needs a quota"));
  EXPECT_THAT(error_of("[direct]\nticket_timeout_ms = 0"),
              HasSubstr("t.toml:2: 'direct.ticket_timeout_ms' must be a whole number from 10"));
  EXPECT_THAT(error_of("[direct]\nabandonment = \"never\""),
              HasSubstr("t.toml:2: 'direct.abandonment' must be \"end_connection\""));
}

}  // namespace
}  // namespace kbtp::tools
