#include "proto/wire/error.h"

#include <fmt/format.h>

namespace kbtp::wire {

std::string WireError::to_string() const {
  return fmt::format("{} at octet {} ({}): {}", what, octet, rule,
                     status ? wire::to_string(*status) : std::string_view("disconnect"));
}

}  // namespace kbtp::wire
