// Memory that peers may reach: rights, scope and what kind of content it is (RFC 5040 8.1.1, RFC 5042 6).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kbtp::rdma {

/// A 32-bit steering tag; unpredictable, scoped to a stream or to a protection domain.
using STag = std::uint32_t;

/// The protection domain a stream or a region belongs to (RFC 5041 8.2). A target uses one per trust domain.
enum class DomainId : std::uint32_t {
};

/// What the remote peer may do; always as little as the purpose needs (RFC 5042 6.3.5).
enum class Access : std::uint8_t {
  none = 0,
  remote_read = 1,
  remote_write = 2,
  remote_atomic = 4,
};
[[nodiscard]] constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
[[nodiscard]] constexpr bool allows(Access granted, Access wanted) {
  return (static_cast<std::uint8_t>(granted) & static_cast<std::uint8_t>(wanted)) ==
         static_cast<std::uint8_t>(wanted);
}

enum class Content : std::uint8_t {
  octets,  ///< Plain octets that may change under a reader: a Read Response is made from a private copy.
  stable,  ///< The owner promises that nothing changes it while it is registered: may be sent from where it
           ///< lies.
  words,   ///< 64-bit words written by atomics (table, ring, counters): read word by word with acquire.
  shared,  ///< Plain octets that peers and the host may write while others read them (a pool with a direct
           ///< mode): the provider reads and writes them only with the copies of base/shared_memory.h, and
           ///< never sends them from where they lie.
};

struct RegionSpec {
  std::span<std::byte> memory;  ///< Not owned; outlives the registration.
  Access access = Access::none;
  Content content = Content::octets;  ///< `words` needs 8-octet alignment and size.
  std::uint64_t tagged_offset = 0;    ///< Tagged Offset of the first octet; offset + size must not wrap.
  bool remote_invalidate = false;  ///< A Send with Invalidate of the peer may revoke it (stream scope only).
};

/// What no provider registers, for people; nullptr when `spec` is in order.
[[nodiscard]] inline const char* fault_of(const RegionSpec& spec) {
  constexpr std::uint64_t kWord = 8;  // RFC 7306 5
  const std::uint64_t length = spec.memory.size();
  if (length > ~std::uint64_t{0} - spec.tagged_offset) return "the region's last Tagged Offset passes 2^64";
  if (spec.content != Content::words) {
    return allows(spec.access, Access::remote_atomic) ? "remote atomics need a region of words" : nullptr;
  }
  if (reinterpret_cast<std::uintptr_t>(spec.memory.data()) % kWord != 0 || length % kWord != 0) {
    return "a region of words must begin and end at a multiple of 8 octets";
  }
  if (allows(spec.access, Access::remote_write)) {
    return "a region of words cannot be open to remote writes: placement is not atomic";
  }
  return nullptr;
}

/// A registered region as a peer is told of it.
struct Region {
  STag stag = 0;
  std::uint64_t tagged_offset = 0;
  std::uint64_t length = 0;
};

/// A buffer of the peer: what a Data Descriptor names.
struct RemoteBuffer {
  STag stag = 0;
  std::uint64_t tagged_offset = 0;
};

}  // namespace kbtp::rdma
