// Fuzzes every decoder of KBTP messages and structures, and checks what must hold for any octets: what was
// understood encodes to something that is understood the same way.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "fuzz/require.h"
#include "proto/wire/message.h"
#include "proto/wire/structures.h"

namespace {

using namespace kbtp;
using namespace kbtp::wire;
using kbtp::fuzz::require;

std::vector<std::byte> encode_any(const Message& message, const Assignment& assignment) {
  return std::visit(
      [&](const auto& m) {
        if constexpr (std::is_constructible_v<Request, decltype(m)>) {
          return encode(Request(m), assignment);
        } else {
          return encode(m, assignment);
        }
      },
      message);
}

void messages(Octets octets, const Assignment& assignment) {
  const auto strict = decode_message(octets, assignment);
  if (strict) {
    const auto again = encode_any(*strict, assignment);
    require(again.size() <= octets.size(), "a message grew");
    require(decode_message(again, assignment) == *strict, "a message changed when encoded again");
  } else {
    require(strict.error().octet <= octets.size(), "an error beyond the message");
    require(!strict.error().to_string().empty(), "an error without words");
    require(strict.error().header.has_value() == (octets.size() >= kHeaderSize), "a header lost");
  }
  const auto lenient = decode_message(octets, assignment, Lengths::lenient);
  if (strict) require(lenient == *strict, "lenient differs from strict");
  const auto without = decode_request(octets, Features{}, assignment);
  if (without) require(encode(*without, assignment).size() == octets.size(), "a request of another length");
  // What an end of a session calls; each must refuse the others' messages.
  const bool hello = decode_hello(octets, assignment).has_value();
  const bool ack = decode_hello_ack(octets, assignment).has_value();
  const bool completion = decode_completion(octets, assignment).has_value();
  require(hello + ack + completion + without.has_value() <= 1, "a message of two kinds");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Octets octets = std::as_bytes(std::span(data, size));
  messages(octets, kProposed);
  Assignment padded = kProposed;
  padded.completion = kPaddedCompletion;
  messages(octets, padded);
  if (const auto record = decode_completion_record(octets)) {
    require(std::ranges::equal(encode(*record), octets), "a record changed");
  }
  if (octets.size() >= kTableEntrySize) {
    const auto entry = octets.first<kTableEntrySize>();
    require(std::ranges::equal(encode(decode_entry(entry)), entry), "an entry changed");
    const Slot slot = decode_slot(octets.first<kSlotSize>());
    require(decode_slot(encode(slot)) == slot, "a slot changed");
  }
  return 0;
}
