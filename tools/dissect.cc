// `kbtp dissect`: the command line. What it does is in dissect_run.cc.

#include <charconv>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "pcap/output.h"
#include "pcap/print_fields.h"
#include "tools/cli.h"
#include "tools/dissect_run.h"
#include "tools/subcommand.h"

namespace kbtp::tools {

namespace {

constexpr const char* kFooter = R"(
A filter compares fields: op==LOAD && status!=0, stag==0x1a2b, from==server, fpdu.crc==bad, note,
src ~ "10.0.0.", opcode ~ read || terminate.layer. A field is named by its last part where that says which;
--fields lists all. A field alone asks whether it is there, or true.

Examples:
  kbtp dissect trace.pcap
  kbtp dissect trace.pcap -o summary
  kbtp dissect trace.pcap --filter 'op==COMPLETION && status!=SUCCESS'
  kbtp dissect trace.pcap --follow 2 -v
  kbtp dissect trace.pcap --frames 40-42 -x
  kbtp dissect trace.pcap --follow 2 -o svg > stream2.svg
  kbtp dissect trace.pcap.gz -o json | jq -c 'select(."kbtp.op_name" == "LOAD")'
  ssh host tcpdump -i eth0 -w - tcp | kbtp dissect -
  kbtp dissect -i lo tcp port 7420)";

/// "17", "17-", "-17" or "17-25".
Result<std::pair<std::uint64_t, std::uint64_t>> parse_range(std::string_view text) {
  const auto number = [](std::string_view word, std::uint64_t if_empty) -> std::optional<std::uint64_t> {
    if (word.empty()) return if_empty;
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
    return value;
  };
  const std::size_t dash = text.find('-');
  const auto first = number(text.substr(0, dash), 1);
  const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1), ~std::uint64_t{0});
  if (text.empty() || text == "-" || !first || !last || *first > *last)
    return failure(fmt::format("'{}' is no range of frames such as 17, 17-25 or 17-", text));
  return std::pair(*first, *last);
}

int list_fields() {
  trace::Output output(STDOUT_FILENO);
  trace::print_field_table(output);
  output.flush();
  return kExitOk;
}

}  // namespace

void set_up_dissect(CLI::App& app, Run& run) {
  const auto options = std::make_shared<DissectOptions>();
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto fields = std::make_shared<bool>(false);

  app.add_option(
      "TRACE", *words,
      "a capture file, pcap or pcapng, also gzip-compressed; - is standard input. With -i: a capture "
      "filter in libpcap's language");
  app.add_option("-i,--interface", options->interface, "capture live until interrupted");
  add_word(app, "-o,--output", options->output, {"text", "json", "summary", "svg"},
           "one line a message (default), JSON lines, a page about the whole, or a sequence chart");
  app.add_option("--filter", options->filter, "only what fits this expression (see below)")
      ->type_name("EXPR");
  app.add_flag("-v,--verbose", options->verbose, "every event field by field, with octet offsets");
  app.add_flag("-x,--octets", options->octets, "all octets, each row with the field that lies there");
  app.add_flag("--segments", options->segments, "a line for each segment of a message");
  add_parsed(
      app, "--follow",
      [options](const std::string& text) -> Result<> {
        const auto number = parse_number(text);
        if (!number) return failure(number.error().text);
        options->stream = *number;
        return {};
      },
      "only this stream, by its number")
      ->type_name("STREAM");
  add_parsed(
      app, "--frames",
      [options](const std::string& text) -> Result<> {
        const auto range = parse_range(text);
        if (!range) return failure(range.error().text);
        options->frames = *range;
        return {};
      },
      "only what these frames completed; reading stops behind them")
      ->type_name("FIRST-LAST");
  app.add_option("--esp-keys", options->esp_keys,
                 "open ESP with the keys in this file: Wireshark's esp_sa, or a charon log with chd = 4")
      ->type_name("FILE");
  add_word(app, "--color", options->colour, {"auto", "always", "never"}, "auto: on a terminal only");
  app.add_flag("--fields", *fields, "list the fields that filters and JSON lines know, and end");
  app.footer(kFooter);

  app.callback([&app, &run, options, words, fields] {
    run = [command = full_name(app), options, words, fields] {
      if (*fields) return list_fields();
      options->command = command;
      if (!options->interface.empty()) {
        options->capture_filter = fmt::format("{}", fmt::join(*words, " "));
      } else if (words->size() == 1) {
        options->path = words->front();
      } else {
        return fail_usage(command, words->empty() ? "a capture file or -i INTERFACE is missing"
                                                  : "more than one capture file was named");
      }
      if (options->output == "summary" && (options->verbose || options->octets || options->segments ||
                                           !options->filter.empty() || options->frames))
        return fail_usage(command,
                          "-o summary is about the whole capture, or the stream that --follow names");
      if ((options->output == "json" || options->output == "svg") &&
          (options->verbose || options->octets || options->segments))
        return fail_usage(
            command, "-v, -x and --segments are about text" +
                         std::string(options->output == "json" ? "; -o json has every field anyway" : ""));
      return dissect(*options);
    };
  });
}

}  // namespace kbtp::tools
