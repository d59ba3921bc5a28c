// A Record field by field, with the octets that each was read from (-v), and all octets with the fields that
// lie in them (-x).

#pragma once

#include <span>

#include "pcap/output.h"
#include "pcap/record.h"

namespace kbtp::trace {

/// "   2..13   ddp.to   0x0000000000001000"; offsets count in Record::octets. Fields in `marked` stand out.
void print_fields(const Record& record, std::span<const FieldInfo* const> marked, Output& output);

/// Every octet once: those of a field in a row of their own that ends with its name and value, those of no
/// field in rows of 16. Rows of fields in `marked` begin with "*".
void print_octets(const Record& record, std::span<const FieldInfo* const> marked, Output& output);

/// A value for people.
void print_value(const Field& field, Output& output);

/// The table of all fields: name, kind, what it is.
void print_field_table(Output& output);

}  // namespace kbtp::trace
