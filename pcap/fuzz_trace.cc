// Fuzzes the whole way from the octets of a capture file to events and their text.

#include <cstdint>

#include "pcap/capture_file.h"
#include "pcap/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kbtp::trace;
  const auto file = read_capture(kbtp::Octets(reinterpret_cast<const std::byte*>(data), size));
  if (!file) return 0;
  DecodeOptions options;
  options.reassembly = {1 << 16, 256};
  const Trace trace = decode_trace(file->frames, options);
  std::size_t length = 0;
  for (const Connection& connection : trace.connections) {
    for (const Event& event : connection.events) length += to_line(event, trace.start_ns).size();
  }
  return length == 1 ? -1 : 0;  // a line is never that short; the length is used so that it is computed
}
