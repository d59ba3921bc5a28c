// --expect: its file, and what becomes of a result when it is compared.

#include "conformance/expected.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kbtp::conformance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kUnbound = "kbtp.load.unbound";
constexpr const char* kRule = "KBTP-6.1-01";

ExpectedOutcomes parsed(std::string_view text) {
  auto outcomes = ExpectedOutcomes::parse(text, "x.expect");
  EXPECT_TRUE(outcomes.has_value()) << (outcomes ? "" : outcomes.error().text);
  return outcomes.value_or(ExpectedOutcomes{});
}

std::string error_of(std::string_view text) {
  const auto outcomes = ExpectedOutcomes::parse(text, "x.expect");
  return outcomes ? "" : outcomes.error().text;
}

CaseResult result_of(State state, std::initializer_list<Check> checks = {}) {
  CaseResult result;
  result.about = find_case(kUnbound);
  result.state = state;
  result.checks = checks;
  result.why = "why";
  return result;
}

Check check(Grade grade, std::string rule = kRule) { return {std::move(rule), "a", {grade, "b", {3}}}; }

State compared(State state, std::string_view text, std::initializer_list<Check> checks = {}) {
  CaseResult result = result_of(state, checks);
  const ExpectedOutcomes expected = parsed(text);
  compare(result, expected.find(kUnbound));
  return result.state;
}

constexpr std::string_view kFail = "kbtp.load.unbound fail loads-anything KBTP-6.1-01 # it is old\n";

TEST(ExpectedFile, EntriesAreReadSortedAndWrittenBack) {
  const ExpectedOutcomes outcomes = parsed(
      "# a remark\n\n"
      "  mpa.request.enhanced   pass-weak|fail  plain-reply  RFC6581-10-01\r\n"
      "kbtp.load.unbound fail loads-anything KBTP-6.1-01,KBTP-6.1-02 # it is old\n"
      "mpa.crc-error inconclusive no-crc\n");
  ASSERT_EQ(outcomes.entries().size(), 3U);
  const ExpectedOutcome& first = outcomes.entries()[0];
  EXPECT_EQ(first.name, kUnbound);
  EXPECT_THAT(first.states, ElementsAre(State::fail));
  EXPECT_EQ(first.deviation, "loads-anything");
  EXPECT_THAT(first.rules, ElementsAre("KBTP-6.1-01", "KBTP-6.1-02"));
  EXPECT_EQ(first.reason, "it is old");
  EXPECT_THAT(outcomes.entries()[2].states, ElementsAre(State::pass_weak, State::fail));
  const std::string text = outcomes.to_text("first\nsecond");
  EXPECT_THAT(text, HasSubstr("# first\n# second\n"));
  EXPECT_EQ(parsed(text).to_text("first\nsecond"), text);
}

TEST(ExpectedFile, MistakesAreToldWithTheirLine) {
  EXPECT_THAT(error_of("\nno.such.case fail x KBTP-6.1-01"), HasSubstr("x.expect:2: there is no case"));
  EXPECT_THAT(error_of("kbtp.load.unbound fails x KBTP-6.1-01"), HasSubstr("no state"));
  EXPECT_THAT(error_of("kbtp.load.unbound expected-fail x KBTP-6.1-01"), HasSubstr("no state"));
  EXPECT_THAT(error_of("kbtp.load.unbound fail x KBTP-6.1-99"), HasSubstr("no rule"));
  EXPECT_THAT(error_of("kbtp.load.unbound fail x"), HasSubstr("needs the rules"));
  EXPECT_THAT(error_of("kbtp.load.unbound fail"), HasSubstr("CASE STATE DEVIATION"));
  EXPECT_THAT(error_of("kbtp.load.unbound fail x KBTP-6.1-01 y"), HasSubstr("'y'"));
  EXPECT_THAT(error_of(std::string(kFail) + std::string(kFail)), HasSubstr("x.expect:2"));
}

TEST(Compare, WithoutAnEntryNothingChanges) {
  EXPECT_EQ(compared(State::fail, "", {check(Grade::wrong)}), State::fail);
  EXPECT_EQ(compared(State::pass, ""), State::pass);
}

TEST(Compare, AForetoldFailIsNoFinding) {
  CaseResult result = result_of(State::fail, {check(Grade::wrong)});
  const ExpectedOutcomes expected = parsed(kFail);
  compare(result, expected.find(kUnbound));
  EXPECT_EQ(result.state, State::expected_fail);
  EXPECT_EQ(result.deviation, "loads-anything");
  EXPECT_EQ(result.reason, "it is old");
}

