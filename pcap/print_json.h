// A Record as one line of JSON (docs/dissect-json.md).

#pragma once

#include "pcap/output.h"
#include "pcap/record.h"

namespace kbtp::trace {

void print_json(const Record& record, Output& output);

}  // namespace kbtp::trace
