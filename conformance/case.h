// The table of active cases: each is a name, the rules it checks and a function that plays it.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/scene.h"

namespace kbtp::conformance {

/// What a target must have for a case to make sense. What it lacks makes the case a skip.
enum class Capability : std::uint8_t {
  none,
  inline_data,     ///< HELLO_ACK.Max Inline Length above 0
  identities,      ///< identities that the target is known to be configured with
  foreign_domain,  ///< one of them in another trust domain
  untrusted,       ///< an identity that the suite cannot prove
  records,         ///< completion records: a binding that has them
};
[[nodiscard]] std::string_view to_string(Capability capability);

/// Who can play a case.
enum class Player : std::uint8_t {
  any_peer,  ///< KBTP messages and exposed memory are enough
  raw_peer,  ///< it speaks iWARP octet by octet, or is about what RDMAP alone says
};

struct Case {
  std::string_view name;                ///< "kbtp.load.unbound"
  std::vector<std::string_view> rules;  ///< the first is what the case is about
  Capability needs = Capability::none;
  std::string_view summary;  ///< one line
  void (*play)(Scene& scene) = nullptr;
  Player player = Player::any_peer;
};

/// What `one` needs: "INLINE", "raw iWARP peer, INLINE", "-".
[[nodiscard]] std::string needs_text(const Case& one);

/// Every case, in the order in which they run.
[[nodiscard]] std::span<const Case> cases();
[[nodiscard]] const Case* find_case(std::string_view name);
/// Shell patterns (*, ?, [...]) over the case's name and its rule ids.
[[nodiscard]] bool matches(const Case& one, std::string_view pattern);

/// Binds `handle` to a block with this data, inline when the target takes that much inline.
wire::Completion bind_block(Scene& scene, Session& session, std::uint64_t handle,
                            const std::vector<std::byte>& data, bool seal = true);
/// A LOAD of `handle` into a buffer of its own; expects SUCCESS and exactly `data`.
RequestId expect_content(Scene& scene, Session& session, std::string rule, std::uint64_t handle,
                         const std::vector<std::byte>& data);

namespace groups {
[[nodiscard]] std::vector<Case> load();
[[nodiscard]] std::vector<Case> store();
[[nodiscard]] std::vector<Case> allocation();
[[nodiscard]] std::vector<Case> record();
[[nodiscard]] std::vector<Case> message();
[[nodiscard]] std::vector<Case> mpa();
[[nodiscard]] std::vector<Case> mpa_stream();
[[nodiscard]] std::vector<Case> ddp();
[[nodiscard]] std::vector<Case> rdmap();
}  // namespace groups

}  // namespace kbtp::conformance
