#include "proto/wire/message.h"

#include <utility>

namespace kbtp::wire {

Decoded<Message> decode_message(Octets octets, const Assignment& assignment, Lengths lengths) {
  const auto widen = [](auto message) { return Message(std::move(message)); };
  const auto header = read_header(octets);
  const auto code = header ? assignment.opcode(header->opcode) : std::nullopt;
  if (header && header->version == kVersion) {
    if (code == Opcode::hello) return decode_hello(octets, assignment).map(widen);
    if (code == Opcode::hello_ack) return decode_hello_ack(octets, assignment).map(widen);
    if (code == Opcode::completion) return decode_completion(octets, assignment, lengths).map(widen);
  }
  const Features all{.record_completion = true, .direct_load = true, .direct_alloc = true};
  return decode_request(octets, all, assignment).map([](Request request) {
    return std::visit([](auto& r) { return Message(std::move(r)); }, request);
  });
}

Opcode opcode(const Message& message) {
  // In the order of Message's alternatives.
  constexpr Opcode kByIndex[] = {Opcode::hello,       Opcode::hello_ack, Opcode::load, Opcode::store,
                                 Opcode::alloc_store, Opcode::free,      Opcode::bind, Opcode::completion};
  static_assert(std::size(kByIndex) == std::variant_size_v<Message>);
  return kByIndex[message.index()];
}

}  // namespace kbtp::wire
