// What is known beforehand of how cases come out against a certain target (`--expect`): one line a case, with
// the deviation it shows and the rules it may break. Whatever else is broken, or no longer broken, stands
// out.
//
//     # CASE                STATE  DEVIATION        RULES            # REASON
//     mpa.request.markers   fail   markers-refused  RFC5044-4.3-01   # siw rejects a Request with M set
//     mpa.first-contact     fail|pass ...           a race: either is as expected
//
// Words stand apart by blanks; "#" begins a comment, which behind an entry is its reason. Rules of a `fail`
// or `pass-weak` are those that may be broken, divided by commas.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "conformance/report.h"

namespace kbtp::conformance {

struct ExpectedOutcome {
  std::string name;           ///< of the case
  std::vector<State> states;  ///< any of them is as expected
  std::string deviation;      ///< one word for what is behind it: "markers-refused"
  std::vector<std::string> rules;
  std::string reason;
};

/// Entries sorted by case, at most one for each.
class ExpectedOutcomes {
 public:
  /// `file` stands in errors, each "FILE:LINE: what is wrong". A case or a rule that does not exist is one.
  [[nodiscard]] static Result<ExpectedOutcomes> parse(std::string_view text, const std::string& file);
  [[nodiscard]] const ExpectedOutcome* find(std::string_view name) const;
  [[nodiscard]] const std::vector<ExpectedOutcome>& entries() const { return entries_; }
  void put(ExpectedOutcome entry);
  void remove(std::string_view name);
  /// The file's text; each line of `about` becomes a comment above the entries.
  [[nodiscard]] std::string to_text(std::string_view about) const;

 private:
  std::vector<ExpectedOutcome> entries_;
};

/// Turns the state of a result into what it is against the entry (nullptr: none): an expected `fail` becomes
/// expected-fail, a pass where none was expected unexpected-pass.
void compare(CaseResult& result, const ExpectedOutcome* entry);

/// What the next run is to expect if all stays as it is: an entry for each result that is neither a pass nor
/// a skip. Names, reasons and entries of cases that were not played are those of `before`.
[[nodiscard]] ExpectedOutcomes expectations_from(const RunReport& run, ExpectedOutcomes before);

}  // namespace kbtp::conformance
