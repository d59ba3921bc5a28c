// report.html: one file, no network, no script.

#include <fmt/format.h>

#include "conformance/catalogue.h"
#include "conformance/report.h"

namespace kbtp::conformance {

namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --line: #d5d9e0; --soft: #f5f6f8; --ink: #1c2330; --dim: #5c6675; --paper: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --line: #39414f; --soft: #1f2530; --ink: #e4e8ef; --dim: #9aa5b5; --paper: #151a22; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto; max-width: 72rem;
  padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p.about { color: var(--dim); margin: 0 0 1.2rem; }
.tally { display: flex; gap: .6rem; flex-wrap: wrap; margin: 1rem 0; }
.tally div { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .9rem; min-width: 6.5rem; background: var(--soft); }
.tally b { display: block; font-size: 1.5rem; line-height: 1.2; }
.bar { display: flex; height: .6rem; border-radius: .3rem; overflow: hidden; margin: .8rem 0 0; }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .4rem 0; background: var(--soft); }
summary { cursor: pointer; padding: .5rem .8rem; display: grid; grid-template-columns: 7.5rem 20rem 1fr; gap: .8rem; align-items: baseline; }
summary .name { font-family: ui-monospace, monospace; font-size: .9rem; } summary .what { color: var(--dim); }
details > div { padding: .2rem .9rem .9rem; border-top: 1px solid var(--line); background: var(--paper); border-radius: 0 0 .5rem .5rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; margin: .6rem 0; }
th { text-align: left; color: var(--dim); font-weight: 600; } td, th { border-bottom: 1px solid var(--line); padding: .35rem .6rem .35rem 0; vertical-align: top; }
code { font-family: ui-monospace, monospace; font-size: .86em; overflow-wrap: anywhere; }
.badge { display: inline-block; border-radius: .3rem; padding: .05rem .5rem; font-size: .82rem; font-weight: 600; color: #fff; text-align: center; }
.pass { background: #1c7c4a; } .pass-weak { background: #6d8a1f; } .fail { background: #c0312b; } .skip { background: #7b8594; }
.expected-fail { background: #8a5a83; } .unexpected-pass { background: #b5532d; }
.unsupported { background: #5b6fa8; } .inconclusive { background: #9a7310; } .setup-error { background: #a4511a; }
@media (max-width: 50rem) { summary { grid-template-columns: 1fr; gap: .1rem; } }
)";

std::string_view group_title(std::string_view name) {
  const auto group = name.substr(0, name.find('.'));
  if (group == "kbtp") return "KBTP";
  if (group == "mpa") return "MPA (RFC 5044, RFC 6581)";
  if (group == "ddp") return "DDP (RFC 5041)";
  return "RDMAP (RFC 5040, RFC 7306)";
}

std::string badge(std::string_view state) {
  return fmt::format("<span class=\"badge {0}\">{0}</span>", state);
}

std::string rule_cell(const Check& check) {
  const Rule* rule = find_rule(check.rule);
  if (rule == nullptr) return escape_markup(check.rule);
  return fmt::format("<span title=\"{}\">{}</span><br><small>{}</small>", escape_markup(rule->text),
                     escape_markup(check.rule), to_string(rule->level));
}

void add_case(std::string& out, const RunReport& run, const CaseResult& result) {
  const bool open = result.state == State::fail || result.state == State::unexpected_pass;
  out += fmt::format(
      "<details{}><summary>{}<span class=\"name\">{}{}</span><span class=\"what\">{}</span></summary><div>\n",
      open ? " open" : "", badge(to_string(result.state)), result.about->name,
      result.round > 1 ? fmt::format(" ({})", result.round) : "", escape_markup(result.about->summary));
  if (!result.stimulus.empty())
    out += fmt::format("<p><b>Stimulus:</b> {}.</p>\n", escape_markup(result.stimulus));
  if (!result.why.empty()) out += fmt::format("<p>{}</p>\n", escape_markup(result.why));
  if (!result.deviation.empty())
    out += fmt::format("<p><b>Known deviation</b> <code>{}</code>: {}</p>\n", escape_markup(result.deviation),
                       escape_markup(result.reason));
  if (!result.checks.empty()) {
    out += "<table><tr><th>rule</th><th>state</th><th>expected</th><th>observed</th><th>frames</th></tr>\n";
    for (const Check& check : result.checks) {
      std::vector<std::uint64_t> frames =
          run.interface.empty() ? std::vector<std::uint64_t>{} : check.finding.frames;
      const bool more = frames.size() > 12;
      if (more) frames.resize(12);
      out +=
          fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}{}</td></tr>\n",
                      rule_cell(check), badge(to_string(check.finding.grade)), escape_markup(check.expected),
                      escape_markup(check.finding.observed), fmt::join(frames, ", "), more ? ", ..." : "");
    }
    out += "</table>\n";
  }
  if (!result.display_filter.empty()) {
    out += fmt::format(
        "<p><a href=\"{0}/trace.pcap\">trace.pcap</a> ({1} frames), <a "
        "href=\"{0}/verdict.json\">verdict.json</a>. In "
        "Wireshark: <code>{2}</code></p>\n",
        result.folder, result.frames, escape_markup(result.display_filter));
  }
  out += "</div></details>\n";
}

}  // namespace

std::string report_html(const RunReport& run) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>KBTP conformance of {0}</title><style>{1}</style></head><body>\n"
      "<h1>KBTP conformance of {0}</h1>\n<p class=\"about\">{2}, {3:.1f} s; {4}. {5} rules checked, {6} of "
      "them "
      "KBTP's.{7}</p>\n",
      escape_markup(run.target), kStyle, run.started, run.seconds,
      run.interface.empty() ? "judged from the suite's own record, nothing was captured"
                            : "each case judged from its own capture on " + escape_markup(run.interface),
      run.rules_checked(), run.kbtp_rules_checked(),
      (run.profile.empty() ? "" : " Profile " + escape_markup(run.profile) + ".") +
          (run.expectations.empty() ? "" : " Expectations of " + escape_markup(run.expectations) + ".") +
          (run.strict ? " Strict: what is only tolerated counts as a finding." : ""));
  out += "<div class=\"tally\">";
  std::string bar;
  for (std::size_t i = 0; i < kStateCount; ++i) {
    const auto state = static_cast<State>(i);
    const std::size_t n = run.count(state);
    if (n == 0) continue;
    out += fmt::format("<div><b>{}</b>{}</div>", n, badge(to_string(state)));
    bar += fmt::format("<span class=\"{}\" style=\"flex:{}\"></span>", to_string(state), n);
  }
  out += fmt::format("</div><div class=\"bar\">{}</div>\n", bar);
  std::string_view title;
  for (const CaseResult& result : run.results) {
    if (const auto now = group_title(result.about->name); now != title) {
      title = now;
      out += fmt::format("<h2>{}</h2>\n", title);
    }
    add_case(out, run, result);
  }
  out += "</body></html>\n";
  return out;
}

}  // namespace kbtp::conformance
