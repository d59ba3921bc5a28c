#include "pcap/print_json.h"

namespace kbtp::trace {
namespace {

// The names of fields and of numbers are ours and need no escapes (a test looks).

/// Readers that know numbers as doubles keep integers up to here (RFC 8259 6).
constexpr std::uint64_t kLargestExact = std::uint64_t{1} << 53;

void print_value(const Field& field, Output& output) {
  switch (field.info->kind) {
    case Kind::number:
      if (field.number <= kLargestExact) {
        output.number(field.number);
      } else {
        output.sign('"').number(field.number).sign('"');
      }
      break;
    case Kind::fixed:
      output.fixed(field.fixed(), field.info->decimals, field.info->decimals);
      break;
    case Kind::boolean:
      output.text(field.number != 0 ? "true" : "false");
      break;
    case Kind::text:
      // A word of a list is one of ours, without anything to escape.
      if (field.info->names.empty()) {
        output.json_string(field.text());
      } else {
        output.json_word(field.text());
      }
      break;
    case Kind::octets:
      output.sign('"').octets(field.octets).sign('"');
      break;
  }
}

}  // namespace

void print_json(const Record& record, Output& output) {
  char before = '{';
  for (std::size_t i = 0; i < record.fields.size(); ++i) {
    const Field& field = record.fields[i];
    output.json_key(before, field.info->name);
    before = ',';
    if (field.info->repeated) {
      char between = '[';
      for (; i < record.fields.size() && record.fields[i].info == field.info; ++i) {
        output.sign(between);
        between = ',';
        print_value(record.fields[i], output);
      }
      --i;
      output.sign(']');
      continue;
    }
    print_value(field, output);
    if (field.info->kind == Kind::number && !field.octets.empty())
      output.json_key(',', field.info->name, "_name").json_word(field.text());
  }
  output.sign('}').end_line();
}

}  // namespace kbtp::trace
