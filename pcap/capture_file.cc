#include "pcap/capture_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <pcap.h>

namespace kbtp::trace {
namespace {

constexpr std::uint32_t kNanosecondMagic = 0xA1B23C4D;
constexpr std::uint32_t kSnapLength = 262144;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

struct PcapCloser {
  void operator()(pcap_t* handle) const { pcap_close(handle); }
};

/// The DLT_ numbers that libpcap hands out differ from LINKTYPE_ numbers for raw IP (12 on Linux).
std::optional<LinkType> link_of(pcap_t* handle) {
  switch (pcap_datalink(handle)) {
    case DLT_NULL:
      return LinkType::null_loopback;
    case DLT_EN10MB:
      return LinkType::ethernet;
    case DLT_RAW:
      return LinkType::raw_ip;
    case DLT_LOOP:
      return LinkType::openbsd_loop;
    case DLT_LINUX_SLL:
      return LinkType::linux_sll;
    case DLT_LINUX_SLL2:
      return LinkType::linux_sll2;
    case DLT_IPV4:
      return LinkType::ipv4;
    case DLT_IPV6:
      return LinkType::ipv6;
    default:
      return std::nullopt;
  }
}

}  // namespace

struct CaptureReader::State {
  std::unique_ptr<pcap_t, PcapCloser> handle;
  LinkType link = LinkType::ethernet;
  std::uint64_t number = 0;
  std::string damage;
  bool over = false;

  static Result<std::unique_ptr<State>> from(File file, const std::string& name) {
    char text[PCAP_ERRBUF_SIZE] = "";
    pcap_t* handle = pcap_fopen_offline_with_tstamp_precision(file.get(), PCAP_TSTAMP_PRECISION_NANO, text);
    if (handle == nullptr) return failure(name + " is not a capture file that can be read: " + text);
    // The file is the handle's from now on, and closed with it, which clang-tidy cannot know.
    // NOLINTBEGIN(bugprone-unused-return-value,clang-analyzer-unix.Stream)
    static_cast<void>(file.release());
    auto state = std::make_unique<State>();
    // NOLINTEND(bugprone-unused-return-value,clang-analyzer-unix.Stream)
    state->handle.reset(handle);
    const auto link = link_of(handle);
    if (!link) {
      return failure(name + ": link type " + std::to_string(pcap_datalink(handle)) +
                     " is not understood (Ethernet, Linux cooked, raw IP and loopback are)");
    }
    state->link = *link;
    return state;
  }
};

CaptureReader::CaptureReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
CaptureReader::CaptureReader(CaptureReader&&) noexcept = default;
CaptureReader& CaptureReader::operator=(CaptureReader&&) noexcept = default;
CaptureReader::~CaptureReader() = default;

Result<CaptureReader> CaptureReader::open(const std::string& path) {
  File file(std::fopen(path.c_str(), "rbe"));
  if (!file) return failure("cannot open " + path + ": " + std::strerror(errno));
  auto state = State::from(std::move(file), path);
  if (!state) return unexpected(state.error());
  return CaptureReader(std::move(*state));
}

Result<CaptureReader> CaptureReader::over(Octets octets) {
  if (octets.empty()) return failure("an empty capture file");
  // fmemopen() wants a pointer to non-const but opens for reading only.
  File file(fmemopen(const_cast<std::byte*>(octets.data()), octets.size(), "rb"));
  if (!file) return failure(std::string("cannot read from memory: ") + std::strerror(errno));
  auto state = State::from(std::move(file), "the capture");
  if (!state) return unexpected(state.error());
  return CaptureReader(std::move(*state));
}

std::optional<Frame> CaptureReader::next() {
  if (state_->over) return std::nullopt;
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  const int status = pcap_next_ex(state_->handle.get(), &header, &data);
  if (status != 1) {
    state_->over = true;
    if (status == PCAP_ERROR) {
      state_->damage =
          "after frame " + std::to_string(state_->number) + ": " + pcap_geterr(state_->handle.get());
    }
    return std::nullopt;
  }
  Frame frame;
  frame.number = ++state_->number;
  // With nanosecond precision asked for, tv_usec holds nanoseconds. Times are the file's: any value may come.
  frame.time_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(header->ts.tv_sec) * kNsPerSecond +
                                            static_cast<std::uint64_t>(header->ts.tv_usec));
  frame.link = state_->link;
  frame.wire_length = header->len;
  const auto* octets = reinterpret_cast<const std::byte*>(data);
  frame.octets.assign(octets, octets + header->caplen);
  return frame;
}

const std::string& CaptureReader::damage() const { return state_->damage; }
LinkType CaptureReader::link() const { return state_->link; }

namespace {

Result<CaptureFile> read_all(Result<CaptureReader> reader) {
  if (!reader) return unexpected(reader.error());
  CaptureFile file;
  while (auto frame = reader->next()) file.frames.push_back(std::move(*frame));
  file.damage = reader->damage();
  return file;
}

}  // namespace

Result<CaptureFile> read_capture(const std::string& path) { return read_all(CaptureReader::open(path)); }
Result<CaptureFile> read_capture(Octets file) { return read_all(CaptureReader::over(file)); }

std::vector<std::byte> encode_capture(std::span<const Frame> frames) {
  constexpr std::size_t kFileHeader = 24;
  constexpr std::size_t kFrameHeader = 16;
  std::size_t size = kFileHeader;
  for (const Frame& frame : frames) size += kFrameHeader + frame.octets.size();
  std::vector<std::byte> file(size);
  ByteWriter out(file);
  out.u32(kNanosecondMagic);
  out.u16(2);  // version 2.4
  out.u16(4);
  out.u32(0);  // time zone, accuracy: always 0
  out.u32(0);
  out.u32(kSnapLength);
  out.u32(static_cast<std::uint32_t>(frames.empty() ? LinkType::ethernet : frames.front().link));
  for (const Frame& frame : frames) {
    out.u32(static_cast<std::uint32_t>(frame.time_ns / kNsPerSecond));
    out.u32(static_cast<std::uint32_t>(frame.time_ns % kNsPerSecond));
    out.u32(static_cast<std::uint32_t>(frame.octets.size()));
    out.u32(frame.wire_length);
    out.bytes(frame.octets);
  }
  return file;
}

Result<> write_capture(const std::string& path, std::span<const Frame> frames) {
  const std::vector<std::byte> octets = encode_capture(frames);
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return failure("cannot write " + path + ": " + std::strerror(errno));
  const bool written = std::fwrite(octets.data(), 1, octets.size(), file) == octets.size();
  const int error = errno;
  if (std::fclose(file) != 0 || !written) {
    return failure("cannot write " + path + ": " + std::strerror(written ? errno : error));
  }
  return {};
}

}  // namespace kbtp::trace
