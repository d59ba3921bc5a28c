#include "pcap/print_fields.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace kbtp::trace {
namespace {

constexpr std::size_t kPlaceWidth = 13;
constexpr std::size_t kNameWidth = 27;
constexpr std::size_t kRow = 16;
constexpr std::size_t kShownOctets = 32;  ///< of a value in a line

bool is_marked(const FieldInfo* info, std::span<const FieldInfo* const> marked) {
  return std::ranges::find(marked, info) != marked.end();
}

const FieldInfo* field_named(std::string_view name) {
  for (const FieldInfo& info : field_groups().front()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

std::size_t width_of(std::uint64_t value) {
  std::size_t width = 1;
  for (; value >= 10; value /= 10) ++width;
  return width;
}

std::size_t digits_of(Base base) {
  switch (base) {
    case Base::hex8:
      return 2;
    case Base::hex16:
      return 4;
    case Base::hex32:
      return 8;
    case Base::hex64:
      return 16;
    case Base::decimal:
    case Base::hex:
      break;
  }
  return 1;
}

/// "2..13", "4" or nothing, right-aligned.
void print_place(const Field& field, Output& output) {
  if (field.size == 0) return static_cast<void>(output.spaces(kPlaceWidth));
  const std::uint64_t last = std::uint64_t{field.offset} + field.size - 1;
  std::size_t used = width_of(field.offset) + (field.size > 1 ? 2 + width_of(last) : 0);
  if (used < kPlaceWidth) output.spaces(kPlaceWidth - used);
  output.number(field.offset);
  if (field.size > 1) output.text("..").number(last);
}

/// What the line above the fields says already.
bool is_in_heading(const FieldInfo* info) {
  static const std::array<const FieldInfo*, 7> kThere{
      field_named("frame.number"), field_named("frame.relative"), field_named("stream"),  field_named("from"),
      field_named("frame.first"),  field_named("src.port"),       field_named("dst.port")};
  return std::ranges::find(kThere, info) != kThere.end();
}

void print_named(const Field& field, bool marked, bool with_octets, Output& output) {
  if (marked) output.colour(Colour::bold);
  output.text(field.info->name);
  if (marked) output.colour(Colour::none);
  output.spaces(field.info->name.size() < kNameWidth ? kNameWidth - field.info->name.size() : 1);
  if (field.info->kind != Kind::octets || with_octets) print_value(field, output);
}

/// A stretch of octets that begin or end no field inside it.
struct Stretch {
  std::size_t begin = 0, end = 0;
};

/// The borders of all fields cut the octets into stretches.
std::vector<Stretch> cut(const Record& record) {
  const std::size_t size = record.octets.size();
  std::vector<std::size_t> borders{0, size};
  for (const Field& field : record.fields) {
    if (field.size == 0) continue;
    borders.push_back(std::min<std::size_t>(field.offset, size));
    borders.push_back(std::min<std::size_t>(std::size_t{field.offset} + field.size, size));
  }
  std::ranges::sort(borders);
  borders.erase(std::ranges::unique(borders).begin(), borders.end());
  std::vector<Stretch> stretches;
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) stretches.push_back({borders[i], borders[i + 1]});
  return stretches;
}

void print_row(const Record& record, std::size_t at, std::size_t size, bool marked, Output& output) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  output.sign(marked ? '*' : ' ').text("   ");
  for (int shift = 12; shift >= 0; shift -= 4) output.sign(kDigits[(at >> shift) & 0x0F]);
  output.text("  ");
  if (marked) output.colour(Colour::bold);
  const Octets row = record.octets.subspan(at, size);
  output.octets(row, " ");
  if (marked) output.colour(Colour::none);
  output.spaces(3 * (kRow - size) + 2);
}

void print_text_of(Octets row, Output& output) {
  for (const std::byte octet : row) {
    const char c = static_cast<char>(octet);
    output.sign(c >= 0x20 && c < 0x7F ? c : '.');
  }
}

}  // namespace

void print_value(const Field& field, Output& output) {
  switch (field.info->kind) {
    case Kind::number:
      if (field.info->base == Base::decimal) {
        output.number(field.number);
      } else {
        output.hex(field.number, digits_of(field.info->base));
      }
      if (!field.octets.empty()) output.text("  ").text(field.text());
      break;
    case Kind::fixed:
      output.fixed(field.fixed(), field.info->decimals, field.info->decimals);
      break;
    case Kind::boolean:
      output.text(field.number != 0 ? "true" : "false");
      break;
    case Kind::text:
      // What a peer sent must not steer the terminal.
      for (const char c : field.text())
        output.sign(static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '.' : c);
      break;
    case Kind::octets:
      output.octets(field.octets.first(std::min(field.octets.size(), kShownOctets)), " ");
      if (field.octets.size() > kShownOctets) output.text(" ...");
      break;
  }
}

void print_fields(const Record& record, std::span<const FieldInfo* const> marked, Output& output) {
  for (const Field& field : record.fields) {
    if (is_in_heading(field.info) && !is_marked(field.info, marked)) continue;
    print_place(field, output);
    output.text("   ");
    print_named(field, is_marked(field.info, marked), true, output);
    output.end_line();
  }
}

void print_octets(const Record& record, std::span<const FieldInfo* const> marked, Output& output) {
  for (const Stretch& stretch : cut(record)) {
    // Of the fields that lie over the stretch the shortest says most; the others that begin here follow it.
    const auto covers = [&](const Field& field) {
      return field.size != 0 && field.offset <= stretch.begin &&
             std::size_t{field.offset} + field.size >= stretch.end;
    };
    std::size_t shortest = 0;
    bool stands_out = false;
    for (const Field& field : record.fields) {
      if (!covers(field)) continue;
      if (shortest == 0 || field.size < shortest) shortest = field.size;
      stands_out = stands_out || is_marked(field.info, marked);
    }
    for (std::size_t at = stretch.begin; at < stretch.end; at += kRow) {
      const std::size_t size = std::min(kRow, stretch.end - at);
      print_row(record, at, size, stands_out, output);
      bool named = false;
      for (const Field& field : record.fields) {
        if (!covers(field) || at != stretch.begin) continue;
        if (field.offset != stretch.begin && field.size != shortest) continue;
        if (named) {
          output.end_line();
          output.spaces(4 + 4 + 2 + 3 * kRow + 1);
        }
        named = true;
        if (field.offset == stretch.begin) {
          print_named(field, is_marked(field.info, marked), false, output);
        } else {
          output.text(field.info->name).text(", goes on");
        }
      }
      if (!named) print_text_of(record.octets.subspan(at, size), output);
      output.end_line();
    }
  }
}

void print_field_table(Output& output) {
  constexpr std::string_view kKinds[] = {"number", "decimal", "boolean", "text", "octets"};
  for (const auto group : field_groups()) {
    for (const FieldInfo& info : group) {
      output.text(info.name);
      output.spaces(info.name.size() < kNameWidth + 4 ? kNameWidth + 4 - info.name.size() : 1);
      const std::string_view kind = kKinds[static_cast<std::size_t>(info.kind)];
      output.text(kind).spaces(9 - kind.size()).text(info.help).end_line();
      if (info.names.empty()) continue;
      output.spaces(kNameWidth + 4 + 9);
      bool first = true;
      for (const std::string_view name : info.names) {
        output.text(first ? "  " : ", ").text(name);
        first = false;
      }
      output.end_line();
    }
  }
}

}  // namespace kbtp::trace
