#include "tools/dissect_run.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <poll.h>
#include <span>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "pcap/analysis.h"
#include "pcap/capture_file.h"
#include "pcap/chart.h"
#include "pcap/decoder.h"
#include "pcap/esp.h"
#include "pcap/fields.h"
#include "pcap/filter.h"
#include "pcap/live_reader.h"
#include "pcap/output.h"
#include "pcap/print_fields.h"
#include "pcap/print_json.h"
#include "pcap/print_lines.h"
#include "pcap/record_builder.h"
#include "pcap/summary.h"
#include "tools/cli.h"
#include "tools/files.h"

namespace kbtp::tools {

namespace {

using trace::ConnectionInfo;
using trace::Event;

std::atomic<bool> stop_asked{false};

/// Ends the waiting for frames; the output is still finished.
void stop_on_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { stop_asked.store(true, std::memory_order_relaxed); };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool wants_colour(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr &&
         (term == nullptr || std::strcmp(term, "dumb") != 0);
}

trace::DecodeOptions decode_options(trace::EspStage& esp) {
  trace::DecodeOptions options;
  options.esp = &esp;
  options.expect_iwarp = false;
  return options;
}

std::string file_name(const std::string& path) {
  return path == "-" ? "standard input" : std::filesystem::path(path).filename().string();
}

/// Takes what the decoder tells to the printer.
class Dissector final : private trace::Observer {
 public:
  Dissector(const DissectOptions& options, std::optional<trace::Filter> filter, trace::EspStage& esp,
            trace::Output& output)
      : options_(options),
        filter_(std::move(filter)),
        output_(output),
        esp_(esp),
        decode_(decode_options(esp)),
        decoder_(decode_, *this),
        analyzer_(decode_.assignment),
        builder_(decode_.assignment),
        chart_(options.output == "svg" ? std::make_unique<trace::Chart>() : nullptr),
        plain_(output, options.segments || options.verbose || options.octets),
        lines_(chart_ ? *chart_ : plain_) {}

  void frame(const trace::FrameView& frame) {
    if (options_.output == "summary") summary_.frame(frame);
    if (decoder_.frames() == 0) {
      builder_.set_start(frame.time_ns);
      lines_.set_start(frame.time_ns);
    }
    decoder_.frame(frame);
  }
  /// What is open goes on behind the last frame that is wanted: that it ends there is not told.
  void leave_open() { left_open_ = true; }
  void finish() {
    if (!left_open_) decoder_.finish();
    if (options_.output == "summary") output_.text(summary_.text());
    if (chart_) chart_->write(options_.path.empty() ? options_.interface : file_name(options_.path), output_);
  }

  [[nodiscard]] const trace::EspStage& esp() const { return esp_; }
  [[nodiscard]] std::uint64_t frames() const { return decoder_.frames(); }
  [[nodiscard]] std::uint64_t dropped() const { return decoder_.dropped(); }
  [[nodiscard]] std::uint64_t connections() const { return connections_; }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] std::uint64_t selected() const { return selected_; }
  /// Frames of link types that are not understood.
  [[nodiscard]] std::uint64_t foreign() const { return foreign_; }

 private:
  void on_event(const ConnectionInfo& connection, const Event& event) override {
    connections_ = std::max(connections_, connection.number);
    if (connection.transport == trace::Transport::tcp && !connection.is_iwarp &&
        event.as<trace::BadStartup>() == nullptr)
      return;
    if (options_.stream && *options_.stream != connection.number) return;
    ++events_;
    annotation_.clear();
    if (const trace::EspSeen* seen = esp_.seen()) trace::add_esp(*seen, annotation_.fields);
    analyzer_.event(connection, event, annotation_);
    if (options_.output == "summary") {
      ++selected_;
      return summary_.event(connection, event, annotation_, analyzer_.answered());
    }
    tell(connection, event);
  }

  void tell(const ConnectionInfo& connection, const Event& event) {
    const bool json = options_.output == "json";
    const bool fields = options_.verbose || options_.octets;
    bool wanted = !options_.frames || (event.frame.number >= options_.frames->first &&
                                       event.frame.number <= options_.frames->second);
    if (json || fields || filter_) {
      builder_.build(connection, event, annotation_, record_);
      if (filter_) wanted = wanted && filter_->matches(record_);
    }
    if (wanted) ++selected_;
    if (!json && !fields) return lines_.event(connection, event, annotation_, wanted);
    if (!wanted) return;
    if (json) return print_json(record_, output_);
    const std::span<const trace::FieldInfo* const> marked =
        filter_ ? std::span(filter_->fields()) : std::span<const trace::FieldInfo* const>();
    lines_.heading(connection, event, annotation_);
    if (options_.verbose) print_fields(record_, marked, output_);
    if (options_.octets) print_octets(record_, marked, output_);
  }

