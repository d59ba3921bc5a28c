// For tests of what a Responder answers: one in full operation that has memory of every kind, and its
// Terminates taken apart.

#pragma once

#include <gtest/gtest.h>

#include "rdmap_binding/rdmap/segment.h"
#include "rdmap_binding/rnic/engine_rig.h"

namespace kbtp::rnic::test {

/// A Terminate that came back, with copies of its own.
struct Told {
  TerminateCode code;
  rdmap::TerminateControl control;
  std::uint16_t reserved = 0;  // the thirteen bits
  std::uint16_t segment_length = 0;
  std::vector<std::byte> ddp_header;
  std::optional<rdmap::ReadRequest> read_request;
};

/// The Terminate that ends these ULPDUs, if one does.
inline std::optional<Told> terminate_in(const std::vector<std::vector<std::byte>>& ulpdus) {
  if (ulpdus.empty()) return std::nullopt;
  const auto segment = rdmap::decode_segment(ulpdus.back());
  if (!segment) return std::nullopt;
  const auto* message = std::get_if<rdmap::Terminate>(&segment->body);
  if (message == nullptr) return std::nullopt;
  Told told;
  told.code = message->code();
  told.control = message->control;
  told.reserved = load_be<std::uint16_t>(ulpdus.back().data() + ddp::kUntaggedHeaderSize + 2) & 0x1FFF;
  told.segment_length = message->segment_length;
  told.ddp_header = to_vector(message->ddp_header);
  told.read_request = message->read_request;
  return told;
}

constexpr std::uint64_t kBase = 0x1000;  // Tagged Offset of the first octet of `memory`

/// What one stream of the RNIC has: regions of each right, of its domain and of others.
struct MemoryTarget {
  static rdma::StreamOptions options() {
    rdma::StreamOptions o;
    o.domain = rdma::DomainId{7};
    o.initial_receives = 8;
    o.receive_size = 4096;
    o.ird = 4;
    o.ord = 4;
    return o;
  }
  explicit MemoryTarget(rdma::StreamOptions stream_options = options(), RnicOptions rnic = {})
      : target(std::move(stream_options), std::move(rnic)), memory(pattern(8192)), words(8, 7) {
    writable = add(rdma::Access::remote_write);
    readable = add(rdma::Access::remote_read);
    both = add(rdma::Access::remote_write | rdma::Access::remote_read);
    open = target.stream()
               .register_region({memory, rdma::Access::remote_write | rdma::Access::remote_read,
                                 rdma::Content::octets, kBase, true})
               ->stag;
    counters = target.stream()
                   .register_region({std::as_writable_bytes(std::span(words)), rdma::Access::remote_atomic,
                                     rdma::Content::words, 0, false})
                   ->stag;
    const rdma::RegionSpec all{memory, rdma::Access::remote_write | rdma::Access::remote_read,
                               rdma::Content::octets, kBase, false};
    of_domain = target.host.stags.add(rdma::DomainId{7}, all)->stag;
    other_domain = target.host.stags.add(rdma::DomainId{8}, all)->stag;
    other_stream = target.host.stags.add(StreamId{999}, all)->stag;
  }

  rdma::STag add(rdma::Access access) {
    return target.stream().register_region({memory, access, rdma::Content::octets, kBase, false})->stag;
  }
  std::vector<std::vector<std::byte>> answer(Octets octets) { return target.answer(octets); }
  /// Feeds `octets` and takes the Terminate that they must provoke.
  std::optional<Told> told(Octets octets) { return terminate_in(answer(octets)); }
  Recorder& recorder() { return target.recorder(); }
  rdma::Stream& stream() { return target.stream(); }
  [[nodiscard]] bool stopped() const { return target.end->fin; }

  Responder target;
  std::vector<std::byte> memory;
  std::vector<std::uint64_t> words;
  rdma::STag writable = 0, readable = 0, both = 0, open = 0, counters = 0;
  rdma::STag of_domain = 0, other_domain = 0, other_stream = 0;
};

inline rdmap::ReadRequest reading(rdma::STag stag, std::uint64_t to, std::uint32_t size) {
  return {0xABCD, 0x77, size, stag, to};
}

}  // namespace kbtp::rnic::test
