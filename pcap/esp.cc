#include "pcap/esp.h"

#include <algorithm>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <tuple>
#include <utility>

namespace kbtp::trace {
namespace {

using Kind = FrameProblem::Kind;

constexpr std::size_t kMostAssociations = 4096;
constexpr std::uint8_t kIpv4 = 4;    // IP in IP
constexpr std::uint8_t kIpv6 = 41;   // IPv6 in IP
constexpr std::uint8_t kDummy = 59;  // RFC 4303 2.6
constexpr std::array<std::uint16_t, 2> kPorts{4500, 4501};
/// Upper halves that are tried for an SA of which nothing was opened yet, and for how many of its packets.
constexpr std::uint32_t kFirstHighs = 16;
constexpr std::uint64_t kPatience = 4;

auto problem(Kind kind, const char* text) { return unexpected(FrameProblem{kind, text}); }

TransportAddress host(TransportAddress address) {
  address.port = 0;
  return address;
}

std::string name(const TransportAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.host.data(), text.data(), text.size());
  return text.data();
}

/// The sequence number with these lower 32 bits that is nearest to `seen` (RFC 4303 appendix A with the
/// widest window: a capture may begin, and lose packets, anywhere).
std::uint64_t nearest(std::uint64_t seen, std::uint32_t low) {
  const auto ahead = static_cast<std::int32_t>(low - static_cast<std::uint32_t>(seen));
  if (ahead < 0 && seen < std::uint64_t{0} - static_cast<std::uint64_t>(std::int64_t{ahead})) return low;
  return seen + static_cast<std::uint64_t>(std::int64_t{ahead});
}

std::string count(std::uint64_t n, const char* noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

}  // namespace

struct EspStage::Live {
  struct Candidate {
    EspOpener opener;
    std::optional<bool> extended;
    std::optional<std::uint32_t> high;
    std::size_t line = 0;
    std::uint64_t highest = 0;  ///< sequence number that was opened
    bool fits = false;          ///< it has opened a packet

    /// Tries the sequence numbers that the packet may have.
    Expected<EspContent, EspFailure> open(Octets packet, bool patient, MutableOctets scratch,
                                          std::uint64_t& sequence);
  };

