// The BTH OpCode field and one table of what is true of each operation (IBTA Volume 1, 9.2.1, Table 38),
// shared by the dissector and the binding of 9.2.
//
// The upper three bits name the transport service, the lower five the operation.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace kbtp::ib {

/// Upper three bits of OpCode. 4 holds only RoCEv2's congestion notification (0x81), 6 and 7 are for vendors.
enum class Service : std::uint8_t {
  reliable_connection = 0,
  unreliable_connection = 1,
  reliable_datagram = 2,
  unreliable_datagram = 3,
  congestion = 4,
  extended_reliable_connection = 5,
};
/// "RC", "UC", "RD", "UD", "CNP", "XRC"; empty for 6 and 7.
[[nodiscard]] std::string_view to_string(Service service);

/// Lower five bits of OpCode.
enum class Operation : std::uint8_t {
  send_first = 0x00,
  send_middle = 0x01,
  send_last = 0x02,
  send_last_immediate = 0x03,
  send_only = 0x04,
  send_only_immediate = 0x05,
  write_first = 0x06,
  write_middle = 0x07,
  write_last = 0x08,
  write_last_immediate = 0x09,
  write_only = 0x0A,
  write_only_immediate = 0x0B,
  read_request = 0x0C,
  read_response_first = 0x0D,
  read_response_middle = 0x0E,
  read_response_last = 0x0F,
  read_response_only = 0x10,
  acknowledge = 0x11,
  atomic_acknowledge = 0x12,
  compare_swap = 0x13,
  fetch_add = 0x14,
  resync = 0x15,  ///< reliable datagram only
  send_last_invalidate = 0x16,
  send_only_invalidate = 0x17,
};

/// The packet's place in its message.
enum class Place : std::uint8_t {
  only,
  first,
  middle,
  last,
};

struct OperationFacts {
  Operation operation;
  std::string_view name;
  Place place;
  bool reth;         ///< RDMA Extended Transport Header (16 octets)
  bool atomic_eth;   ///< Atomic Extended Transport Header (28)
  bool aeth;         ///< ACK Extended Transport Header (4)
  bool atomic_ack;   ///< AtomicAckETH (8)
  bool immediate;    ///< Immediate Data (4)
  bool invalidates;  ///< Invalidate Extended Transport Header (4)
  bool payload;      ///< carries octets of the upper layer
  bool response;     ///< goes from responder to requester
};

/// In the order of the operations.
inline constexpr std::array<OperationFacts, 24> kOperations{{
    {Operation::send_first, "Send First", Place::first, false, false, false, false, false, false, true,
     false},
    {Operation::send_middle, "Send Middle", Place::middle, false, false, false, false, false, false, true,
     false},
    {Operation::send_last, "Send Last", Place::last, false, false, false, false, false, false, true, false},
    {Operation::send_last_immediate, "Send Last with Immediate", Place::last, false, false, false, false,
     true, false, true, false},
    {Operation::send_only, "Send Only", Place::only, false, false, false, false, false, false, true, false},
    {Operation::send_only_immediate, "Send Only with Immediate", Place::only, false, false, false, false,
     true, false, true, false},
    {Operation::write_first, "RDMA Write First", Place::first, true, false, false, false, false, false, true,
     false},
    {Operation::write_middle, "RDMA Write Middle", Place::middle, false, false, false, false, false, false,
     true, false},
    {Operation::write_last, "RDMA Write Last", Place::last, false, false, false, false, false, false, true,
     false},
    {Operation::write_last_immediate, "RDMA Write Last with Immediate", Place::last, false, false, false,
     false, true, false, true, false},
    {Operation::write_only, "RDMA Write Only", Place::only, true, false, false, false, false, false, true,
     false},
    {Operation::write_only_immediate, "RDMA Write Only with Immediate", Place::only, true, false, false,
     false, true, false, true, false},
    {Operation::read_request, "RDMA Read Request", Place::only, true, false, false, false, false, false,
     false, false},
    {Operation::read_response_first, "RDMA Read Response First", Place::first, false, false, true, false,
     false, false, true, true},
    {Operation::read_response_middle, "RDMA Read Response Middle", Place::middle, false, false, false, false,
     false, false, true, true},
    {Operation::read_response_last, "RDMA Read Response Last", Place::last, false, false, true, false, false,
     false, true, true},
    {Operation::read_response_only, "RDMA Read Response Only", Place::only, false, false, true, false, false,
     false, true, true},
    {Operation::acknowledge, "Acknowledge", Place::only, false, false, true, false, false, false, false,
     true},
    {Operation::atomic_acknowledge, "Atomic Acknowledge", Place::only, false, false, true, true, false, false,
     false, true},
    {Operation::compare_swap, "CmpSwap", Place::only, false, true, false, false, false, false, false, false},
    {Operation::fetch_add, "FetchAdd", Place::only, false, true, false, false, false, false, false, false},
    {Operation::resync, "RESYNC", Place::only, false, false, false, false, false, false, false, false},
    {Operation::send_last_invalidate, "Send Last with Invalidate", Place::last, false, false, false, false,
     false, true, true, false},
    {Operation::send_only_invalidate, "Send Only with Invalidate", Place::only, false, false, false, false,
     false, true, true, false},
}};

inline constexpr std::uint8_t kCongestionNotification = 0x81;  // RoCEv2, IBTA Annex A17.9.3

/// OpCode taken apart.
struct Opcode {
  std::uint8_t value = 0;

  [[nodiscard]] constexpr Service service() const { return static_cast<Service>(value >> 5); }
  /// What is true of the operation; nullptr when this service has no such operation, and for congestion
  /// notification.
  [[nodiscard]] const OperationFacts* facts() const;
  bool operator==(const Opcode&) const = default;
};
[[nodiscard]] constexpr Opcode make_opcode(Service service, Operation operation) {
  return {
      static_cast<std::uint8_t>((static_cast<unsigned>(service) << 5) | static_cast<unsigned>(operation))};
}
/// "RC RDMA Write First", "CNP", "reserved opcode 0x1F".
[[nodiscard]] std::string to_string(Opcode opcode);

}  // namespace kbtp::ib