TEST(Compare, AnotherRuleThatIsBrokenStandsOut) {
  EXPECT_EQ(compared(State::fail, kFail, {check(Grade::wrong), check(Grade::wrong, "KBTP-6.1-02")}),
            State::fail);
  EXPECT_EQ(compared(State::fail, kFail, {check(Grade::wrong), check(Grade::exact, "KBTP-6.1-02")}),
            State::expected_fail);
}

TEST(Compare, APassWhereNoneWasForetoldIsAFinding) {
  EXPECT_EQ(compared(State::pass, kFail), State::unexpected_pass);
  EXPECT_EQ(compared(State::pass_weak, kFail), State::unexpected_pass);
  EXPECT_EQ(compared(State::pass, "kbtp.load.unbound pass-weak x KBTP-6.1-01"), State::unexpected_pass);
  EXPECT_EQ(compared(State::pass, "kbtp.load.unbound fail|pass x KBTP-6.1-01"), State::pass);
  EXPECT_EQ(compared(State::fail, "kbtp.load.unbound pass-weak x KBTP-6.1-01", {check(Grade::wrong)}),
            State::fail);
}

TEST(Compare, WhatWasNotDecidedStaysSo) {
  for (const State state : {State::skip, State::inconclusive, State::setup_error, State::unsupported})
    EXPECT_EQ(compared(state, kFail), state);
}

RunReport run_of(CaseResult result) {
  RunReport run;
  run.results.push_back(std::move(result));
  return run;
}

TEST(Compare, ExpectedOutcomesMakeNoFindingAndNoSetUpError) {
  const ExpectedOutcomes fails = parsed(kFail);
  CaseResult result = result_of(State::fail, {check(Grade::wrong)});
  compare(result, fails.find(kUnbound));
  EXPECT_EQ(run_of(result).exit_status(), 0);
  result = result_of(State::pass);
  compare(result, fails.find(kUnbound));
  EXPECT_EQ(run_of(result).exit_status(), 1);
  const ExpectedOutcomes setup = parsed("kbtp.load.unbound setup-error no-session\n");
  RunReport run = run_of(result_of(State::pass));
  run.results.push_back(result_of(State::setup_error));
  EXPECT_EQ(run.exit_status(), 3);
  compare(run.results[1], setup.find(kUnbound));
  EXPECT_EQ(run.exit_status(), 0);
}

TEST(WriteExpect, WhatIsWrittenIsAsExpectedNextTime) {
  const CaseResult fresh = result_of(State::fail, {check(Grade::wrong), check(Grade::exact, "KBTP-6.1-02")});
  const ExpectedOutcomes written = expectations_from(run_of(fresh), {});
  ASSERT_EQ(written.entries().size(), 1U);
  EXPECT_THAT(written.entries()[0].rules, ElementsAre(kRule));
  EXPECT_EQ(written.entries()[0].deviation, "unnamed");
  CaseResult again = fresh;
  const ExpectedOutcomes read = parsed(written.to_text("x"));
  compare(again, read.find(kUnbound));
  EXPECT_EQ(again.state, State::expected_fail);
}

TEST(WriteExpect, NamesStayAndStaleEntriesGo) {
  const ExpectedOutcomes before = parsed(std::string(kFail) + "mpa.crc-error fail no-crc RFC5044-4.4-11\n");
  CaseResult result = result_of(State::fail, {check(Grade::wrong), check(Grade::wrong, "KBTP-6.1-02")});
  compare(result, before.find(kUnbound));
  const ExpectedOutcomes grown = expectations_from(run_of(result), before);
  ASSERT_NE(grown.find(kUnbound), nullptr);
  EXPECT_EQ(grown.find(kUnbound)->deviation, "loads-anything");
  EXPECT_THAT(grown.find(kUnbound)->rules, ElementsAre(kRule, "KBTP-6.1-02"));
  EXPECT_NE(grown.find("mpa.crc-error"), nullptr) << "was not played";
  result = result_of(State::pass);
  compare(result, before.find(kUnbound));
  EXPECT_EQ(expectations_from(run_of(result), before).find(kUnbound), nullptr);
}

TEST(WriteExpect, RoundsThatDifferAreAllExpected) {
  RunReport run = run_of(result_of(State::fail, {check(Grade::wrong)}));
  run.results.push_back(result_of(State::pass, {check(Grade::exact)}));
  EXPECT_THAT(expectations_from(run, {}).find(kUnbound)->states, ElementsAre(State::fail, State::pass));
}

}  // namespace
}  // namespace kbtp::conformance
