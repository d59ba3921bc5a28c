#include "proto/wire/terms.h"

#include <fmt/format.h>
#include <initializer_list>

namespace kbtp::wire {

std::string_view to_string(Opcode opcode) {
  switch (opcode) {
    case Opcode::hello:
      return "HELLO";
    case Opcode::hello_ack:
      return "HELLO_ACK";
    case Opcode::load:
      return "LOAD";
    case Opcode::store:
      return "STORE";
    case Opcode::alloc_store:
      return "ALLOC_STORE";
    case Opcode::free:
      return "FREE";
    case Opcode::bind:
      return "BIND";
    case Opcode::completion:
      return "COMPLETION";
  }
  return "?";
}

std::string_view to_string(Status status) {
  switch (status) {
    case Status::success:
      return "SUCCESS";
    case Status::invalid_request:
      return "INVALID_REQUEST";
    case Status::unsupported_version:
      return "UNSUPPORTED_VERSION";
    case Status::unsupported_opcode:
      return "UNSUPPORTED_OPCODE";
    case Status::no_such_handle:
      return "NO_SUCH_HANDLE";
    case Status::not_owner:
      return "NOT_OWNER";
    case Status::not_bound:
      return "NOT_BOUND";
    case Status::already_bound:
      return "ALREADY_BOUND";
    case Status::not_sealed:
      return "NOT_SEALED";
    case Status::sealed:
      return "SEALED";
    case Status::generation_mismatch:
      return "GENERATION_MISMATCH";
    case Status::length_error:
      return "LENGTH_ERROR";
    case Status::no_space:
      return "NO_SPACE";
    case Status::invalid_ticket:
      return "INVALID_TICKET";
    case Status::ticket_abandoned:
      return "TICKET_ABANDONED";
    case Status::no_resources:
      return "NO_RESOURCES";
    case Status::access_denied:
      return "ACCESS_DENIED";
    case Status::target_error:
      return "TARGET_ERROR";
    case Status::unassigned:
      return "UNASSIGNED";
  }
  return "?";
}

std::string_view to_string(Feature feature) {
  switch (feature) {
    case Feature::record_completion:
      return "RECORD_COMPLETION";
    case Feature::direct_load:
      return "DIRECT_LOAD";
    case Feature::direct_alloc:
      return "DIRECT_ALLOC";
    case Feature::atomic_unmasked:
      return "ATOMIC_UNMASKED";
  }
  return "?";
}

std::string_view to_string(Flag flag) {
  switch (flag) {
    case Flag::inline_data:
      return "INLINE";
    case Flag::seal:
      return "SEAL";
    case Flag::record:
      return "RECORD";
    case Flag::invalidate:
      return "INVALIDATE";
    case Flag::allow_unsealed:
      return "ALLOW_UNSEALED";
  }
  return "?";
}

namespace {
void append(std::string& text, std::string_view name) {
  if (!text.empty()) text += '|';
  text += name;
}
std::string finish(std::string text, unsigned unnamed_bits) {
  if (unnamed_bits != 0) append(text, fmt::format("{:#06x}", unnamed_bits));
  return text.empty() ? "0" : text;
}
}  // namespace

std::string flags_to_string(std::uint16_t flags) {
  std::string text;
  unsigned rest = flags;
  for (const Flag flag :
       {Flag::inline_data, Flag::seal, Flag::record, Flag::invalidate, Flag::allow_unsealed}) {
    if (has(flags, flag)) append(text, to_string(flag));
    rest &= ~unsigned{bit(flag)};
  }
  return finish(std::move(text), rest);
}

std::string to_string(const Features& features) {
  std::string text;
  if (features.record_completion) append(text, to_string(Feature::record_completion));
  if (features.direct_load) append(text, to_string(Feature::direct_load));
  if (features.direct_alloc) append(text, to_string(Feature::direct_alloc));
  if (features.atomic_unmasked) append(text, to_string(Feature::atomic_unmasked));
  return finish(std::move(text), features.unassigned);
}

}  // namespace kbtp::wire
