// The tables and what becomes of findings: catalogue, cases, verdicts, reports.

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

#include "conformance/case.h"
#include "conformance/catalogue.h"
#include "conformance/events.h"
#include "conformance/report.h"
#include "conformance/runner.h"
#include "conformance/session.h"

namespace kbtp::conformance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Check check(Grade grade, std::string rule = "KBTP-6.1-01") {
  return {std::move(rule), "a", {grade, "b", {3}}};
}

TEST(Catalogue, IdsAreUniqueAndRowsAreComplete) {
  std::set<std::string_view> ids;
  for (const Rule& rule : catalogue()) {
    EXPECT_TRUE(ids.insert(rule.id).second) << rule.id;
    for (const std::string_view text : {rule.role, rule.section, rule.text, rule.tested, rule.violation})
      EXPECT_FALSE(text.empty()) << rule.id;
  }
}

TEST(Catalogue, FindsInEitherCaseAndKnowsNeighbours) {
  ASSERT_NE(find_rule("kbtp-6.1-03"), nullptr);
  EXPECT_EQ(find_rule("KBTP-6.1-3"), nullptr);
  EXPECT_EQ(near_rules("KBTP-6.1-3").front(), "KBTP-6.1-03");
}

TEST(Cases, NamesAreUniqueAndRulesAreInTheCatalogue) {
  std::set<std::string_view> names;
  for (const Case& one : cases()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    ASSERT_FALSE(one.rules.empty()) << one.name;
    for (const std::string_view rule : one.rules)
      EXPECT_NE(find_rule(rule), nullptr) << one.name << " " << rule;
  }
}

TEST(Cases, ThoseOfTheLowerLayersNeedARawPeer) {
  for (const Case& one : cases()) {
    EXPECT_TRUE(one.player == Player::raw_peer || one.name.starts_with("kbtp.")) << one.name;
  }
  EXPECT_EQ(find_case("kbtp.load.invalidate")->player, Player::any_peer);
  EXPECT_EQ(find_case("kbtp.store.completes-late")->player, Player::raw_peer);
  EXPECT_EQ(needs_text(*find_case("kbtp.load.unbound")), "-");
  EXPECT_EQ(needs_text(*find_case("mpa.markers")), "raw iWARP peer");
  EXPECT_EQ(needs_text(*find_case("kbtp.record.alone")), "completion records");
}

TEST(Catalogue, HasAllOfKbtpsRulesInTheOrderOfTheDraft) {
  std::vector<std::string_view> kbtp;
  for (const Rule& rule : catalogue()) {
    if (rule.id.starts_with("KBTP-")) kbtp.push_back(rule.id);
  }
  EXPECT_EQ(kbtp.size(), 124U);
  EXPECT_TRUE(std::ranges::is_sorted(kbtp));
}

TEST(Cases, PatternsFitNamesAndRules) {
  const Case& one = *find_case("kbtp.load.unbound");
  EXPECT_TRUE(matches(one, "kbtp.load.*"));
  EXPECT_TRUE(matches(one, "KBTP-6.1-01"));
  EXPECT_FALSE(matches(one, "KBTP-6.1-02"));
  Plan plan;
  plan.only = {"kbtp.load.*"};
  plan.exclude = {"KBTP-6.1-01"};
  for (const Case* selected : select(plan)) EXPECT_NE(selected->name, "kbtp.load.unbound");
  plan.only = {"nothing.*"};
  EXPECT_TRUE(select(plan).empty());
}

TEST(Decide, StatesAreThoseOfTheTable) {
  EXPECT_EQ(decide({check(Grade::exact)}, {}).state, State::pass);
  EXPECT_EQ(decide({check(Grade::exact), check(Grade::weak)}, {}).state, State::pass_weak);
  EXPECT_EQ(decide({check(Grade::weak), check(Grade::wrong)}, {}).state, State::fail);
  EXPECT_EQ(decide({check(Grade::unclear)}, {}).state, State::inconclusive);
  EXPECT_EQ(decide({}, {}).state, State::inconclusive);
}

TEST(Decide, ABrokenShouldIsWeakAndHidesNoBrokenMust) {
  EXPECT_EQ(decide({check(Grade::wrong, "KBTP-9.1-02")}, {}).state, State::pass_weak);
  EXPECT_EQ(decide({check(Grade::wrong, "KBTP-9.1-02"), check(Grade::wrong)}, {}).state, State::fail);
}

TEST(Decide, ARefusalOfWhatIsNotSupportedIsAStateOfItsOwn) {
  EXPECT_EQ(decide({check(Grade::exact), check(Grade::unsupported)}, {}).state, State::unsupported);
  EXPECT_EQ(decide({check(Grade::unsupported), check(Grade::wrong)}, {}).state, State::fail);
}

TEST(Decide, NothingRestsOnATraceWithHoles) {
  const Circumstances holes{.serving = true, .whole = false, .lacking = "3 frames dropped"};
  EXPECT_EQ(decide({check(Grade::wrong)}, holes).state, State::inconclusive);
  EXPECT_EQ(decide({check(Grade::exact)}, holes).why, "3 frames dropped");
}

TEST(Decide, ATargetThatServesNoMorePassesNothing) {
  EXPECT_EQ(decide({check(Grade::exact)}, {.serving = false}).state, State::inconclusive);
  EXPECT_EQ(decide({check(Grade::wrong)}, {.serving = false}).state, State::fail);
}

