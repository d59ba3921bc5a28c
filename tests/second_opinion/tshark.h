// The second opinion: what tshark 4.0 reads in a capture file. Its iWARP dissector shares nothing with ours.
//
// How it is asked: the iWARP heuristic goes before dissectors that are bound to a port, and the two
// heuristics that would take the ULP's octets for another protocol are off. tshark recognises a stream by its
// MPA Request and Reply, which must be in the capture.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "second_opinion/rows.h"

namespace kbtp::second_opinion {

/// Why tshark cannot be asked here; empty when it can.
[[nodiscard]] std::string tshark_missing();

/// All FPDUs that tshark sees in a file. `esp_keys`: text of an esp_sa file, for what is inside ESP.
[[nodiscard]] Result<Rows> ask_tshark(const std::string& path, const std::string& esp_keys = "");

/// The values of `fields` in each frame that tshark's display filter takes, as text, empty where a field is
/// not there. No ULP is looked for inside InfiniBand: what tshark takes for one hides the ICRC.
[[nodiscard]] Result<std::vector<std::vector<std::string>>> ask_tshark_fields(
    const std::string& path, const std::string& filter, std::span<const std::string_view> fields);

}  // namespace kbtp::second_opinion
