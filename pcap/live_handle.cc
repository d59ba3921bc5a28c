#include "pcap/live_handle.h"

#include <algorithm>
#include <pcap.h>
#include <utility>

namespace kbtp::trace {
namespace {

constexpr int kSnapLength = 262144;
constexpr std::size_t kMaxBuffer = std::size_t{1} << 30;

auto other(std::string text) { return unexpected(CaptureError{CaptureError::Kind::other, std::move(text)}); }

CaptureError activation_error(int status, pcap_t* handle, const std::string& interface) {
  const std::string why = pcap_geterr(handle);
  switch (status) {
    case PCAP_ERROR_PERM_DENIED:
    case PCAP_ERROR_PROMISC_PERM_DENIED:
      return {CaptureError::Kind::not_permitted,
              "capturing on " + interface + " is not permitted here: run as root or with CAP_NET_RAW"};
    case PCAP_ERROR_NO_SUCH_DEVICE:
      return {CaptureError::Kind::no_such_interface,
              "there is no interface " + interface + " to capture on (ip link lists them)"};
    case PCAP_ERROR_IFACE_NOT_UP:
      return {CaptureError::Kind::interface_down, "the interface " + interface + " is down"};
    default:
      return {CaptureError::Kind::other, "cannot capture on " + interface + ": " +
                                             (why.empty() ? pcap_statustostr(status) : why.c_str())};
  }
}

}  // namespace

void PcapCloser::operator()(pcap* handle) const { pcap_close(handle); }

Expected<LiveHandle, CaptureError> open_live(const std::string& interface, std::size_t buffer_octets) {
  char text[PCAP_ERRBUF_SIZE] = "";
  LiveHandle live;
  live.handle.reset(pcap_create(interface.c_str(), text));
  pcap_t* handle = live.handle.get();
  if (handle == nullptr) return other("cannot capture on " + interface + ": " + text);
  pcap_set_snaplen(handle, kSnapLength);
  pcap_set_buffer_size(handle, static_cast<int>(std::min(buffer_octets, kMaxBuffer)));
  pcap_set_immediate_mode(handle, 1);
  live.nanoseconds = pcap_set_tstamp_precision(handle, PCAP_TSTAMP_PRECISION_NANO) == 0;
  if (const int status = pcap_activate(handle); status < 0)
    return unexpected(activation_error(status, handle, interface));

  switch (pcap_datalink(handle)) {
    case DLT_EN10MB:
      live.link = LinkType::ethernet;
      break;
    case DLT_LINUX_SLL:
      live.link = LinkType::linux_sll;
      break;
    case DLT_RAW:
      live.link = LinkType::raw_ip;
      break;
    default:
      return unexpected(
          CaptureError{CaptureError::Kind::unsupported_link, "frames on " + interface + " have link type " +
                                                                 std::to_string(pcap_datalink(handle)) +
                                                                 ", which is not understood"});
  }
  if (pcap_setnonblock(handle, 1, text) != 0) return other(std::string("cannot poll the capture: ") + text);
  return live;
}

Expected<void, CaptureError> set_filter(const LiveHandle& live, const std::string& expression) {
  pcap_t* handle = live.handle.get();
  bpf_program filter{};
  if (pcap_compile(handle, &filter, expression.c_str(), 1, PCAP_NETMASK_UNKNOWN) != 0)
    return other("libpcap refuses the filter " + expression + ": " + pcap_geterr(handle));
  const int filtered = pcap_setfilter(handle, &filter);
  pcap_freecode(&filter);
  if (filtered != 0) return other(std::string("the kernel refuses the filter: ") + pcap_geterr(handle));
  return {};
}

}  // namespace kbtp::trace
