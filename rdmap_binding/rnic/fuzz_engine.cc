// Octets of a peer into a responder engine in full operation, cut as the input says, while it answers Reads
// and waits for a Read and an Atomic of its own. Input: first octet = CRCs off (bit 0), unenhanced start-up
// (bit 1), FPDUs given as ULPDUs that get their length and CRC here (bit 2), markers in what the engine
// receives (bit 3) and sends (bit 4); second = largest run; then the octets.

#include "rdmap_binding/rnic/engine_rig.h"

using namespace kbtp;
using namespace kbtp::rnic::test;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const Octets input = std::as_bytes(std::span(data, size));
  rnic::RnicOptions options;
  options.crc = (data[0] & 1) == 0;
  options.markers = (data[0] & 8) != 0;
  std::size_t observed = 0;
  options.fpdu_observer = [&observed](const rnic::FpduEvent& event) { observed += event.payload_length; };
  rdma::StreamOptions stream_options;
  stream_options.initial_receives = 8;
  stream_options.ird = 4;
  Responder target(stream_options, options, (data[0] & 2) != 0 ? 1 : 2, (data[0] & 16) != 0);
  mpa::MarkerInserter inserter;
  std::vector<std::byte> memory(4096);
  std::vector<std::byte> shared(4000);
  std::vector<std::uint64_t> words(16);
  std::vector<std::byte> sink(5000);
  auto& stream = target.stream();
  // Tables are filled by hand below, so that inputs can name these STags: the first octets of a header
  // choose.
  const std::array<rdma::STag, 4> stags = {
      stream
          .register_region({memory, rdma::Access::remote_write | rdma::Access::remote_read,
                            rdma::Content::octets, 0, true})
          ->stag,
      stream
          .register_region({std::as_writable_bytes(std::span(words)),
                            rdma::Access::remote_atomic | rdma::Access::remote_read, rdma::Content::words, 0,
                            false})
          ->stag,
      stream.register_region({memory, rdma::Access::remote_read, rdma::Content::stable, 0, false})->stag,
      stream
          .register_region({shared, rdma::Access::remote_write | rdma::Access::remote_read,
                            rdma::Content::shared, 0x11, true})
          ->stag};
  stream.post({rdma::Read{1, sink, {1, 0}}, rdma::FetchAdd{2, {1, 0}, 1, 0}});
  const std::size_t cut = std::size_t{data[1]} + 1;
  Octets rest = input.subspan(2);
  if ((data[0] & 4) != 0) {
    // Records: u16 length, ULPDU. An STag field of 0xFFFFFF0n stands for the n-th region.
    while (rest.size() > 2 && !target.end->engine.finished()) {
      const std::size_t n = std::min<std::size_t>(load_be<std::uint16_t>(rest.data()), rest.size() - 2);
      std::vector<std::byte> ulpdu = to_vector(rest.subspan(2, n));
      rest = rest.subspan(2 + n);
      for (std::size_t at = 2; at + 4 <= std::min<std::size_t>(ulpdu.size(), 46); ++at) {
        const auto word = load_be<std::uint32_t>(ulpdu.data() + at);
        if (word >> 8 == 0xFFFFFF && (word & 0xFF) < stags.size())
          store_be(ulpdu.data() + at, stags[word & 0xFF]);
      }
      target.end->feed(options.markers ? mpa::encode_marked_fpdu(ulpdu, inserter) : mpa::encode_fpdu(ulpdu),
                       cut);
      std::ignore = target.end->drain(cut * 8);
    }
  } else {
    target.end->feed(rest, cut);
  }
  std::ignore = target.end->drain();
  if (!target.end->engine.finished()) {
    target.end->engine.peer_finished();
    target.end->settle();
    std::ignore = target.end->drain();
  }
  if (!target.end->engine.finished()) stream.close();
  target.end->settle();
  std::ignore = target.end->drain();
  target.end->advance(rnic::kTeardownDeadline);
  if (!target.end->engine.finished() || target.recorder().closed_count != 1 ||
      target.host.stags.size() != 0 || target.recorder().completions.size() != 2) {
    __builtin_trap();
  }
  return 0;
}
