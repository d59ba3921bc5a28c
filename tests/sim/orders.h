// Small cases in every order: our target and our initiator on the fake fabric, whose events take every order
// that the rules of RDMAP, or of InfiniBand, allow (proto/rdma/fake/schedule.h). What has to hold at the end
// of each operation is checked there.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/rdma/fake/fabric.h"
#include "proto/rdma/fake/schedule.h"

namespace kbtp::sim {

enum class Case : std::uint8_t {
  load,              ///< 6.1
  load_invalidated,  ///< with INVALIDATE
  load_and_free,     ///< beside 6.4 and 6.3 of the same block
  store,             ///< 6.2
  store_and_load,    ///< one behind the other
  alloc_store,       ///< 6.3
  direct_load,       ///< 6.6, beside 6.4 and 6.3 of the same block
  direct_alloc,      ///< 6.6
};
inline constexpr std::array kCases{Case::load,        Case::load_invalidated, Case::load_and_free,
                                   Case::store,       Case::store_and_load,   Case::alloc_store,
                                   Case::direct_load, Case::direct_alloc};
[[nodiscard]] std::string_view to_string(Case which);

/// How requests are completed, and under which rules.
struct Setting {
  fake::Rules rules = fake::Rules::rdmap;
  bool records = false;
};

/// Whether all orders of the case can be met: some thousands. Of the others a sample is taken.
[[nodiscard]] bool is_small(Case which, const Setting& setting);

/// All orders of a small case, `samples` of another.
[[nodiscard]] fake::Explored explore(Case which, const Setting& setting, std::uint64_t samples);

}  // namespace kbtp::sim
