// What an InfiniBand transport packet is to its conversation, whether it came over RoCEv2 or RoCEv1: verdict
// on the ICRC, its place in the order of PSNs, what it answers. Members of Event::what.

#pragma once

#include <cstdint>
#include <optional>

#include "ib_binding/wire/cm.h"
#include "ib_binding/wire/packet.h"
#include "pcap/reassembly.h"

namespace kbtp::trace {

enum class IcrcState : std::uint8_t {
  good,
  bad,
  unknown,  ///< the capture lacks octets, or the headers in front that the ICRC covers
};

/// Where the PSN of a request, or of a response that is matched, stands (IBTA Volume 1, 9.7.1, 9.8.1).
enum class PsnOrder : std::uint8_t {
  unchecked,  ///< a service without order, or too little of the conversation is known
  in_order,
  repeated,  ///< this PSN or one behind it was seen before
  gap,       ///< PSNs in front of it were not seen
};

/// What a response answers.
struct IbAnswer {
  FrameRef request;  ///< of a message of several packets the last
  ib::Operation operation = ib::Operation::send_only;
  std::uint32_t dma_length = 0;  ///< of a Read
  std::uint32_t requests = 1;    ///< that it answers, the one named included: Acknowledges are coalesced
  bool complete = true;          ///< nothing more is due
};

/// One packet of any service. Headers are as on the wire, right or wrong.
struct IbPacket {
  ib::Packet packet;
  std::uint32_t length = 0;  ///< octets from the BTH to the ICRC, on the wire
  IcrcState icrc = IcrcState::unknown;
  PsnOrder order = PsnOrder::unchecked;
  std::uint32_t missing_psns = 0;          ///< with PsnOrder::gap
  std::optional<std::uint32_t> source_qp;  ///< as far as the conversation has shown it
  std::optional<IbAnswer> answers;
  const char* error = nullptr;  ///< why its extended headers cannot be read; only the BTH counts then

  [[nodiscard]] const ib::OperationFacts* facts() const { return packet.bth.opcode.facts(); }
  [[nodiscard]] bool sound() const { return error == nullptr && icrc != IcrcState::bad; }
};

/// A message of the Communication Manager: comes right behind the packet that carried it.
struct CmMessage {
  ib::CmMessage cm;
  /// The frame in which its sender said the same before: Transaction ID and attribute are the same.
  std::optional<std::uint64_t> repeats = std::nullopt;
};

}  // namespace kbtp::trace
