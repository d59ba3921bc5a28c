// The requirement catalogue: every rule that the suite knows, as data, in our own words. `kbtp conform
// explain` prints it, cases name rules by id, reports quote it.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kbtp::conformance {

/// How binding a rule is in its text. `implied` marks declarative text that a peer relies on.
enum class Level : std::uint8_t {
  must,
  must_not,
  should,
  may,
  implied,
};
[[nodiscard]] std::string_view to_string(Level level);

struct Rule {
  std::string_view id;  ///< "KBTP-6.1-03", "RFC5041-7.1-06", or a settled gap of the draft: "G-38"
  Level level = Level::must;
  std::string_view role;       ///< who is bound: "target", "initiator", "both", "receiver", ...
  std::string_view section;    ///< where it stands
  std::string_view text;       ///< what it asks
  std::string_view tested;     ///< how the suite looks at it
  std::string_view violation;  ///< what breaking it looks like on the wire
};

/// All rules: KBTP's in the order of the draft, the settled gaps, then document by document.
[[nodiscard]] std::span<const Rule> catalogue();

/// The rule of that id (letters of either case), or nullptr.
[[nodiscard]] const Rule* find_rule(std::string_view id);

/// At most `limit` ids that are spelled like `id`, nearest first.
[[nodiscard]] std::vector<std::string_view> near_rules(std::string_view id, std::size_t limit = 5);

// The tables that catalogue() is made of; each lives in a file of its own.
namespace tables {
[[nodiscard]] std::span<const Rule> kbtp();
[[nodiscard]] std::span<const Rule> kbtp_memory();
[[nodiscard]] std::span<const Rule> kbtp_rest();
[[nodiscard]] std::span<const Rule> mpa();
[[nodiscard]] std::span<const Rule> ddp();
[[nodiscard]] std::span<const Rule> rdmap();
}  // namespace tables

}  // namespace kbtp::conformance