  Association account;
  std::vector<Candidate> candidates;  ///< the one that fitted last first
  bool told = false;
};

Expected<EspContent, EspFailure> EspStage::Live::Candidate::open(Octets packet, bool patient,
                                                                 MutableOctets scratch,
                                                                 std::uint64_t& sequence) {
  const auto low = load_be<std::uint32_t>(packet.data() + 4);
  Expected<EspContent, EspFailure> content = unexpected(EspFailure::icv);
  const auto attempt = [&](std::optional<std::uint32_t> upper) {
    content = opener.open(packet, upper, scratch);
    if (!content) return content.error() == EspFailure::malformed;  // no other number makes it better
    sequence = std::uint64_t{upper.value_or(0)} << 32 | low;
    extended = upper.has_value();
    highest = fits ? std::max(highest, sequence) : sequence;
    fits = true;
    return true;
  };
  if (!extended.value_or(false) && attempt(std::nullopt)) return content;
  if (extended && !*extended) return content;
  if (fits || high) {
    const std::uint64_t about = fits ? highest : std::uint64_t{*high} << 32 | low;
    const auto upper = static_cast<std::uint32_t>(nearest(about, low) >> 32);
    if (attempt(upper) || attempt(upper + 1) || (upper != 0 && attempt(upper - 1))) return content;
    return content;
  }
  for (std::uint32_t upper = 0; upper < (patient ? kFirstHighs : 1); ++upper) {
    if (attempt(upper)) return content;
  }
  return content;
}

EspStage::EspStage(std::vector<EspKey> keys, OnWrongKey on_wrong_key)
    : keys_(std::move(keys)), on_wrong_key_(std::move(on_wrong_key)) {
  for (const EspKey& key : keys_) {
    if (key.spi_mask == 0xFFFFFFFF) spis_.insert(key.spi);
  }
}
EspStage::~EspStage() = default;

std::string EspStage::Association::to_string() const {
  return fmt::format("SPI 0x{:08x} from {} to {}", spi, name(source), name(destination));
}

EspStage::Live& EspStage::find(const Id& id) {
  if (const auto known = live_.find(id); known != live_.end()) return known->second;
  if (live_.size() >= kMostAssociations) live_.erase(live_.begin());
  Live& live = live_[id];
  live.account.spi = id.spi;
  live.account.source = id.source;
  live.account.destination = id.destination;
  for (const EspKey& key : keys_) {
    if (key.matches(id.spi, id.source, id.destination))
      live.candidates.push_back(
          {EspOpener(key.transform), key.transform.extended, key.transform.sequence_high, key.line});
  }
  return live;
}

/// RFC 3948 2.1 to 2.3: four octets of zero stand in front of IKE, one octet 0xFF keeps a NAT's mapping.
bool EspStage::is_esp(const UdpDatagram& datagram) const {
  if (datagram.payload.size() < 8) return false;
  const auto spi = load_be<std::uint32_t>(datagram.payload.data());
  if (spi == 0) return false;
  const auto known = [](std::uint16_t port) { return std::ranges::find(kPorts, port) != kPorts.end(); };
  if (known(datagram.source.port) || known(datagram.destination.port)) return true;
  return spis_.contains(spi) && std::ranges::any_of(keys_, [&](const EspKey& key) {
           return key.spi_mask == 0xFFFFFFFF && key.matches(spi, datagram.source, datagram.destination);
         });
}

std::optional<Expected<Packet, FrameProblem>> EspStage::open(const Packet& packet) {
  if (const auto* esp = std::get_if<EspPacket>(&packet)) return open(*esp, false);
  const auto* datagram = std::get_if<UdpDatagram>(&packet);
  if (datagram == nullptr || !is_esp(*datagram)) return std::nullopt;
  return open(EspPacket{host(datagram->source), host(datagram->destination), datagram->payload_length,
                        datagram->payload},
              true);
}

Expected<Packet, FrameProblem> EspStage::open(const EspPacket& packet, bool in_udp) {
  seen_.reset();
  if (packet.payload.size() < 8) return problem(Kind::cut_short, "the ESP header is cut short");
  const auto spi = load_be<std::uint32_t>(packet.payload.data());
  Live& live = find({spi, packet.source, packet.destination});
  if (live.candidates.empty()) {
    ++live.account.without_key;
    return problem(Kind::other_protocol, "ESP without a key");
  }
  if (packet.payload.size() < packet.payload_length) {
    ++live.account.cut_short;
    return problem(Kind::cut_short, "the ESP packet is cut short");
  }
  if (depth_ == scratch_.size()) return problem(Kind::other_protocol, "ESP in ESP in ESP");
  std::vector<std::byte>& scratch = scratch_[depth_];
  scratch.resize(std::max(scratch.size(), std::min(packet.payload.size(), kLongestEsp)));

  EspSeen seen{spi, 0, false, in_udp};
  Expected<EspContent, EspFailure> content = unexpected(EspFailure::icv);
  bool malformed = true;  // for every key
  const bool patient = live.account.opened == 0 && live.account.icv_wrong < kPatience;
  for (auto at = live.candidates.begin(); at != live.candidates.end(); ++at) {
    content = at->open(packet.payload, patient, scratch, seen.sequence);
    if (content) {
      std::rotate(live.candidates.begin(), at, std::next(at));
      break;
    }
    malformed = malformed && content.error() == EspFailure::malformed;
  }
  if (!content && malformed) {
    ++live.account.malformed;
    return problem(Kind::malformed, "an ESP packet whose lengths do not fit its algorithms");
  }
  if (!content) {
    ++live.account.icv_wrong;
    if (live.account.opened == 0 && !std::exchange(live.told, true) && on_wrong_key_)
      on_wrong_key_(live.account, live.candidates.front().line);
    return problem(Kind::other_protocol, "ESP whose ICV is wrong");
  }
  ++live.account.opened;
  if (!content->padding_as_due) ++live.account.odd_padding;
  ++depth_;
  const std::uint8_t next = content->next_header;
  const Octets inside = content->payload;
  const auto size = static_cast<std::uint32_t>(inside.size());
  if (next == kDummy) return problem(Kind::other_protocol, "an ESP dummy packet");
  seen.tunnel = next == kIpv4 || next == kIpv6;
  seen_ = seen;
  if (!seen.tunnel) return decode_ip_payload(next, inside, size, packet.source, packet.destination);
  if (inside.empty() || std::to_integer<int>(inside[0]) >> 4 != (next == kIpv4 ? 4 : 6))
    return problem(Kind::malformed, "the ESP packet says another IP version than what is in it");
  return decode_ip(inside, size);
}

std::vector<EspStage::Association> EspStage::associations() const {
  std::vector<Association> all;
  all.reserve(live_.size());
  for (const auto& [id, live] : live_) all.push_back(live.account);
  return all;
}

std::vector<std::string> account_of(const EspStage& stage) {
  std::vector<std::string> lines;
  std::uint64_t unknown = 0;
  std::uint64_t unread = 0;
  std::vector<EspStage::Association> all = stage.associations();
  std::ranges::sort(all, {},
                    [](const auto& one) { return std::tuple(one.source, one.destination, one.spi); });
  for (const EspStage::Association& one : all) {
    if (one.without_key != 0) {
      ++unknown;
      unread += one.without_key;
    }
    std::string text;
    const auto add = [&](std::uint64_t n, const char* what) {
      if (n != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, what);
    };
    if (one.opened != 0) add(one.icv_wrong, "with a wrong ICV");  // else the wrong key was told
    add(one.malformed, "malformed");
    add(one.cut_short, "cut short in the capture");
    add(one.odd_padding, "opened whose padding is not 1, 2, 3 ...");
    if (!text.empty())
      lines.push_back(fmt::format("ESP SA {}: of {}: {}", one.to_string(),
                                  count(one.opened + one.icv_wrong + one.malformed + one.cut_short, "packet"),
                                  text));
  }
  if (unknown != 0)
    lines.push_back(fmt::format("{} of {} could not be read: no key for {} (--esp-keys)",
                                count(unread, "ESP packet"), count(unknown, "SA"),
                                unknown == 1 ? "it" : "them"));
  return lines;
}

}  // namespace kbtp::trace
