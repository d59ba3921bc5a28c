// The STags of one RNIC: which memory each names, for whom, and what may be done with it (RFC 5041 8.2, RFC
// 5040 8.1.1). One table for all loops, so that an STag of somebody else is told from one that does not
// exist.
//
// Any thread. A caller that has looked an STag up may use the memory until its loop's next turn: revocation
// of a domain's STag is acknowledged by every loop (Provider::revoke), that of a stream's runs on the
// stream's loop.

#pragma once

#include <cstdint>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

#include "base/result.h"
#include "proto/rdma/region.h"

namespace kbtp::rnic {

/// A stream for the purpose of scopes; never used twice in one RNIC. 0 is no stream.
enum class StreamId : std::uint64_t {
};

/// Who asks: a stream and the protection domain it is in.
struct StreamScope {
  StreamId stream{};
  rdma::DomainId domain{};
};

enum class StagFault : std::uint8_t {
  invalid,         ///< no such STag
  not_associated,  ///< exists, for another stream or another domain
  access,          ///< the right is not granted
  bounds,          ///< [offset, offset + length) leaves the region
  wrap,            ///< offset + length passes 2^64
};

/// The octets an STag and a Tagged Offset stand for, as long as the look-up is good (see above).
struct Target {
  std::span<std::byte> memory;
  rdma::Content content = rdma::Content::octets;
};

class StagTable {
 public:
  /// Registers memory for every stream of `domain`.
  [[nodiscard]] Result<rdma::Region> add(rdma::DomainId domain, const rdma::RegionSpec& spec);
  /// Registers memory for one stream.
  [[nodiscard]] Result<rdma::Region> add(StreamId stream, const rdma::RegionSpec& spec);

  /// Forgets an STag of a domain or of that stream alone; false when there is none such.
  bool remove_of_domain(rdma::STag stag);
  bool remove_of_stream(StreamId stream, rdma::STag stag);

  /// What a Send with Invalidate may do (RFC 5040 5.3, 8.1.1): only an STag of this stream alone whose owner
  /// allowed it. True when it is revoked now.
  [[nodiscard]] bool invalidate_by_peer(StreamId stream, rdma::STag stag);

  /// `length` is at least 1: zero-length messages name no memory (RFC 5041 5.2).
  [[nodiscard]] tl::expected<Target, StagFault> find(StreamScope who, rdma::STag stag, std::uint64_t offset,
                                                     std::uint64_t length, rdma::Access wanted) const;
  [[nodiscard]] bool exists(rdma::STag stag) const;
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    std::span<std::byte> memory;
    std::uint64_t tagged_offset = 0;
    rdma::Access access = rdma::Access::none;
    rdma::Content content = rdma::Content::octets;
    bool remote_invalidate = false;
    StreamId stream{};  // 0: of a domain
    rdma::DomainId domain{};
  };

  Result<rdma::Region> insert(const rdma::RegionSpec& spec, StreamId stream, rdma::DomainId domain);

  mutable std::shared_mutex mutex_;
  std::unordered_map<rdma::STag, Entry> entries_;
};

}  // namespace kbtp::rnic
