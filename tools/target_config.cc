#include "tools/target_config.h"

#include <algorithm>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <limits>
#include <toml++/toml.h>

#include "tools/cli.h"
#include "tools/toml_table.h"

namespace kbtp::tools {

namespace {

constexpr std::uint64_t kMax32 = std::numeric_limits<std::uint32_t>::max();
// TOML's integers have 63 bits.
constexpr std::uint64_t kMax63 = std::numeric_limits<std::int64_t>::max();

Result<> read_deadlines(const toml::table& table, const std::string& file, target::Deadlines& deadlines) {
  TableReader reader(table, "deadlines.", file);
  reader.seconds("hello", deadlines.hello);
  reader.seconds("allocation", deadlines.allocation);
  reader.seconds("read", deadlines.read);
  reader.seconds("send", deadlines.send);
  reader.seconds("setup", deadlines.setup);
  reader.seconds("linger", deadlines.linger);
  return reader.finish();
}

Result<> read_anonymous(const toml::table& table, const std::string& file, target::AnonymousPolicy& policy) {
  TableReader reader(table, "anonymous.", file);
  reader.boolean("accept", policy.accept_anonymous);
  reader.boolean("accept_unknown_identity", policy.accept_unknown_identity);
  reader.text("trust_domain", policy.domain);
  reader.number("max_quota", policy.max_quota, 0, kMax32);
  reader.number("max_handles", policy.max_handles, 0, kMax63);
  return reader.finish();
}

bool is_address(const std::string& text) {
  in6_addr address;
  return inet_pton(AF_INET, text.c_str(), &address) == 1 || inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

Result<> read_initiator(const toml::table& table, const std::string& file,
                        target::NamedInitiator& initiator) {
  TableReader reader(table, "initiator.", file);
  std::string identity;
  if (reader.text("identity", identity)) {
    const auto uuid = parse_uuid(identity);
    if (!uuid) {
      reader.wrong_at_key("identity", uuid.error().text);
    } else if (uuid->is_zero()) {
      reader.wrong_at_key("identity", "must not be all zero, which means anonymous");
    } else {
      initiator.identity = *uuid;
    }
  } else {
    reader.missing("identity");
  }
  // G-51: an identity is worth what proves it; here that is the address it comes from.
  if (!reader.text("address", initiator.address)) {
    reader.missing("address");
  } else if (!is_address(initiator.address)) {
    reader.wrong_at_key("address", "must be an IPv4 or IPv6 address, without a port");
  }
  reader.text("trust_domain", initiator.domain);
  reader.number("quota", initiator.quota, 0, kMax32);
  initiator.handles = initiator.quota;
  reader.number("handles", initiator.handles, 0, kMax63);
  if (initiator.quota > 0 && initiator.handles == 0)
    reader.wrong_at_key("handles", "must be at least 1 when there is a quota");
  if (reader.has("base_handle")) {
    std::uint64_t base = 0;
    reader.number("base_handle", base, 0, kMax63);
    initiator.base_handle = base;
  }
  reader.boolean("direct_load", initiator.direct_load);
  reader.boolean("direct_alloc", initiator.direct_alloc);
  if (initiator.direct_alloc && initiator.quota == 0)
    reader.wrong_at_key("direct_alloc", "needs a quota, which is the partition it allocates from");
  return reader.finish();
}

Result<> read_direct(const toml::table& table, const std::string& file, target::DirectOptions& direct) {
  TableReader reader(table, "direct.", file);
  std::uint32_t milliseconds = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(direct.ticket_timeout).count());
  reader.number("ticket_timeout_ms", milliseconds, 10, 86'400'000);
  direct.ticket_timeout = std::chrono::milliseconds(milliseconds);
  std::string word;
  if (reader.text("abandonment", word)) {
    if (word != "end_connection" && word != "invalidate_partition")
      reader.wrong_at_key("abandonment", "must be \"end_connection\" or \"invalidate_partition\"");
    direct.abandonment = word == "invalidate_partition" ? target::Abandonment::invalidate_partition
                                                        : target::Abandonment::end_connection;
  }
  return reader.finish();
}

Result<ServeSettings> read_root(const toml::table& root, const std::string& file) {
  ServeSettings settings;
  target::TargetConfig& target = settings.target;
  TableReader reader(root, "", file);
  reader.endpoint("listen", settings.listen);
  reader.endpoint("metrics", settings.metrics);
  std::string word;
  if (reader.text("transport", word)) {
    if (word != "rdmap" && word != "verbs")
      reader.wrong_at_key("transport", "must be \"rdmap\" or \"verbs\"");
    settings.transport.transport = word;
  }
  reader.text("device", settings.transport.device);
  if (reader.text("network", word)) {
    if (word != "trusted" && word != "untrusted")
      reader.wrong_at_key("network", "must be \"trusted\" or \"untrusted\"");
    settings.network = word == "trusted" ? Network::trusted : Network::untrusted;
  }
  reader.number("blocks", target.blocks, 1, std::uint64_t{1} << 28);
  reader.number("block_size", target.block_size, 8, kMax32);
  reader.number("handles", target.handles, 1, kMax63);
  settings.handles_given = reader.has("handles");
  reader.number("table_base_handle", target.table_base_handle, 0, kMax63);
  reader.number("reserve", target.reserve, 0, std::uint64_t{1} << 28);
  reader.number("max_inline", target.max_inline, 0, std::uint64_t{1} << 20);
  reader.number("max_requests", target.max_requests, 1, 65535);
  reader.number("max_sessions", target.max_sessions, 1, 65535);
  reader.number("ird", target.ird, 0, 16383);
  reader.number("ord", target.ord, 0, 16383);
  reader.boolean("crc", settings.rnic.crc);
  reader.boolean("spin", settings.rnic.spin);
  reader.number("loops", settings.rnic.loops, 1, 256);
  reader.text("congestion_control", settings.rnic.congestion_control);

  if (const toml::table* table = reader.table("deadlines")) {
    if (auto read = read_deadlines(*table, file, target.deadlines); !read) return unexpected(read.error());
  }
  if (const toml::table* table = reader.table("anonymous")) {
    if (auto read = read_anonymous(*table, file, target.anonymous); !read) return unexpected(read.error());
  }
  if (const toml::table* table = reader.table("direct")) {
    if (auto read = read_direct(*table, file, target.direct); !read) return unexpected(read.error());
  }
  if (const toml::array* initiators = reader.tables("initiator")) {
    for (const toml::node& node : *initiators) {
      target::NamedInitiator initiator;
      if (auto read = read_initiator(*node.as_table(), file, initiator); !read)
        return unexpected(read.error());
      for (const auto& other : target.initiators) {
        if (other.identity == initiator.identity)
          return failure(fmt::format("{}:{}: this identity is named twice", file, node.source().begin.line));
      }
      target.initiators.push_back(std::move(initiator));
    }
  }
  if (auto finished = reader.finish(); !finished) return unexpected(finished.error());
  return settings;
}

}  // namespace

Result<ServeSettings> parse_target_config(std::string_view text, const std::string& name) {
  try {
    const toml::table root = toml::parse(text, name);
    return read_root(root, name);
  } catch (const toml::parse_error& error) {
    return failure(fmt::format("{}:{}: {}", name, error.source().begin.line, error.description()));
  }
}

}  // namespace kbtp::tools
