// Plays the cases against a target, one after the other, each with a capture of its own, and judges them.

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "conformance/case.h"
#include "conformance/expected.h"
#include "conformance/report.h"

namespace kbtp::conformance {

struct Plan {
  SocketAddress target;
  std::string target_name;  ///< as reports call it
  Profile profile;
  ExpectedOutcomes expected;      ///< of --expect
  std::string expectations_file;  ///< its name for reports; empty: none
  std::vector<std::string> only;  ///< shell patterns; empty: all cases
  std::vector<std::string> exclude;
  bool strict = false;
  unsigned repeat = 1;
  /// Brings back a target that has stopped serving, so that the cases behind it are played all the same.
  std::function<void()> revive = {};
  std::string directory;  ///< of the report; made if need be
  std::string interface;  ///< to capture on; empty: judge from the suite's own record
  /// Through which the suite speaks, over RoCEv2; then it needs an interface. Null: raw iWARP. Not owned.
  rdma::Provider* provider = nullptr;
};

/// The cases that a plan selects.
[[nodiscard]] std::vector<const Case*> select(const Plan& plan);

/// Told as the run goes on; `result` is null when a case begins.
using Progress =
    std::function<void(std::size_t number, std::size_t total, const Case& one, const CaseResult* result)>;

/// Runs the selected cases and writes all files. An error is one that stops the run before its first case (no
/// capture, no target, no directory) or makes it worthless (files that cannot be written): status 3.
[[nodiscard]] Result<RunReport> run_suite(const Plan& plan, const Progress& progress);

/// What expectations and circumstances come to. Pure.
struct Circumstances {
  bool serving = true;       ///< the control exchange worked
  bool whole = true;         ///< nothing is missing in the trace
  std::string lacking = {};  ///< what is, when it is not
};
struct Outcome {
  State state = State::pass;
  std::string why;
};
[[nodiscard]] Outcome decide(const std::vector<Check>& checks, const Circumstances& circumstances);

}  // namespace kbtp::conformance
