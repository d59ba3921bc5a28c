// Internal to proto/wire: bounded access to fields whose place comes from an Assignment.

#pragma once

#include <algorithm>
#include <concepts>

#include "base/bytes.h"

namespace kbtp::wire {

/// The field at `offset`; the message's length has been checked against its layout, and the layout by
/// check(): a field that still does not fit reads as 0.
template <std::unsigned_integral T>
[[nodiscard]] T field(Octets message, std::size_t offset) {
  if (offset > message.size() || message.size() - offset < sizeof(T)) return 0;
  return load_be<T>(message.data() + offset);
}

template <std::unsigned_integral T>
void set_field(MutableOctets message, std::size_t offset, T value) {
  if (offset > message.size() || message.size() - offset < sizeof(T)) return;
  store_be(message.data() + offset, value);
}

}  // namespace kbtp::wire
