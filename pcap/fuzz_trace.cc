// Fuzzes the whole way from the octets of a capture file to what is printed: events and their text, fields,
// JSON, the sequence chart, the summary; ESP with a key for every SA (pcap/fuzz_seeds_test.cc seals with it).

#include <cstdint>
#include <fcntl.h>
#include <unistd.h>

#include "fuzz/require.h"
#include "pcap/analysis.h"
#include "pcap/capture_file.h"
#include "pcap/chart.h"
#include "pcap/esp.h"
#include "pcap/fields.h"
#include "pcap/fuzz_key.h"
#include "pcap/print_fields.h"
#include "pcap/print_json.h"
#include "pcap/print_lines.h"
#include "pcap/record_builder.h"
#include "pcap/summary.h"
#include "pcap/trace.h"

namespace {

using namespace kbtp::trace;

/// Prints every event in every form, to nowhere.
class Everything final : public Observer {
 public:
  explicit Everything(const EspStage& esp) : esp_(esp) {}
  ~Everything() override { close(fd_); }
  Everything(const Everything&) = delete;
  Everything& operator=(const Everything&) = delete;

  void frame(const FrameView& frame) { summary_.frame(frame); }
  void finish() {
    chart_.write("fuzz", output_);
    output_.text(summary_.text());
    output_.flush();
  }

  void on_event(const ConnectionInfo& connection, const Event& event) override {
    annotation_.clear();
    if (const EspSeen* seen = esp_.seen()) add_esp(*seen, annotation_.fields);
    analyzer_.event(connection, event, annotation_);
    summary_.event(connection, event, annotation_, analyzer_.answered());
    builder_.build(connection, event, annotation_, record_);
    print_json(record_, output_);
    print_fields(record_, {}, output_);
    print_octets(record_, {}, output_);
    lines_.event(connection, event, annotation_, true);
    segments_.event(connection, event, annotation_, true);
    chart_.event(connection, event, annotation_, true);
  }
  void on_end(const ConnectionInfo& connection) override {
    lines_.end(connection);
    segments_.end(connection);
    chart_.end(connection);
    analyzer_.end(connection);
    summary_.end(connection);
  }
  void on_other_frame(const FrameView& /*frame*/, const FrameProblem& /*problem*/) override {}

 private:
  const EspStage& esp_;
  int fd_ = open("/dev/null", O_WRONLY | O_CLOEXEC);
  Output output_{fd_};
  Analyzer analyzer_;
  Summary summary_;
  RecordBuilder builder_{kbtp::wire::kProposed};
  LinePrinter lines_{output_, false};
  LinePrinter segments_{output_, true};
  Chart chart_;
  Record record_;
  Annotation annotation_;
};

DecodeOptions small_options(EspStage& esp) {
  DecodeOptions options;
  options.reassembly = {1 << 16, 256};
  options.esp = &esp;
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const kbtp::Octets octets(reinterpret_cast<const std::byte*>(data), size);
  auto reader = CaptureReader::over(octets);
  if (!reader) return 0;
  EspStage esp({test::fuzz_key()});
  DecodeOptions options = small_options(esp);
  // What is kept of events, as the conformance suite has it.
  TraceDecoder decoder(options);
  while (const auto frame = reader->next_view()) decoder.frame(*frame);
  const Trace trace = decoder.finish();
  std::size_t length = 0;
  for (const Connection& connection : trace.connections) {
    for (const Event& event : connection.events) length += to_line(event, trace.start_ns).size();
  }
  kbtp::fuzz::require(length != 1, "a line is longer than that");

  // As `kbtp dissect`: connections that are no iWARP are let be, and there is room for few of them.
  EspStage again({test::fuzz_key()});
  options = small_options(again);
  options.expect_iwarp = false;
  Everything everything(again);
  Decoder small(options, everything, {8, 1 << 17});
  auto second = CaptureReader::over(octets);
  while (const auto frame = second->next_view()) {
    everything.frame(*frame);
    small.frame(*frame);
  }
  small.finish();
  everything.finish();
  return 0;
}
