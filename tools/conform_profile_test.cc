// Profiles: what a file may say, and what is said of one that is wrong.

#include "tools/conform_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kbtp::tools {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view text) {
  const auto profile = parse_profile(text, "x.profile");
  return profile ? "" : profile.error().text;
}

TEST(Profile, SaysWhatTheTargetIsLike) {
  const auto profile = parse_profile(R"(
name = "mine"
patience_ms = 9000

[identities]
first = "6b627470-0000-4000-8000-000000000001"
second = "6b627470-0000-4000-8000-000000000002"

[target]
quota = 2

[allowances]
pause_after_reply_ms = 60
whole_trailers = true
swapped_terminates = true

[assignment.opcodes]
LOAD = 0x30
[assignment.statuses]
NO_SPACE = 77
[assignment.completion]
block_offset = 32
length = 40
)",
                                     "x.profile");
  ASSERT_TRUE(profile.has_value()) << profile.error().text;
  EXPECT_EQ(profile->name, "mine");
  EXPECT_EQ(profile->allowances.patience, std::chrono::seconds(9));
  EXPECT_EQ(profile->allowances.pause_after_reply, std::chrono::milliseconds(60));
  EXPECT_TRUE(profile->allowances.whole_trailers && profile->allowances.swapped_terminates);
  EXPECT_EQ(profile->quota, 2U);
  EXPECT_FALSE(profile->handles.has_value());
  EXPECT_FALSE(profile->identities.first.is_zero());
  EXPECT_TRUE(profile->identities.untrusted.is_zero());
  EXPECT_EQ(profile->assignment.code(wire::Opcode::load), 0x30);
  EXPECT_EQ(profile->assignment.code(wire::Status::no_space), 77);
  EXPECT_EQ(profile->assignment.completion, wire::kPaddedCompletion);
  EXPECT_EQ(profile->assignment.hello, wire::kProposed.hello);
}

TEST(Profile, AllowsNothingUnlessItSaysSo) {
  const auto profile = parse_profile("name = \"plain\"", "x.profile");
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->assignment, wire::kProposed);
  EXPECT_EQ(profile->allowances.pause_after_reply, Duration{});
  EXPECT_FALSE(profile->allowances.whole_trailers || profile->allowances.swapped_terminates);
}

TEST(Profile, MistakesAreToldWithTheirLine) {
  EXPECT_THAT(error_of(""), HasSubstr("'name' is missing"));
  EXPECT_THAT(error_of("name = \"x\"\n[allowance]\n"), HasSubstr("x.profile:2: 'allowance' is no key"));
  EXPECT_THAT(error_of("name = \"x\"\n[assignment.opcodes]\nLAOD = 1\n"),
              HasSubstr("x.profile:3: 'assignment.opcodes.LAOD' is no key"));
  EXPECT_THAT(error_of("name = \"x\"\n[assignment.opcodes]\nLOAD = 4\n"), HasSubstr("cannot be worked with"));
  EXPECT_THAT(error_of("name = \"x\"\n[identities]\nfirst = \"6b627470\"\n"), HasSubstr("must be a UUID"));
  EXPECT_THAT(error_of("name = \"x\"\n[identities]\nfirst = \"6b627470-0000-4000-8000-000000000001\"\n"),
              HasSubstr("'identities.second' is missing"));
  EXPECT_THAT(error_of("name = "), HasSubstr("x.profile:1"));
}

}  // namespace
}  // namespace kbtp::tools
