#include "tools/conform_profile.h"

#include <toml++/toml.h>

#include "tools/toml_table.h"

namespace kbtp::tools {

namespace {

using conformance::Allowances;
using conformance::Identities;
using conformance::Profile;
using wire::Assignment;

// Where a field of a message lies, by the name that the draft and the review give it.
template <class Layout>
struct Field {
  std::string_view key;
  std::uint16_t Layout::* member;
};
constexpr Field<wire::HelloLayout> kHello[] = {
    {"min_version", &wire::HelloLayout::min_version},
    {"max_version", &wire::HelloLayout::max_version},
    {"max_requests", &wire::HelloLayout::max_requests},
    {"receive_size", &wire::HelloLayout::receive_size},
    {"quota", &wire::HelloLayout::quota},
    {"handle_count", &wire::HelloLayout::handle_count},
    {"identity", &wire::HelloLayout::identity},
    {"length", &wire::HelloLayout::length},
};
constexpr Field<wire::HelloAckLayout> kHelloAck[] = {
    {"version", &wire::HelloAckLayout::version},
    {"min_version", &wire::HelloAckLayout::min_version},
    {"max_version", &wire::HelloAckLayout::max_version},
    {"ring_log2", &wire::HelloAckLayout::ring_log2},
    {"max_requests", &wire::HelloAckLayout::max_requests},
    {"max_inline", &wire::HelloAckLayout::max_inline},
    {"block_size", &wire::HelloAckLayout::block_size},
    {"handle_count", &wire::HelloAckLayout::handle_count},
    {"table_base_handle", &wire::HelloAckLayout::table_base_handle},
    {"table_handle_count", &wire::HelloAckLayout::table_handle_count},
    {"pool_blocks", &wire::HelloAckLayout::pool_blocks},
    {"quota", &wire::HelloAckLayout::quota},
    {"usage", &wire::HelloAckLayout::usage},
    {"ticket_timeout_ms", &wire::HelloAckLayout::ticket_timeout_ms},
    {"table_stag", &wire::HelloAckLayout::table_stag},
    {"table_offset", &wire::HelloAckLayout::table_offset},
    {"pool_stag", &wire::HelloAckLayout::pool_stag},
    {"partition_stag", &wire::HelloAckLayout::partition_stag},
    {"ring_stag", &wire::HelloAckLayout::ring_stag},
    {"head_stag", &wire::HelloAckLayout::head_stag},
    {"ring_offset", &wire::HelloAckLayout::ring_offset},
    {"head_offset", &wire::HelloAckLayout::head_offset},
    {"pool_offset", &wire::HelloAckLayout::pool_offset},
    {"pool_length", &wire::HelloAckLayout::pool_length},
    {"partition_offset", &wire::HelloAckLayout::partition_offset},
    {"partition_length", &wire::HelloAckLayout::partition_length},
    {"length", &wire::HelloAckLayout::length},
};
constexpr Field<wire::BindLayout> kBind[] = {
    {"ticket", &wire::BindLayout::ticket},
    {"data_length", &wire::BindLayout::data_length},
    {"block_offset", &wire::BindLayout::block_offset},
    {"length", &wire::BindLayout::length},
};
constexpr Field<wire::CompletionLayout> kCompletion[] = {
    {"data_length", &wire::CompletionLayout::data_length},
    {"block_offset", &wire::CompletionLayout::block_offset},
    {"length", &wire::CompletionLayout::length},
};

template <class Layout, std::size_t N>
Result<> read_layout(TableReader& parent, std::string_view name, const std::string& file,
                     const Field<Layout> (&fields)[N], Layout& layout) {
  const toml::table* table = parent.table(name);
  if (table == nullptr) return {};
  TableReader reader(*table, "assignment." + std::string(name) + ".", file);
  for (const Field<Layout>& field : fields) reader.number(field.key, layout.*field.member, 0, 65'535);
  return reader.finish();
}

/// Numbers of a table whose keys are the draft's names: opcodes, statuses, features.
template <class Name, class Number, std::size_t N>
Result<> read_codes(TableReader& parent, std::string_view name, const std::string& file,
                    std::array<Number, N>& codes) {
  const toml::table* table = parent.table(name);
  if (table == nullptr) return {};
  TableReader reader(*table, "assignment." + std::string(name) + ".", file);
  for (std::size_t i = 0; i < N; ++i)
    reader.number(to_string(static_cast<Name>(i)), codes[i], 0, std::numeric_limits<Number>::max());
  return reader.finish();
}

Result<> read_assignment(const toml::table& table, const std::string& file, Assignment& assignment) {
  TableReader reader(table, "assignment.", file);
  Assignment& a = assignment;
  if (auto read = read_codes<wire::Opcode>(reader, "opcodes", file, a.opcodes); !read) return read;
  if (auto read = read_codes<wire::Status>(reader, "statuses", file, a.statuses); !read) return read;
  if (auto read = read_codes<wire::Feature>(reader, "features", file, a.features); !read) return read;
  if (auto read = read_codes<wire::Opcode>(reader, "legal_flags", file, a.legal_flags); !read) return read;
  if (auto read = read_layout(reader, "hello", file, kHello, a.hello); !read) return read;
  if (auto read = read_layout(reader, "hello_ack", file, kHelloAck, a.hello_ack); !read) return read;
  if (auto read = read_layout(reader, "bind", file, kBind, a.bind); !read) return read;
  if (auto read = read_layout(reader, "completion", file, kCompletion, a.completion); !read) return read;
  if (auto finished = reader.finish(); !finished) return finished;
  if (auto good = wire::check(a); !good)
    return failure(fmt::format("{}:{}: these values cannot be worked with: {}", file,
                               table.source().begin.line, good.error().text));
  return {};
}

void read_uuid(TableReader& reader, std::string_view key, Uuid& value) {
  std::string text;
  if (!reader.text(key, text)) return;
  const auto uuid = Uuid::parse(text);
  if (!uuid || uuid->is_zero())
    return reader.wrong_at_key(key, "must be a UUID other than that of all zeros");
  value = *uuid;
}

Result<> read_identities(const toml::table& table, const std::string& file, Identities& identities) {
  TableReader reader(table, "identities.", file);
  read_uuid(reader, "first", identities.first);
  read_uuid(reader, "second", identities.second);
  read_uuid(reader, "foreign", identities.foreign);
  read_uuid(reader, "untrusted", identities.untrusted);
  if (identities.first.is_zero() != identities.second.is_zero())
    reader.missing(identities.first.is_zero() ? "first" : "second");
  return reader.finish();
}

Result<> read_allowances(const toml::table& table, const std::string& file, Allowances& allowances) {
  TableReader reader(table, "allowances.", file);
  reader.milliseconds("pause_after_reply_ms", allowances.pause_after_reply, 0, 10'000);
  reader.boolean("whole_trailers", allowances.whole_trailers);
  reader.boolean("swapped_terminates", allowances.swapped_terminates);
  return reader.finish();
}

Result<> read_target(const toml::table& table, const std::string& file, Profile& profile) {
  TableReader reader(table, "target.", file);
  if (reader.has("quota")) reader.number("quota", profile.quota.emplace(), 0, 0xFFFF'FFFF);
  if (reader.has("handles")) reader.number("handles", profile.handles.emplace(), 0, ~std::uint64_t{0} >> 1);
  return reader.finish();
}

Result<Profile> read_root(const toml::table& root, const std::string& file) {
  Profile profile;
  TableReader reader(root, "", file);
  if (!reader.text("name", profile.name)) reader.missing("name");
  reader.milliseconds("patience_ms", profile.allowances.patience, 100, 600'000);
  if (const toml::table* table = reader.table("assignment")) {
    if (auto read = read_assignment(*table, file, profile.assignment); !read) return unexpected(read.error());
  }
  if (const toml::table* table = reader.table("identities")) {
    if (auto read = read_identities(*table, file, profile.identities); !read) return unexpected(read.error());
  }
  if (const toml::table* table = reader.table("allowances")) {
    if (auto read = read_allowances(*table, file, profile.allowances); !read) return unexpected(read.error());
  }
  if (const toml::table* table = reader.table("target")) {
    if (auto read = read_target(*table, file, profile); !read) return unexpected(read.error());
  }
  if (auto finished = reader.finish(); !finished) return unexpected(finished.error());
  return profile;
}

}  // namespace

Result<Profile> parse_profile(std::string_view text, const std::string& file) {
  try {
    return read_root(toml::parse(text, file), file);
  } catch (const toml::parse_error& error) {
    return failure(fmt::format("{}:{}: {}", file, error.source().begin.line, error.description()));
  }
}

}  // namespace kbtp::tools