  void on_end(const ConnectionInfo& connection) override {
    connections_ = std::max(connections_, connection.number);
    lines_.end(connection);
    analyzer_.end(connection);
    summary_.end(connection);
  }
  void on_other_frame(const trace::FrameView& /*frame*/, const trace::FrameProblem& problem) override {
    if (problem.kind == trace::FrameProblem::Kind::unsupported_link) ++foreign_;
  }

  const DissectOptions& options_;
  std::optional<trace::Filter> filter_;
  trace::Output& output_;
  trace::EspStage& esp_;
  trace::DecodeOptions decode_;
  trace::Decoder decoder_;
  trace::Analyzer analyzer_;
  trace::Summary summary_;
  trace::RecordBuilder builder_;
  std::unique_ptr<trace::Chart> chart_;
  trace::LinePrinter plain_;
  trace::LinePrinter& lines_;  ///< one of these
  trace::Record record_;
  trace::Annotation annotation_;
  bool left_open_ = false;
  std::uint64_t connections_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t selected_ = 0;
  std::uint64_t foreign_ = 0;
};

/// How far reading has come, on a terminal that shows nothing else.
class Progress {
 public:
  explicit Progress(const std::string& path) {
    struct stat file{};
    const bool shown = isatty(STDERR_FILENO) != 0 && isatty(STDOUT_FILENO) == 0;
    if (shown && stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && file.st_size > kLongFile)
      size_ = static_cast<std::uint64_t>(file.st_size);
  }
  ~Progress() {
    if (told_) fmt::print(stderr, "\r\x1b[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void read(std::size_t octets) { read_ += octets + kFrameHeader; }
  void tell(std::uint64_t frames) {
    if (size_ == 0) return;
    // More than the file's size: it was compressed.
    if (read_ <= size_) {
      fmt::print(stderr, "\r{:3} %, {} frames", read_ * 100 / size_, frames);
    } else {
      fmt::print(stderr, "\r{} frames", frames);
    }
    told_ = true;
  }

 private:
  static constexpr off_t kLongFile = off_t{32} << 20;
  static constexpr std::size_t kFrameHeader = 16;
  std::uint64_t size_ = 0;
  std::uint64_t read_ = 0;
  bool told_ = false;
};

/// Whether somebody may be waiting for lines while we wait for standard input.
bool is_slow(const std::string& path) {
  struct stat input{};
  return path == "-" && (fstat(STDIN_FILENO, &input) != 0 || !S_ISREG(input.st_mode));
}
bool input_waits() {
  pollfd fd{STDIN_FILENO, POLLIN, 0};
  return poll(&fd, 1, 0) > 0;
}

/// Reads the file; what stopped it before its end.
std::string read_file(trace::CaptureReader& reader, const DissectOptions& options, Dissector& dissector,
                      trace::Output& output) {
  using Clock = std::chrono::steady_clock;
  constexpr std::uint64_t kLook = 1024;  // frames between two looks at the clock
  constexpr auto kPatience = std::chrono::milliseconds(200);
  Progress progress(options.path);
  const bool slow = is_slow(options.path);
  auto flushed = Clock::now();
  while (!stop_asked.load(std::memory_order_relaxed) && !output.broken()) {
    if (slow && output.pending() && !input_waits()) output.flush();
    const auto frame = reader.next_view();
    if (!frame) break;
    if (options.frames && frame->number > options.frames->second) {
      dissector.leave_open();
      break;
    }
    progress.read(frame->octets.size());
    dissector.frame(*frame);
    if (dissector.frames() % kLook != 1) continue;
    if (const auto now = Clock::now(); now - flushed > kPatience) {
      output.flush();
      progress.tell(dissector.frames());
      flushed = now;
    }
  }
  return reader.damage();
}

std::string count(std::uint64_t n, const char* noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

/// After the last frame: ends what is open, says what deserves saying.
int conclude(const DissectOptions& options, Dissector& dissector, trace::Output& output) {
  dissector.finish();
  output.flush();
  if (output.broken()) {
    // A reader that has seen enough, such as head(1), is no failure.
    if (output.error() == EPIPE) return kExitOk;
    return fail(options.command, kExitUnreachable,
                fmt::format("cannot write the output: {}", std::strerror(output.error())));
  }
  if (dissector.dropped() != 0)
    fail(options.command, kExitOk,
         fmt::format("{} connections were ended early, because too many were open at once",
                     dissector.dropped()));
  if (dissector.foreign() != 0)
    fail(options.command, kExitOk,
         fmt::format("{} passed over: their link types are not understood",
                     count(dissector.foreign(), "frame")));
  for (const std::string& text : account_of(dissector.esp())) fail(options.command, kExitOk, text);
  if (options.stream && *options.stream > dissector.connections())
    return fail(
        options.command, kExitUsage,
        fmt::format("there is no stream {}: the capture has {}", *options.stream, dissector.connections()));
  if (dissector.events() == 0) {
    const std::string of = options.stream ? fmt::format("stream {}", *options.stream)
                                          : count(dissector.frames(), "frame") + ", " +
                                                count(dissector.connections(), "TCP connection");
    return fail(options.command, kExitOk, fmt::format("neither iWARP nor RoCE in {}", of));
  }
  const bool live = !options.interface.empty();
  if (!live && (options.frames || !options.filter.empty()) && dissector.selected() == 0)
    return fail(options.command, kExitUsage,
                fmt::format("nothing was selected of {} events", dissector.events()));
  return kExitOk;
}

int dissect_file(const DissectOptions& options, Dissector& dissector, trace::Output& output) {
  auto reader = trace::CaptureReader::open(options.path);
  if (!reader) return fail(options.command, kExitUnreachable, reader.error().text);
  const std::string damage = read_file(*reader, options, dissector, output);
  output.flush();
  if (!damage.empty() && !output.broken()) fail(options.command, kExitOk, damage);
  return conclude(options, dissector, output);
}

int dissect_live(const DissectOptions& options, Dissector& dissector, trace::Output& output) {
  auto reader = trace::LiveReader::open(options.interface, options.capture_filter);
  if (!reader) return fail(options.command, kExitUnreachable, reader.error().text);
  fail(options.command, kExitOk, fmt::format("capturing on {}", options.interface));
  const std::string ended = reader->run(
      stop_asked,
      [&](const trace::FrameView& frame) {
        dissector.frame(frame);
        if (output.broken()) stop_asked = true;
      },
      [&] {
        output.flush();
        if (output.broken()) stop_asked = true;
      });
  if (const std::uint64_t dropped = reader->dropped(); dropped != 0)
    fail(options.command, kExitOk, fmt::format("the kernel dropped {} frames", dropped));
  const int status = conclude(options, dissector, output);
  return ended.empty() ? status
                       : fail(options.command, kExitUnreachable, fmt::format("the capture ended: {}", ended));
}

Result<std::vector<trace::EspKey>> load_esp_keys(const std::string& path) {
  constexpr std::uint64_t kLongest = std::uint64_t{64} << 20;
  if (path.empty()) return std::vector<trace::EspKey>();
  const auto octets = tools::read_file(path, kLongest);
  if (!octets) return unexpected(octets.error());
  return trace::read_esp_keys({reinterpret_cast<const char*>(octets->data()), octets->size()}, path);
}

}  // namespace

int dissect(const DissectOptions& options) {
  std::optional<trace::Filter> filter;
  if (!options.filter.empty()) {
    auto compiled = trace::Filter::compile(options.filter);
    if (!compiled) {
      const trace::FilterError& error = compiled.error();
      return fail(options.command, kExitUsage,
                  fmt::format("--filter, column {}: {}\n  {}\n  {:>{}}", error.column, error.text,
                              options.filter, "^", error.column));
    }
    filter = std::move(*compiled);
  }
  auto keys = load_esp_keys(options.esp_keys);
  if (!keys) return fail(options.command, kExitUsage, keys.error().text);
  trace::Output output(STDOUT_FILENO, options.output == "text" && wants_colour(options.colour));
  trace::EspStage esp(std::move(*keys), [&](const trace::EspStage::Association& one, std::size_t line) {
    fail(options.command, kExitOk,
         fmt::format("ESP SA {}: the key in line {} of {} does not fit: the ICV is wrong", one.to_string(),
                     line, options.esp_keys));
  });
  Dissector dissector(options, std::move(filter), esp, output);
  stop_on_signals();
  return options.interface.empty() ? dissect_file(options, dissector, output)
                                   : dissect_live(options, dissector, output);
}

}  // namespace kbtp::tools
