// A value or an error, for every path that a peer's octets can reach (docs/design.md, "Errors").

#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace kbtp {

template <class T, class E>
using Expected = tl::expected<T, E>;

/// What a user is told: one sentence that says what was wrong, where, and what can be done about it.
struct Error {
  std::string text;
};

template <class T = void>
using Result = tl::expected<T, Error>;

template <class E>
[[nodiscard]] auto unexpected(E&& error) {
  return tl::make_unexpected(std::forward<E>(error));
}

/// Shorthand for returning an Error from a function that returns a Result.
[[nodiscard]] inline auto failure(std::string text) { return tl::make_unexpected(Error{std::move(text)}); }

}  // namespace kbtp
