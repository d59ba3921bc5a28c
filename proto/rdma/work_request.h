// Work requests are values: a sequence can be built, looked at, posted, and one day pre-posted.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "proto/rdma/region.h"

namespace kbtp::rdma {

/// Chosen by the poster, told back in the Completion. Need not be unique.
using WorkId = std::uint64_t;

/// Send, Send with Solicited Event, and with Invalidate (RFC 5040 5.3). The payload is owned by the request.
struct Send {
  WorkId id = 0;
  std::vector<std::byte> payload;
  bool solicited = false;
  std::optional<STag> invalidate;
};

/// RDMA Write (RFC 5040 5.1). `source` must not change until the completion; `keep_alive`, if set, is held
/// until then (a private copy, for example). The completion means that the provider needs the source no
/// longer.
struct Write {
  WorkId id = 0;
  Octets source;
  RemoteBuffer destination;
  std::shared_ptr<const void> keep_alive;
};

/// RDMA Write followed by Immediate Data (RFC 7306 6), or InfiniBand's single operation, whose immediate has
/// 32 bits: a larger one is a bad request there. The receiver sees one receive.
struct WriteImmediate {
  Write write;
  std::uint64_t immediate = 0;
  bool solicited = false;
};

/// Immediate Data without a Write (RFC 7306 6); takes one receive, in order with Sends. InfiniBand has no
/// such operation.
struct Immediate {
  WorkId id = 0;
  std::uint64_t data = 0;
  bool solicited = false;
};

/// RDMA Read (RFC 5040 5.2) of sink.size() octets. The sink is open to the matching Read Response alone
/// (G-52) and is indeterminate until the completion.
struct Read {
  WorkId id = 0;
  MutableOctets sink;
  RemoteBuffer source;
  bool shared_sink = false;  ///< the sink lies in memory that others may read meanwhile (Content::shared)
};

/// Atomic Requests of RFC 7306; the word before the operation comes with the completion.
/// Plain Atomics (9.2) take no mask but 0, and CompareSwap masks of all ones.
struct FetchAdd {
  WorkId id = 0;
  RemoteBuffer word;
  std::uint64_t add = 0;
  std::uint64_t mask = 0;
};
struct CompareSwap {
  WorkId id = 0;
  RemoteBuffer word;
  std::uint64_t compare = 0;
  std::uint64_t compare_mask = ~std::uint64_t{0};
  std::uint64_t swap = 0;
  std::uint64_t swap_mask = ~std::uint64_t{0};
};

/// Revokes an own STag of this stream, in order with the other requests.
struct LocalInvalidate {
  WorkId id = 0;
  STag stag = 0;
};

using WorkRequest =
    std::variant<Send, Write, WriteImmediate, Immediate, Read, FetchAdd, CompareSwap, LocalInvalidate>;

}  // namespace kbtp::rdma
