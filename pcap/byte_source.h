// The octets of a capture in order: from a file, standard input or memory, unpacked when they are
// gzip-compressed. One thread.

#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace kbtp::trace {

class ByteSource {
 public:
  /// "-" is standard input. Reading a pipe returns what is there, so that a live one can be followed.
  [[nodiscard]] static Result<ByteSource> open(const std::string& path);
  /// `octets` must outlive the source.
  [[nodiscard]] static ByteSource over(Octets octets);

  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) noexcept;
  ~ByteSource();

  /// The next octets, at least `n` unless fewer are left, perhaps more; valid until the next call of
  /// anything. `n` is at most kMaxPeek.
  [[nodiscard]] Octets peek(std::size_t n);
  /// Goes on behind the first `n` of what peek() returned.
  void consume(std::size_t n);
  /// Why octets are lacking at the end: an error of reading or unpacking; empty when there was none.
  [[nodiscard]] const std::string& error() const;

  static constexpr std::size_t kMaxPeek = std::size_t{16} << 20;

 private:
  struct State;
  explicit ByteSource(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kbtp::trace
