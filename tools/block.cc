// `kbtp block`: one operation from the shell.

#include <fmt/format.h>
#include <limits>
#include <memory>

#include "rdmap_binding/rnic/rnic.h"
#include "tools/cli.h"
#include "tools/client.h"
#include "tools/files.h"
#include "tools/rnic_choices.h"
#include "tools/subcommand.h"
#include "tools/transport.h"

namespace kbtp::tools {

namespace {

constexpr const char* kFooter =
    R"(Without --identity the session is anonymous: what it binds is private to it and freed when it ends.

Examples:
  kbtp block stat --target 127.0.0.1:7420 --handle 7
  kbtp block alloc-store --target 127.0.0.1:7420 --handle 7 --seal --input page.bin \
      --identity 123e4567-e89b-12d3-a456-426614174000
  kbtp block load --target '[::1]:7420' --handle 7 > page.bin
  kbtp block free --target 127.0.0.1:7420 --handle 7 --identity 123e4567-e89b-12d3-a456-426614174000
  kbtp block load --direct --target 127.0.0.1:7420 --handle 7 \
      --identity 123e4567-e89b-12d3-a456-426614174000 > page.bin)";

// A block's Data Length has 32 bits.
constexpr std::uint64_t kMaxData = std::numeric_limits<std::uint32_t>::max();

struct Options {
  std::optional<Endpoint> target;
  std::uint64_t handle = 0;
  Uuid identity;
  std::uint64_t generation = 0;
  std::uint64_t deadline = 30;
  bool crc = true;
  bool allow_unsealed = false;
  bool seal = false;
  bool in_request = false;
  bool direct = false;
  std::string input = "-";
  std::string output = "-";
  RnicChoices choices;
  TransportOptions transport;
};

// An operation: what it asks of HELLO, and what it does with the session. Returns an exit status.
struct Operation {
  const char* name;
  const char* summary;
  const char* examples;
  bool owns;    // needs a range of its own: STORE, ALLOC_STORE, FREE
  bool stores;  // reads data
  int (*run)(initiator::SyncInitiator& session, const Options& options, std::span<std::byte> data,
             std::string_view command);
};

int tell_status(const Options& options, const initiator::Outcome& outcome, std::string_view command) {
  if (outcome.direct == initiator::DirectFailure::unavailable)
    return fail(command, kExitUnreachable, outcome.error);
  if (outcome.direct != initiator::DirectFailure::none)
    return fail(command, kExitFindings, fmt::format("handle {}: {}", options.handle, outcome.error));
  if (!outcome.answered) return fail(command, kExitUnreachable, "the session was lost: " + outcome.error);
  if (outcome.status == wire::Status::success) return kExitOk;
  return fail(command, kExitFindings,
              fmt::format("handle {}: {}", options.handle, wire::to_string(outcome.status)));
}

void tell_entry(const Options& options, const initiator::Outcome& outcome) {
  fmt::print(stderr, "handle {}: Data Length {}, Generation {}\n", options.handle, outcome.data_length,
             outcome.generation);
}

int load(initiator::SyncInitiator& session, const Options& options, std::span<std::byte>,
         std::string_view command) {
  std::vector<std::byte> sink(session.info().block_size);
  const auto generation = static_cast<std::uint16_t>(options.generation);
  const auto outcome =
      options.direct ? session.direct_load(options.handle, sink, {.generation = generation})
                     : session.load(options.handle, sink,
                                    {.allow_unsealed = options.allow_unsealed, .generation = generation});
  if (const int status = tell_status(options, outcome, command); status != kExitOk) return status;
  tell_entry(options, outcome);
  const auto written = write_file(options.output, Octets(sink).first(outcome.data_length));
  return written ? kExitOk : fail(command, kExitUnreachable, written.error().text);
}

initiator::StoreOptions store_options(const Options& options) {
  return {.seal = options.seal, .generation = static_cast<std::uint16_t>(options.generation)};
}

int store(initiator::SyncInitiator& session, const Options& options, std::span<std::byte> data,
          std::string_view command) {
  const auto outcome = session.store(options.handle, data, store_options(options), options.in_request);
  const int status = tell_status(options, outcome, command);
  if (status == kExitOk) tell_entry(options, outcome);
  return status;
}

int alloc_store(initiator::SyncInitiator& session, const Options& options, std::span<std::byte> data,
                std::string_view command) {
  const auto outcome =
      options.direct
          ? session.direct_alloc_store(
                options.handle, data,
                {.seal = options.seal, .generation = static_cast<std::uint16_t>(options.generation)})
          : session.alloc_store(options.handle, data, store_options(options), options.in_request);
  const int status = tell_status(options, outcome, command);
  if (status == kExitOk) tell_entry(options, outcome);
  return status;
}

int free_block(initiator::SyncInitiator& session, const Options& options, std::span<std::byte>,
               std::string_view command) {
  const auto outcome = session.free(options.handle, static_cast<std::uint16_t>(options.generation));
  const int status = tell_status(options, outcome, command);
  if (status == kExitOk) tell_entry(options, outcome);
  return status;
}

int stat(initiator::SyncInitiator& session, const Options& options, std::span<std::byte>,
         std::string_view command) {
  const auto outcome = session.probe(options.handle);
  // G-16: both answers mean that the handle is bound; with LENGTH_ERROR the block is not empty.
  if (outcome.answered && outcome.status == wire::Status::length_error) {
    fmt::print("handle {}: bound, Data Length {}, Generation {}\n", options.handle, outcome.data_length,
               outcome.generation);
    return kExitOk;
  }
  const int status = tell_status(options, outcome, command);
  if (status == kExitOk)
    fmt::print("handle {}: bound, Data Length 0, Generation {}\n", options.handle, outcome.generation);
  return status;
}

constexpr Operation kOperations[] = {
    {"load", "LOAD (KBTP 6.1): a block's data to a file or standard output",
     "Examples:\n  kbtp block load --target 127.0.0.1:7420 --handle 7 --output page.bin\n"
     "  kbtp block load --direct --target 127.0.0.1:7420 --handle 7 --output page.bin \\\n"
     "      --identity 123e4567-e89b-12d3-a456-426614174000",
     false, false, load},
    {"store", "STORE (KBTP 6.2): new data for a block that is bound and not sealed",
     "Example:\n  kbtp block store --target 127.0.0.1:7420 --handle 7 --input page.bin --seal \\\n"
     "      --identity 123e4567-e89b-12d3-a456-426614174000",
     true, true, store},
    {"alloc-store", "ALLOC_STORE (KBTP 6.3): takes a free block, fills it and binds it to the handle",
     "Examples:\n  kbtp block alloc-store --target 127.0.0.1:7420 --handle 7 --input page.bin --seal \\\n"
     "      --identity 123e4567-e89b-12d3-a456-426614174000\n"
     "  kbtp block alloc-store --direct --target 127.0.0.1:7420 --handle 7 --input page.bin --seal \\\n"
     "      --identity 123e4567-e89b-12d3-a456-426614174000",
     true, true, alloc_store},
    {"free", "FREE (KBTP 6.4): unbinds the handle and gives the block back",
     "Example:\n  kbtp block free --target 127.0.0.1:7420 --handle 7 \\\n"
     "      --identity 123e4567-e89b-12d3-a456-426614174000",
     true, false, free_block},
    {"stat", "whether the handle is bound, with Data Length and Generation",
     "A LOAD with ALLOW_UNSEALED and a zero-length descriptor: SUCCESS and LENGTH_ERROR both mean "
     "bound.\n\n"
     "Example:\n  kbtp block stat --target 127.0.0.1:7420 --handle 7",
     false, false, stat},
};

int run_operation(const Operation& operation, const Options& options, const std::string& command) {
  const bool anonymous = options.identity.is_zero();
  if (options.direct && anonymous) {
    return fail_usage(command,
                      "--direct needs --identity: a target grants direct modes to initiators that it knows");
  }
  std::vector<std::byte> data;
  if (operation.stores) {
    auto read = read_file(options.input, kMaxData);
    if (!read) return fail(command, kExitUnreachable, read.error().text);
    data = std::move(*read);
  }
  rnic::RnicOptions rnic_options;
  rnic_options.crc = options.crc;
  options.choices.apply_to(rnic_options);
  if (const char* wrong = contradiction(options.transport, rnic_options)) return fail_usage(command, wrong);
  auto provider = open_provider_towards(options.transport, rnic_options, *options.target);
  if (!provider) return fail(command, kExitUnreachable, provider.error().text);
  initiator::ConnectOptions connect;
  options.choices.apply_to(connect);
  connect.identity = options.identity;
  connect.operation_deadline = std::chrono::seconds(options.deadline);
  connect.wanted.record_completion = options.transport.records;
  connect.wanted.direct_load = options.direct && !operation.owns;
  connect.wanted.direct_alloc = options.direct && operation.owns;
  if (operation.owns) {
    connect.base_handle = options.handle;
    connect.quota = 1;
    connect.handles = 1;
    if (anonymous) {
      fmt::print(stderr, "{}: without --identity the range is private to this session and gone at its end\n",
                 command);
    }
  }
  auto session = reach(**provider, *options.target, connect);
  if (!session) return fail(command, kExitUnreachable, session.error().text);
  const int status = operation.run(**session, options, data, command);
  (*session)->close();
  return status;
}

void add_operation(CLI::App& app, Run& run, const Operation& operation) {
  CLI::App& sub = *app.add_subcommand(operation.name, operation.summary);
  const auto options = std::make_shared<Options>();
  add_endpoint(sub, "--target", options->target, "address of the target")->required();
  add_number(sub, "--handle", options->handle, 0, ~std::uint64_t{0}, "block handle")->required();
  add_parsed(
      sub, "--identity",
      [options](const std::string& text) -> Result<> {
        auto uuid = parse_uuid(text);
        if (!uuid) return unexpected(uuid.error());
        options->identity = *uuid;
        return {};
      },
      "Initiator Identity, as the target's configuration names it")
      ->type_name("UUID");
  if (std::string_view(operation.name) != "stat")
    add_number(sub, "--generation", options->generation, 0, 65535, "Generation expected; 0 is any (0)");
  add_number(sub, "--deadline", options->deadline, 1, 86400, "seconds that the operation may take (30)");
  add_switch(sub, "--crc", options->crc, "ask for MPA CRCs (on)");
  add_rnic_choices(sub, options->choices);
  add_transport_options(sub, options->transport);
  add_records_option(sub, options->transport);
  if (operation.stores) {
    sub.add_option("--input", options->input, "file with the data, - for standard input (-)")
        ->type_name("FILE");
    sub.add_flag("--seal", options->seal, "seal the block after the store");
    CLI::Option* in_request =
        sub.add_flag("--inline", options->in_request, "send the data inside the request when it fits");
    if (operation.run == alloc_store) {
      sub.add_flag(
             "--direct", options->direct,
             "DIRECT_ALLOC (KBTP 6.6): take the block and write it without the target's processor, then "
             "BIND; needs --identity")
          ->excludes(in_request);
    }
  } else if (operation.run == load) {
    sub.add_option("--output", options->output, "file for the data, - for standard output (-)")
        ->type_name("FILE");
    CLI::Option* unsealed =
        sub.add_flag("--allow-unsealed", options->allow_unsealed, "load a block that is not sealed, too");
    sub.add_flag("--direct", options->direct,
                 "DIRECT_LOAD (KBTP 6.6): by RDMA Reads, without the target's processor; needs --identity")
        ->excludes(unsealed);
  }
  sub.footer(operation.examples);
  sub.callback([&sub, &run, options, &operation] {
    run = [&sub, options, &operation] { return run_operation(operation, *options, full_name(sub)); };
  });
}

}  // namespace

void set_up_block(CLI::App& app, Run& run) {
  for (const Operation& operation : kOperations) add_operation(app, run, operation);
  app.footer(kFooter);
}

}  // namespace kbtp::tools
