#include "second_opinion/tshark.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string_view>

namespace kbtp::second_opinion {
namespace {

/// Runs a command and hands its standard output over line by line; false when it failed.
bool run(const std::string& command, const std::function<void(std::string_view)>& line) {
  std::FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "re");
  if (pipe == nullptr) return false;
  char* text = nullptr;
  std::size_t capacity = 0;
  for (ssize_t n = 0; (n = ::getline(&text, &capacity, pipe)) > 0;) line({text, static_cast<std::size_t>(n)});
  std::free(text);
  return ::pclose(pipe) == 0;
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

/// "10.0.0.1" of "Internet Protocol Version 4, Src: 10.0.0.1, Dst: 10.0.0.2", by its label.
std::string labelled(std::string_view text, std::string_view label) {
  const std::size_t at = text.find(label);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + label.size());
  return std::string(rest.substr(0, rest.find(',')));
}

/// Row::more, by name.
constexpr std::array<std::string_view, 26> kMore{
    "iwarp_ddp.dv",
    "iwarp_rdma.version",
    "iwarp_rdma.rsv",
    "iwarp_rdma.inval_stag",
    "iwarp_rdma.sinkstag",
    "iwarp_rdma.sinkto",
    "iwarp_rdma.rdmardsz",
    "iwarp_rdma.srcstag",
    "iwarp_rdma.srcto",
    "iwarp_rdma.term_layer",
    "iwarp_rdma.term_etype",
    "iwarp_rdma.term_errcode",
    "iwarp_rdma.term_hdrct_m",
    "iwarp_rdma.hdrct_d",
    "iwarp_rdma.hdrct_r",
    "iwarp_rdma.atomic.opcode",
    "iwarp_rdma.atomic.request_identifier",
    "iwarp_rdma.atomic.remote_stag",
    "iwarp_rdma.atomic.remote_tagged_offset",
    "iwarp_rdma.atomic.add_data",
    "iwarp_rdma.atomic.add_mask",
    "iwarp_rdma.atomic.swap_data",
    "iwarp_rdma.atomic.swap_mask",
    "iwarp_rdma.atomic.compare_data",
    "iwarp_rdma.atomic.compare_mask",
    "iwarp_rdma.atomic.original_remote_data_value",
};

/// Takes PDML line by line: each element stands on a line of its own.
class PdmlReader {
 public:
  void line(std::string_view line) {
    const std::string_view name = attribute(line, "name");
    const std::string_view show = attribute(line, "show");
    const std::string_view label = attribute(line, "showname");
    if (name == "geninfo") row_ = nullptr;
    if (name == "ip") ends(labelled(label, "Src: "), labelled(label, "Dst: "));
    if (name == "ipv6") ends("[" + labelled(label, "Src: ") + "]", "[" + labelled(label, "Dst: ") + "]");
    if (name == "tcp")
      direction_ = source_ + ":" + labelled(label, "Src Port: ") + " > " + destination_ + ":" +
                   labelled(label, "Dst Port: ");
    if (name == "iwarp_mpa.fpdu") row_ = &rows_[direction_].emplace_back();
    if (row_ == nullptr) return;
    if (name == "iwarp_mpa.ulpdulength") row_->ulpdu_length = static_cast<std::uint16_t>(number(show));
    if (name == "iwarp_mpa.crc") row_->crc = "off";
    if (name == "iwarp_mpa.crc_check")
      row_->crc = label.find("Good CRC32") != std::string_view::npos ? "good" : "bad";
    if (name == "iwarp_ddp.tagged_flag") row_->tagged = show == "1";
    if (name == "iwarp_ddp.last_flag") row_->last = show == "1";
    if (name == "iwarp_ddp.stag") row_->stag = static_cast<std::uint32_t>(number(show));
    if (name == "iwarp_ddp.tagged_offset") row_->to = number(show);
    if (name == "iwarp_ddp.qn") row_->qn = static_cast<std::uint32_t>(number(show));
    if (name == "iwarp_ddp.msn") row_->msn = static_cast<std::uint32_t>(number(show));
    if (name == "iwarp_ddp.mo") row_->mo = static_cast<std::uint32_t>(number(show));
    if (name == "iwarp_rdma.opcode") row_->opcode = static_cast<std::uint8_t>(number(show));
    for (const std::string_view more : kMore) {
      // Of an error's type and code it has names by layer.
      const bool by_layer = more.starts_with("iwarp_rdma.term_e");
      if (by_layer ? name.starts_with(more) : name == more)
        row_->more[std::string(more.substr(std::string_view("iwarp_").size()))] = number(show);
    }
  }
  [[nodiscard]] Rows rows() && { return std::move(rows_); }

