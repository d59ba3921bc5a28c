#include "ib_binding/wire/opcode.h"

#include <fmt/format.h>

namespace kbtp::ib {

std::string_view to_string(Service service) {
  switch (service) {
    case Service::reliable_connection:
      return "RC";
    case Service::unreliable_connection:
      return "UC";
    case Service::reliable_datagram:
      return "RD";
    case Service::unreliable_datagram:
      return "UD";
    case Service::congestion:
      return "CNP";
    case Service::extended_reliable_connection:
      return "XRC";
  }
  return "";
}

const OperationFacts* Opcode::facts() const {
  const std::uint8_t operation = value & 0x1F;
  if (operation >= kOperations.size()) return nullptr;
  const OperationFacts& facts = kOperations[operation];
  // Which operations a service has: IBTA Volume 1, Table 38.
  switch (service()) {
    case Service::reliable_connection:
    case Service::extended_reliable_connection:
      return facts.operation == Operation::resync ? nullptr : &facts;
    case Service::unreliable_connection:
      return facts.operation <= Operation::write_only_immediate ? &facts : nullptr;
    case Service::reliable_datagram:
      return facts.operation <= Operation::resync ? &facts : nullptr;
    case Service::unreliable_datagram:
      return facts.operation == Operation::send_only || facts.operation == Operation::send_only_immediate
                 ? &facts
                 : nullptr;
    case Service::congestion:
      return nullptr;
  }
  return nullptr;
}

std::string to_string(Opcode opcode) {
  if (opcode.value == kCongestionNotification) return "CNP";
  if (const OperationFacts* facts = opcode.facts()) {
    return fmt::format("{} {}", to_string(opcode.service()), facts->name);
  }
  return fmt::format("reserved opcode 0x{:02X}", opcode.value);
}

}  // namespace kbtp::ib
