#include "second_opinion/tshark.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <optional>
#include <string_view>

namespace kbtp::second_opinion {
namespace {

std::optional<std::string> output_of(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "re");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 65536> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), n);
  return ::pclose(pipe) == 0 ? std::optional(text) : std::nullopt;
}

/// The value of an attribute in a line such as <field name="iwarp_ddp.qn" ... show="0" ...>.
std::string_view attribute(std::string_view line, std::string_view name) {
  const std::string key = " " + std::string(name) + "=\"";
  const std::size_t begin = line.find(key);
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = line.substr(begin + key.size());
  return rest.substr(0, rest.find('"'));
}

std::uint64_t number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

}  // namespace

std::string tshark_missing() {
  const auto version = output_of("tshark --version");
  if (!version) return "tshark is not installed";
  return version->starts_with("TShark (Wireshark) 4.0")
             ? ""
             : "tshark is not 4.0: " + version->substr(0, version->find('\n'));
}

Result<Rows> ask_tshark(const std::string& path) {
  if (path.find('\'') != std::string::npos) return failure("a path without apostrophes is needed: " + path);
  const auto pdml = output_of(
      fmt::format("tshark -n -r '{}' -o tcp.try_heuristic_first:TRUE --disable-heuristic smb_direct_iwarp "
                  "--disable-heuristic rpcrdma_iwarp -T pdml -J 'ip ipv6 tcp iwarp_mpa iwarp_ddp_rdmap'",
                  path));
  if (!pdml) return failure("tshark cannot read " + path);
  return read_pdml(*pdml);
}

Rows read_pdml(const std::string& pdml) {
  Rows rows;
  std::string source, destination, source_port, destination_port;
  Row* row = nullptr;
  std::size_t at = 0;
  while (at < pdml.size()) {
    const std::size_t end = std::min(pdml.find('\n', at), pdml.size());
    const std::string_view line = std::string_view(pdml).substr(at, end - at);
    at = end + 1;
    if (line.find("<packet>") != std::string_view::npos) row = nullptr;
    const std::string_view name = attribute(line, "name");
    const std::string_view show = attribute(line, "show");
    if (name == "ip.src") source = show;
    if (name == "ip.dst") destination = show;
    if (name == "ipv6.src") source = fmt::format("[{}]", show);
    if (name == "ipv6.dst") destination = fmt::format("[{}]", show);
    if (name == "tcp.srcport") source_port = show;
    if (name == "tcp.dstport") destination_port = show;
    if (name == "iwarp_mpa.fpdu") {
      auto& direction =
          rows[fmt::format("{}:{} > {}:{}", source, source_port, destination, destination_port)];
      row = &direction.emplace_back();
    }
    if (row == nullptr) continue;
    if (name == "iwarp_mpa.ulpdulength") row->ulpdu_length = static_cast<std::uint16_t>(number(show));
    if (name == "iwarp_mpa.crc") row->crc = "off";
    if (name == "iwarp_mpa.crc_check")
      row->crc = attribute(line, "showname").find("Good CRC32") != std::string_view::npos ? "good" : "bad";
    if (name == "iwarp_ddp.tagged_flag") row->tagged = show == "1";
    if (name == "iwarp_ddp.last_flag") row->last = show == "1";
    if (name == "iwarp_ddp.stag") row->stag = static_cast<std::uint32_t>(number(show));
    if (name == "iwarp_ddp.tagged_offset") row->to = number(show);
    if (name == "iwarp_ddp.qn") row->qn = static_cast<std::uint32_t>(number(show));
    if (name == "iwarp_ddp.msn") row->msn = static_cast<std::uint32_t>(number(show));
    if (name == "iwarp_ddp.mo") row->mo = static_cast<std::uint32_t>(number(show));
    if (name == "iwarp_rdma.opcode") row->opcode = static_cast<std::uint8_t>(number(show));
  }
  return rows;
}

}  // namespace kbtp::second_opinion
