// The second opinion: what tshark 4.0 reads in a capture file. Its iWARP dissector shares nothing with ours.
//
// How it is asked: the iWARP heuristic goes before dissectors that are bound to a port, and the two
// heuristics that would take the ULP's octets for another protocol are off. tshark recognises a stream by its
// MPA Request and Reply, which must be in the capture.

#pragma once

#include <string>

#include "base/result.h"
#include "second_opinion/rows.h"

namespace kbtp::second_opinion {

/// Why tshark cannot be asked here; empty when it can.
[[nodiscard]] std::string tshark_missing();

/// All FPDUs that tshark sees in a file. `esp_keys`: text of an esp_sa file, for what is inside ESP.
[[nodiscard]] Result<Rows> ask_tshark(const std::string& path, const std::string& esp_keys = "");

}  // namespace kbtp::second_opinion