 private:
  void ends(std::string source, std::string destination) {
    source_ = std::move(source);
    destination_ = std::move(destination);
  }
  Rows rows_;
  std::string source_, destination_, direction_;
  Row* row_ = nullptr;
};

}  // namespace

std::string tshark_missing() {
  std::string version;
  const bool there = run("tshark --version", [&](std::string_view line) {
    if (version.empty()) version = line.substr(0, line.find('\n'));
  });
  if (!there) return "tshark is not installed";
  return version.starts_with("TShark (Wireshark) 4.0") ? "" : "tshark is not 4.0: " + version;
}

Result<Rows> ask_tshark(const std::string& path, const std::string& esp_keys) {
  if ((path + esp_keys).find('\'') != std::string::npos)
    return failure("a path and keys without apostrophes are needed: " + path);
  std::string esp;
  std::istringstream keys(esp_keys);
  for (std::string line; std::getline(keys, line);)
    esp += " -o esp.enable_encryption_decode:TRUE -o 'uat:esp_sa:" + line + "'";
  PdmlReader reader;
  const std::string command =
      "tshark -n -r '" + path +
      "' -Y iwarp_mpa.fpdu -o tcp.try_heuristic_first:TRUE --disable-heuristic smb_direct_iwarp "
      "--disable-heuristic rpcrdma_iwarp -T pdml -J 'iwarp_mpa iwarp_ddp_rdmap'" +
      esp;
  if (!run(command, [&](std::string_view line) { reader.line(line); }))
    return failure("tshark cannot read " + path);
  return std::move(reader).rows();
}

Result<std::vector<std::vector<std::string>>> ask_tshark_fields(const std::string& path,
                                                                const std::string& filter,
                                                                std::span<const std::string_view> fields) {
  if (path.find('\'') != std::string::npos) return failure("a path without apostrophes is needed: " + path);
  std::string command = "tshark -n -r '" + path + "' -Y '" + filter +
                        "' -T fields -E separator=, -E occurrence=f "
                        "--disable-heuristic rpcrdma_infiniband --disable-heuristic smb_direct_infiniband";
  for (const std::string_view field : fields) command += " -e " + std::string(field);
  std::vector<std::vector<std::string>> rows;
  const bool done = run(command, [&](std::string_view line) {
    while (!line.empty() && line.back() == '\n') line.remove_suffix(1);
    auto& row = rows.emplace_back();
    for (std::size_t begin = 0;;) {
      const std::size_t end = line.find(',', begin);
      row.emplace_back(line.substr(begin, end - begin));
      if (end == std::string_view::npos) break;
      begin = end + 1;
    }
  });
  if (!done) return failure("tshark cannot read " + path);
  return rows;
}

Result<std::vector<KbtpMessage>> ask_tshark_kbtp(const std::string& path) {
  if (path.find('\'') != std::string::npos) return failure("a path without apostrophes is needed: " + path);
  std::vector<KbtpMessage> messages;
  std::uint64_t frame = 0;
  const auto take = [&](std::string_view line) {
    const std::string_view name = attribute(line, "name");
    const std::string_view show = attribute(line, "show");
    if (name == "num") frame = number(show);
    if (name == "kbtp") messages.push_back({frame, {}});
    const bool of_its_own = name.starts_with("kbtp.flags.") || name.starts_with("kbtp.features.") ||
                            name == "kbtp.inline" || name == "kbtp.cut";
    if (!name.starts_with("kbtp.") || of_its_own || messages.empty()) return;
    messages.back().fields[std::string(name)] =
        name == "kbtp.identity" ? std::string(show) : std::to_string(number(show));
  };
  const std::string command =
      "tshark -n -X lua_script:'" KBTP_SOURCE_DIR "/pcap/wireshark/kbtp.lua' -r '" + path +
      "' -Y kbtp -o tcp.try_heuristic_first:TRUE -o iwarp_ddp_rdmap.reassemble_iwarp_rdma_send:FALSE "
      "-T pdml -J kbtp";
  if (!run(command, take)) return failure("tshark cannot read " + path);
  return messages;
}

}  // namespace kbtp::second_opinion
