// The outcome of a run, and the files that tell it: report.json, report.html, report.md, junit.xml, and
// verdict.json of each case.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "conformance/case.h"
#include "conformance/judge.h"

namespace kbtp::conformance {

/// One expectation and what came of it.
struct Check {
  std::string rule;
  std::string expected;
  Finding finding;
};

struct CaseResult {
  const Case* about = nullptr;
  unsigned round = 1;  ///< of --repeat
  State state = State::setup_error;
  std::string why;           ///< one sentence for every state but pass
  std::string deviation;     ///< of the entry in the --expect file, if there is one
  std::string reason;        ///< that entry's
  bool as_expected = false;  ///< as that entry says
  std::string stimulus;      ///< what was done to the target
  std::vector<Check> checks;
  std::vector<std::uint16_t> ports;  ///< local ports of the suite's connections, the control exchange last
  std::uint64_t frames = 0;          ///< in trace.pcap
  std::string display_filter;        ///< for Wireshark; empty without a capture
  std::string folder;                ///< relative to the report
  double seconds = 0;
};

struct RunReport {
  std::string target;
  std::string started;        ///< UTC, "2026-11-29T21:00:00Z"
  std::string interface;      ///< of the capture; empty for --capture none
  std::string directory;      ///< where the files are
  std::uint64_t dropped = 0;  ///< frames that the kernel dropped during the run
  bool strict = false;
  std::string expectations;  ///< the --expect file; empty: none
  std::string profile;       ///< the --profile's name; empty: none
  double seconds = 0;
  std::vector<CaseResult> results;

  [[nodiscard]] std::size_t count(State state) const;
  /// Distinct rules that a case checked, and how many of them are KBTP's.
  [[nodiscard]] std::size_t rules_checked() const;
  [[nodiscard]] std::size_t kbtp_rules_checked() const;
  /// Results that make the status 1: fail, unexpected-pass, and with --strict a pass-weak that no entry
  /// foretold.
  [[nodiscard]] std::size_t findings() const;
  /// 0, 1 (findings) or 3 (set-up errors that no entry foretold, or nothing was decided).
  [[nodiscard]] int exit_status() const;
  /// "47 pass, 2 fail, 1 skip"
  [[nodiscard]] std::string summary() const;
};

/// The folders of a run on disk. Errors name the file.
[[nodiscard]] Result<> write_file(const std::string& path, const std::string& text);
[[nodiscard]] Result<> write_verdict(const RunReport& run, const CaseResult& result);
[[nodiscard]] Result<> write_reports(const RunReport& run);

// One file format each; pure.
[[nodiscard]] std::string verdict_json(const RunReport& run, const CaseResult& result);
[[nodiscard]] std::string report_json(const RunReport& run);
[[nodiscard]] std::string report_html(const RunReport& run);
[[nodiscard]] std::string report_markdown(const RunReport& run);
[[nodiscard]] std::string junit_xml(const RunReport& run);

/// &, <, > and " for HTML and XML; control characters that XML 1.0 forbids become '?'.
[[nodiscard]] std::string escape_markup(std::string_view text);

}  // namespace kbtp::conformance
