// The second opinion: what tshark 4.0 reads in a capture file. Its iWARP dissector shares nothing with ours.
//
// How it is asked: the iWARP heuristic goes before dissectors that are bound to a port, and the two
// heuristics that would take the ULP's octets for another protocol are off. tshark recognises a stream by its
// MPA Request and Reply, which must be in the capture.

#pragma once

#include <cstdint>
#include <map>
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

/// A KBTP message as the Lua dissector in pcap/wireshark reads it: its kbtp.* fields, numbers in decimal.
/// Fields that `kbtp dissect` has not, the single flags and the inline data, are left out.
struct KbtpMessage {
  std::uint64_t frame = 0;
  std::map<std::string, std::string> fields;
  bool operator==(const KbtpMessage&) const = default;
};
/// In the order of the file. Sends are not put together: tshark 4.0 then shows only the first one of a frame.
[[nodiscard]] Result<std::vector<KbtpMessage>> ask_tshark_kbtp(const std::string& path);

}  // namespace kbtp::second_opinion
