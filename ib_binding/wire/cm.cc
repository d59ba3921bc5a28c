#include "ib_binding/wire/cm.h"

#include <algorithm>

namespace kbtp::ib {

namespace {

// Service IDs of IP CM: five octets 00 00 00 00 01, the IP protocol, the port (Annex A11.2).
constexpr std::uint64_t kIpServicePrefix = 0x0000000001;

/// Private data of each kind starts there, counted from the first octet behind the MAD header.
constexpr std::size_t kReqPrivate = 140;
constexpr std::size_t kMraPrivate = 10;
constexpr std::size_t kRejPrivate = 84;
constexpr std::size_t kRepPrivate = 36;
constexpr std::size_t kRtuPrivate = 8;
constexpr std::size_t kDreqPrivate = 12;
constexpr std::size_t kDrepPrivate = 8;

std::uint8_t u8(Octets octets, std::size_t at) { return std::to_integer<std::uint8_t>(octets[at]); }
std::uint32_t u24(Octets octets, std::size_t at) { return load_be<std::uint32_t>(octets.data() + at) >> 8; }
std::uint32_t u32(Octets octets, std::size_t at) { return load_be<std::uint32_t>(octets.data() + at); }

std::optional<IpAddressing> ip_addressing(std::uint64_t service_id, Octets private_data) {
  if (service_id >> 24 != kIpServicePrefix) return std::nullopt;
  IpAddressing ip;
  ip.version = u8(private_data, 1) >> 4;
  if (ip.version != 4 && ip.version != 6) return std::nullopt;
  ip.protocol = static_cast<std::uint8_t>(service_id >> 16);
  ip.destination_port = static_cast<std::uint16_t>(service_id);
  ip.source_port = load_be<std::uint16_t>(private_data.data() + 2);
  std::copy_n(private_data.begin() + 4, 16, ip.source.begin());
  std::copy_n(private_data.begin() + 20, 16, ip.destination.begin());
  return ip;
}

void read_request(Octets data, CmMessage& message) {
  message.remote_id = 0;
  message.service_id = load_be<std::uint64_t>(data.data() + 8);
  message.qp = u24(data, 32);
  message.responder_resources = u8(data, 35);
  message.initiator_depth = u8(data, 39);
  message.starting_psn = u24(data, 44);
  message.retry_count = u8(data, 47) & 0x7;
  message.path_mtu = u8(data, 50) >> 4;
  message.rnr_retry_count = u8(data, 50) & 0x7;
  message.private_data = data.subspan(kReqPrivate);
  message.ip = ip_addressing(*message.service_id, message.private_data);
  if (message.ip) message.private_data = message.private_data.subspan(kIpAddressingSize);
}

void read_reply(Octets data, CmMessage& message) {
  message.qp = u24(data, 12);
  message.starting_psn = u24(data, 20);
  message.responder_resources = u8(data, 24);
  message.initiator_depth = u8(data, 25);
  message.rnr_retry_count = u8(data, 27) >> 5;
  message.private_data = data.subspan(kRepPrivate);
}

}  // namespace

std::string_view to_string(CmKind kind) {
  switch (kind) {
    case CmKind::connect_request:
      return "REQ";
    case CmKind::message_received:
      return "MRA";
    case CmKind::connect_reject:
      return "REJ";
    case CmKind::connect_reply:
      return "REP";
    case CmKind::ready_to_use:
      return "RTU";
    case CmKind::disconnect_request:
      return "DREQ";
    case CmKind::disconnect_reply:
      return "DREP";
  }
  return "";
}

std::optional<CmMessage> decode_cm(Octets mad) {
  if (mad.size() < kMadSize || u8(mad, 1) != kCmClass) return std::nullopt;
  const auto attribute = load_be<std::uint16_t>(mad.data() + 16);
  if (attribute < 0x10 || attribute > 0x16) return std::nullopt;
  CmMessage message;
  message.kind = static_cast<CmKind>(attribute);
  message.transaction = load_be<std::uint64_t>(mad.data() + 8);
  const Octets data = mad.first(kMadSize).subspan(kMadHeaderSize);
  message.local_id = u32(data, 0);
  message.remote_id = u32(data, 4);
  switch (message.kind) {
    case CmKind::connect_request:
      read_request(data, message);
      break;
    case CmKind::message_received:
      message.private_data = data.subspan(kMraPrivate);
      break;
    case CmKind::connect_reject:
      message.reject_reason = load_be<std::uint16_t>(data.data() + 10);
      message.private_data = data.subspan(kRejPrivate);
      break;
    case CmKind::connect_reply:
      read_reply(data, message);
      break;
    case CmKind::ready_to_use:
      message.private_data = data.subspan(kRtuPrivate);
      break;
    case CmKind::disconnect_request:
      message.qp = u24(data, 8);
      message.private_data = data.subspan(kDreqPrivate);
      break;
    case CmKind::disconnect_reply:
      message.private_data = data.subspan(kDrepPrivate);
      break;
  }
  return message;
}

std::string_view describe_reject(std::uint16_t reason) {
  switch (reason) {
    case 1:
      return "no queue pair available";
    case 2:
      return "no end-to-end context available";
    case 3:
      return "no resources available";
    case 4:
      return "timeout";
    case 5:
      return "unsupported request";
    case 6:
      return "invalid communication ID";
    case 7:
      return "invalid communication instance";
    case 8:
      return "invalid service ID";
    case 9:
      return "invalid transport service type";
    case 10:
      return "stale connection";
    case 11:
      return "RDC does not exist";
    case 12:
      return "primary remote port GID rejected";
    case 13:
      return "primary remote port LID rejected";
    case 14:
      return "invalid primary service level";
    case 15:
      return "invalid primary traffic class";
    case 16:
      return "invalid primary hop limit";
    case 17:
      return "invalid primary packet rate";
    case 24:
      return "port and connection manager redirection";
    case 25:
      return "port redirection";
    case 26:
      return "invalid path MTU";
    case 27:
      return "insufficient responder resources";
    case 28:
      return "rejected by the consumer";
    case 29:
      return "RNR retry count rejected";
    default:
      return "";
  }
}

}  // namespace kbtp::ib