RunReport report_of(std::initializer_list<State> states, bool strict = false) {
  RunReport run;
  run.strict = strict;
  run.interface = "lo";
  run.target = "<target> & co";
  for (const State state : states) {
    CaseResult result;
    result.about = &cases().front();
    result.state = state;
    result.why = "because \"<x>\" & y";
    result.folder = "folder";
    result.checks = {check(state == State::fail ? Grade::wrong : Grade::exact)};
    run.results.push_back(result);
  }
  return run;
}

TEST(Report, ExitStatusFollowsTheTable) {
  EXPECT_EQ(report_of({State::pass, State::skip}).exit_status(), 0);
  EXPECT_EQ(report_of({State::pass, State::pass_weak}).exit_status(), 0);
  EXPECT_EQ(report_of({State::pass, State::pass_weak}, true).exit_status(), 1);
  EXPECT_EQ(report_of({State::fail, State::setup_error}).exit_status(), 1);
  EXPECT_EQ(report_of({State::pass, State::setup_error}).exit_status(), 3);
  EXPECT_EQ(report_of({State::skip, State::inconclusive}).exit_status(), 3);
}

TEST(Report, KnownDeviationsAreToldInEachForm) {
  RunReport run = report_of({State::expected_fail, State::unexpected_pass});
  run.profile = "p & q";
  run.expectations = "x.expect";
  for (CaseResult& result : run.results) {
    result.deviation = "odd-thing";
    result.reason = "since <always>";
  }
  EXPECT_EQ(run.findings(), 1U);
  EXPECT_THAT(report_html(run), HasSubstr("<code>odd-thing</code>: since &lt;always&gt;"));
  EXPECT_THAT(report_html(run), HasSubstr("Profile p &amp; q. Expectations of x.expect."));
  EXPECT_THAT(report_markdown(run), HasSubstr("Known deviation odd-thing: since <always>"));
  EXPECT_THAT(junit_xml(run), HasSubstr("failures=\"1\" errors=\"0\" skipped=\"1\""));
  EXPECT_THAT(junit_xml(run), HasSubstr("expected-fail (odd-thing)"));
  const auto json = nlohmann::json::parse(report_json(run));
  EXPECT_EQ(json["summary"]["unexpected-pass"], 1);
  EXPECT_EQ(json["cases"][0]["deviation"], "odd-thing");
  EXPECT_EQ(json["profile"], "p & q");
}

TEST(Report, VerdictSaysWhatItWasJudgedFrom) {
  RunReport run = report_of({State::pass});
  auto verdict = nlohmann::json::parse(verdict_json(run, run.results[0]));
  EXPECT_EQ(verdict["judged_from"], "capture");
  EXPECT_EQ(verdict["checks"][0]["frames"], nlohmann::json::array({3}));
  run.interface.clear();
  verdict = nlohmann::json::parse(verdict_json(run, run.results[0]));
  EXPECT_THAT(verdict["judged_from"].get<std::string>(), HasSubstr("record"));
  EXPECT_TRUE(verdict["checks"][0]["frames"].empty()) << "there are no frames to look at";
}

TEST(Report, MarkupIsEscapedAndNeedsNoNetwork) {
  const RunReport run = report_of({State::pass, State::fail, State::skip});
  const std::string html = report_html(run);
  EXPECT_THAT(html, HasSubstr("&lt;target&gt; &amp; co"));
  EXPECT_THAT(html, Not(HasSubstr("<target>")));
  EXPECT_THAT(html, Not(HasSubstr("http")));
  const std::string xml = junit_xml(run);
  EXPECT_THAT(xml, HasSubstr("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""));
  EXPECT_THAT(xml, Not(HasSubstr("<x>")));
}

TEST(EventsFromRecord, TellTheSameAsTheOctets) {
  RecordEntry request{.from = Side::suite, .kind = RecordEntry::Kind::octets};
  request.octets = mpa::encode_startup(enhanced_request());
  auto reply = enhanced_request();
  reply.kind = mpa::StartupKind::reply;
  RecordEntry answer{.from = Side::target, .kind = RecordEntry::Kind::octets};
  answer.octets = mpa::encode_startup(reply);
  RecordEntry fpdu{.from = Side::target, .kind = RecordEntry::Kind::octets};
  fpdu.octets = RawPeer::framed(tagged_ulpdu(rdmap::Opcode::rdma_write, 1, 2, pattern(1, 5)));
  // In two pieces: the event comes with the second.
  RecordEntry half = fpdu;
  half.octets.resize(9);
  fpdu.octets.erase(fpdu.octets.begin(), fpdu.octets.begin() + 9);
  const std::vector<RecordEntry> record = {
      request, answer, half, fpdu, {.from = Side::target, .kind = RecordEntry::Kind::fin}};
  std::vector<Event::Kind> kinds;
  const auto events = events_from_record(record, 4);
  for (const Event& event : events) kinds.push_back(event.kind);
  ASSERT_THAT(kinds, ElementsAre(Event::Kind::setup_frame, Event::Kind::setup_frame, Event::Kind::fpdu,
                                 Event::Kind::fin));
  EXPECT_EQ(events[2].connection, 4U);
  EXPECT_TRUE(events[2].crc_good);
  const auto segment = read_segment(events[2].octets);
  ASSERT_TRUE(segment.has_value());
  EXPECT_EQ(segment->payload.size(), 5U);
}

}  // namespace
}  // namespace kbtp::conformance
