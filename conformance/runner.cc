#include "conformance/runner.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <set>
#include <thread>

#include "conformance/catalogue.h"
#include "conformance/events.h"
#include "pcap/capture_file.h"
#include "pcap/live_capture.h"

namespace kbtp::conformance {

namespace {

constexpr int kAttempts = 3;
constexpr Duration kRevival = std::chrono::seconds(60);

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

double seconds_since(TimePoint start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The control exchange of a case: a session of its own that stores, loads and frees one block. It asks for
/// as little as it can, so that it fails only when the target does not serve.
struct Control {
  std::unique_ptr<Session> session;
  std::vector<Expectation> expectations;
  std::string why;
};

Control play_control(const Surroundings& surroundings, ConnectionIndex index,
                     const Scene::OnBound& on_bound) {
  Control control;
  control.session =
      std::make_unique<Session>(make_peer(surroundings), index, surroundings.profile.assignment);
  Session& session = *control.session;
  if (!session.peer().open(on_bound)) {
    control.why = session.peer().trouble();
    return control;
  }
  if (!session.open({.quota = 1, .handles = 1, .small_ids = true})) {
    control.why = session.why();
    return control;
  }
  const auto data = pattern(99, 64);
  ExposedBuffer& buffer = session.peer().expose(data.size());
  std::ranges::copy(data, buffer.octets().begin());
  const RequestId stored = session.ack().max_inline >= data.size()
                               ? session.alloc_store(session.handle(0), Octets(data), {.seal = true})
                               : session.alloc_store(session.handle(0), buffer, {.seal = true});
  session.await(stored);
  const ExposedBuffer& sink = session.peer().expose(data.size());
  const RequestId loaded = session.load(session.handle(0), sink, sink.size(), {.allow_unsealed = true});
  session.await(loaded);
  const RequestId freed = session.free(session.handle(0));
  session.await(freed);
  control.expectations = {opens_session("control", index),
                          completes("control", index, stored, wire::Status::success),
                          completes("control", index, loaded, wire::Status::success),
                          places("control", index, sink.stag, sink.tagged_offset, data),
                          completes("control", index, freed, wire::Status::success)};
  return control;
}

/// Whether the control exchange worked, judged from the same evidence as the case; else the first fault.
std::string fault_of(const Control& control, const Evidence& evidence) {
  if (!control.why.empty()) return control.why;
  for (const Expectation& expectation : control.expectations) {
    const Finding finding = expectation.judge(evidence);
    if (finding.grade != Grade::exact) return finding.observed;
  }
  return "";
}

std::string filter_for(const CaseResult& result, std::size_t case_connections, bool roce) {
  std::vector<std::string> ports;
  for (std::size_t i = 0; i < case_connections && i < result.ports.size(); ++i)
    ports.push_back(fmt::format("tcp.port == {}", result.ports[i]));
  if (ports.empty()) return "";
  std::string filter = ports.size() == 1 ? ports[0] : fmt::format("({})", fmt::join(ports, " or "));
  if (roce) filter = "infiniband";
  std::set<std::uint64_t> frames;
  for (const Check& check : result.checks)
    frames.insert(check.finding.frames.begin(), check.finding.frames.end());
  frames.erase(0);
  if (!frames.empty()) filter += fmt::format(" and frame.number in {{{}}}", fmt::join(frames, ", "));
  return filter;
}

class Runner {
 public:
  Runner(const Plan& plan, std::unique_ptr<trace::LiveCapture> capture, std::uint32_t max_inline)
      : plan_(plan),
        capture_(std::move(capture)),
        max_inline_(max_inline),
        surroundings_{.target = plan.target, .profile = plan.profile, .provider = plan.provider} {}

  CaseResult run(const Case& one) {
    const TimePoint start = Clock::now();
    CaseResult result;
    result.about = &one;
    if (const std::string lacks = what_lacks(one); !lacks.empty()) {
      result.state = State::skip;
      result.why = lacks;
    } else {
      // A capture that has lost frames says nothing, and the next one may lose none.
      for (int attempt = 0; attempt < kAttempts; ++attempt) {
        result = {};
        result.about = &one;
        if (play(one, result)) break;
      }
    }
    result.seconds = seconds_since(start);
    if (!serving_ && plan_.revive) revive();
    return result;
  }

  [[nodiscard]] std::uint64_t dropped() const { return capture_ ? capture_->dropped() : 0; }
  [[nodiscard]] const std::vector<trace::Frame>& last_frames() const { return trace_.frames; }

 private:
  void revive() {
    plan_.revive();
    const TimePoint deadline = Clock::now() + kRevival;
    while (!serving_ && Clock::now() < deadline) {
      serving_ = play_control(surroundings_, 0, [](const SocketAddress&) {}).why.empty();
      if (!serving_) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }

  std::string what_lacks(const Case& one) const {
    if (one.player == Player::raw_peer && plan_.provider != nullptr)
      return "the case needs a raw iWARP peer, and this run speaks through an RDMA device";
    switch (one.needs) {
      case Capability::none:
        return "";
      case Capability::inline_data:
        return max_inline_ >= 2048 ? "" : "the target takes less than 2,048 octets INLINE";
      case Capability::identities:
        return plan_.profile.identities.first.is_zero() ? "the target is not known to have named initiators"
                                                        : "";
      case Capability::foreign_domain:
        return plan_.profile.identities.foreign.is_zero()
                   ? "the target is not known to have a second trust domain"
                   : "";
      case Capability::untrusted:
        return plan_.profile.identities.untrusted.is_zero()
                   ? "no identity is known that the target knows and the suite cannot prove"
                   : "";
      case Capability::records:
        return plan_.provider == nullptr ? "RDMAP has no completion records, and this run speaks it" : "";
    }
    return "";
  }

  /// False when the capture has lost frames.
  bool play(const Case& one, CaseResult& result) {
    trace_ = {};
    std::unique_ptr<trace::CaseCapture> capturing = capture_ ? capture_->begin_case() : nullptr;
    const Scene::OnBound on_bound = [&](const SocketAddress& local) {
      result.ports.push_back(local.port());
      if (capturing && local.length() != 0) capturing->add_local(local);
    };
    Scene scene(surroundings_, on_bound);
    one.play(scene);
    for (Session& session : scene.sessions()) session.peer().close();
    const auto connections = scene.sessions().size();
    Control control = play_control(surroundings_, static_cast<ConnectionIndex>(connections), on_bound);
    if (control.session) control.session->peer().close();
    result.stimulus = scene.stimulus_text();

    EventList list;
    Circumstances circumstances;
    if (capturing) {
      trace_ = capturing->finish(Clock::now() + kPatience);
      list = events_from_capture(trace_.frames, result.ports);
      result.frames = trace_.frames.size();
      circumstances.whole = trace_.whole() && !list.octets_missing;
      if (!circumstances.whole) {
        circumstances.lacking = fmt::format(
            "the capture is not whole: {} frames dropped, {} not kept{}{}", trace_.dropped, trace_.not_kept,
            trace_.complete ? "" : ", its end was not seen", list.octets_missing ? ", octets missing" : "");
      }
    } else {
      for (Session& session : scene.sessions()) append(list, session);
      if (control.session) append(list, *control.session);
    }
    const Evidence evidence(std::move(list.events), surroundings_.profile.assignment,
                            surroundings_.profile.allowances);
    const std::string fault = fault_of(control, evidence);
    circumstances.serving = serving_ = fault.empty();
    for (const Expectation& expectation : scene.expectations())
      result.checks.push_back({expectation.rule, expectation.expected, expectation.judge(evidence)});
    judge(scene, circumstances, fault, result);
    if (capturing) result.display_filter = filter_for(result, connections, plan_.provider != nullptr);
    return circumstances.whole || !trace_.complete;
  }

  static void append(EventList& list, Session& session) {
    auto events = events_from_record(session.raw().record(), session.index());
    list.events.insert(list.events.end(), std::make_move_iterator(events.begin()),
                       std::make_move_iterator(events.end()));
  }

  void judge(const Scene& scene, const Circumstances& circumstances, const std::string& fault,
             CaseResult& result) const {
    const bool wrong = std::ranges::any_of(
        result.checks, [](const Check& check) { return check.finding.grade == Grade::wrong; });
    // What a case says of connections that it could not even open is no finding against a target that is
    // gone.
    if (scene.stopped() && (!wrong || !circumstances.serving)) {
      result.state = *scene.stopped_state();
      result.why = scene.why();
      return;
    }
    const Outcome outcome = decide(result.checks, circumstances);
    result.state = outcome.state;
    result.why = outcome.why;
    if (!circumstances.serving)
      result.why += (result.why.empty() ? "" : "; ") + ("control exchange: " + fault);
  }

  const Plan& plan_;
  std::unique_ptr<trace::LiveCapture> capture_;
  std::uint32_t max_inline_;
  bool serving_ = true;  ///< after the last case
  Surroundings surroundings_;
  trace::CaseTrace trace_;
};

Result<std::unique_ptr<trace::LiveCapture>> open_capture(const Plan& plan) {
  if (plan.interface.empty()) return nullptr;
  trace::LiveCapture::Options options;
  options.interface = plan.interface;
  options.ports = {plan.target.port()};
  options.roce = plan.provider != nullptr;
  if (plan.interface != "lo" || plan.target.family() == AF_INET6) options.fence_to = plan.target;
  auto capture = trace::LiveCapture::open(options);
  if (!capture) return failure(capture.error().text);
  return std::move(*capture);
}

/// Whether there is a KBTP target at all, and the capture sees it; how much it takes inline.
Result<std::uint32_t> greet(const Plan& plan, trace::LiveCapture* capture) {
  const auto capturing = capture != nullptr ? capture->begin_case() : nullptr;
  const Surroundings surroundings{.target = plan.target, .profile = plan.profile, .provider = plan.provider};
  Control control = play_control(surroundings, 0, [&](const SocketAddress& local) {
    if (capturing && local.length() != 0) capturing->add_local(local);
  });
  if (!control.why.empty()) return failure(plan.target.to_string() + " does not serve: " + control.why);
  const std::uint32_t max_inline = control.session->ack().max_inline;
  control.session->peer().close();
  if (capturing && capturing->finish(Clock::now() + kPatience).frames.empty())
    return failure(
        fmt::format("a session with {} worked, but nothing of it was seen on {}: --capture must name the "
                    "interface that leads there",
                    plan.target.to_string(), plan.interface));
  return max_inline;
}

}  // namespace

std::vector<const Case*> select(const Plan& plan) {
  std::vector<const Case*> out;
  for (const Case& one : cases()) {
    const auto hit = [&](const std::string& pattern) { return matches(one, pattern); };
    if ((plan.only.empty() || std::ranges::any_of(plan.only, hit)) && std::ranges::none_of(plan.exclude, hit))
      out.push_back(&one);
  }
  return out;
}

Outcome decide(const std::vector<Check>& checks, const Circumstances& circumstances) {
  const auto first = [&](Grade grade) {
    return std::ranges::find_if(checks, [&](const Check& check) { return check.finding.grade == grade; });
  };
  const auto broken = [](const Check& check) {
    const Rule* rule = find_rule(check.rule);
    const bool binding = rule == nullptr || (rule->level != Level::should && rule->level != Level::may);
    return check.finding.grade == Grade::wrong && binding;
  };
  const auto told = [](const Check& check) {
    return fmt::format("{}: expected {}; observed {}", check.rule, check.expected, check.finding.observed);
  };
  if (!circumstances.whole) return {State::inconclusive, circumstances.lacking};
  if (const auto wrong = std::ranges::find_if(checks, broken); wrong != checks.end())
    return {State::fail, told(*wrong)};
  if (!circumstances.serving)
    return {State::inconclusive, "whether the target still serves was not established"};
  if (const auto unclear = first(Grade::unclear); unclear != checks.end())
    return {State::inconclusive, told(*unclear)};
  if (const auto refused = first(Grade::unsupported); refused != checks.end())
    return {State::unsupported, told(*refused)};
  for (const Grade grade : {Grade::wrong, Grade::weak}) {  // wrong: of a SHOULD
    if (const auto weak = first(grade); weak != checks.end()) return {State::pass_weak, told(*weak)};
  }
  if (checks.empty()) return {State::inconclusive, "nothing was checked"};
  return {State::pass, ""};
}

Result<RunReport> run_suite(const Plan& plan, const Progress& progress) {
  const TimePoint start = Clock::now();
  auto capture = open_capture(plan);
  if (!capture) return unexpected(capture.error());
  const auto max_inline = greet(plan, capture->get());
  if (!max_inline) return unexpected(max_inline.error());

  RunReport report;
  report.target = plan.target_name;
  report.started = utc_now();
  report.interface = plan.interface;
  report.directory = plan.directory;
  report.strict = plan.strict;
  report.profile = plan.profile.name;
  report.expectations = plan.expectations_file;
  Runner runner(plan, std::move(*capture), *max_inline);
  const auto selected = select(plan);
  const std::size_t total = selected.size() * plan.repeat;
  std::size_t number = 0;
  for (unsigned round = 1; round <= plan.repeat; ++round) {
    for (const Case* one : selected) {
      progress(++number, total, *one, nullptr);
      CaseResult result = runner.run(*one);
      compare(result, plan.expected.find(one->name));
      result.round = round;
      result.folder = round == 1 ? std::string(one->name) : fmt::format("{}.{}", one->name, round);
      std::error_code error;
      std::filesystem::create_directories(plan.directory + "/" + result.folder, error);
      if (error)
        return failure(
            fmt::format("{}/{} cannot be made: {}", plan.directory, result.folder, error.message()));
      if (result.frames > 0) {
        const std::string path = plan.directory + "/" + result.folder + "/trace.pcap";
        if (auto written = trace::write_capture(path, runner.last_frames()); !written)
          return unexpected(written.error());
      }
      if (auto written = write_verdict(report, result); !written) return unexpected(written.error());
      report.results.push_back(std::move(result));
      progress(number, total, *one, &report.results.back());
    }
  }
  report.dropped = runner.dropped();
  report.seconds = seconds_since(start);
  if (auto written = write_reports(report); !written) return unexpected(written.error());
  return report;
}

}  // namespace kbtp::conformance
