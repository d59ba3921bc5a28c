#include "pcap/capture_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <pcap.h>

#include "pcap/byte_source.h"
#include "pcap/classic_file.h"
#include "pcap/pcapng_file.h"

namespace kbtp::trace {
namespace {

constexpr std::uint32_t kNanosecondMagic = 0xA1B23C4D;
constexpr std::uint32_t kSnapLength = 262144;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;
/// Year 2116: of times up to here the difference of any two fits.
constexpr std::int64_t kLatest = (std::int64_t{1} << 62) - 1;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

struct PcapCloser {
  void operator()(pcap_t* handle) const { pcap_close(handle); }
};

/// By LINKTYPE_ number, as in files; 12 and 14 are raw IP in files of some systems, and libpcap's DLT_RAW.
std::optional<LinkType> link_of(std::uint32_t number) {
  if (number == 12 || number == 14) return LinkType::raw_ip;
  for (const LinkType link : {LinkType::null_loopback, LinkType::ethernet, LinkType::raw_ip,
                              LinkType::openbsd_loop, LinkType::linux_sll, LinkType::erf, LinkType::ipv4,
                              LinkType::ipv6, LinkType::infiniband, LinkType::linux_sll2}) {
    if (static_cast<std::uint32_t>(link) == number) return link;
  }
  return std::nullopt;
}

/// For libpcap: a FILE that reads a ByteSource.
ssize_t read_source(void* cookie, char* to, std::size_t n) {
  auto& source = *static_cast<ByteSource*>(cookie);
  const Octets octets = source.peek(1);
  n = std::min(n, octets.size());
  std::memcpy(to, octets.data(), n);
  source.consume(n);
  return static_cast<ssize_t>(n);
}

}  // namespace

struct CaptureReader::State {
  explicit State(ByteSource from) : source(std::move(from)) {}

  ByteSource source;
  std::optional<ClassicFile> classic;
  std::optional<PcapngFile> pcapng;
  std::unique_ptr<pcap_t, PcapCloser> handle;  ///< for files that are neither
  LinkType link = LinkType::ethernet;
  std::uint64_t number = 0;
  std::string damage;
  bool over = false;

  static Result<std::unique_ptr<State>> from(ByteSource source, const std::string& name) {
    auto state = std::make_unique<State>(std::move(source));
    state->pcapng = PcapngFile::begin(state->source);
    if (state->pcapng) return state;
    state->classic = ClassicFile::begin(state->source);
    if (!state->classic) {
      if (auto opened = state->open_with_libpcap(name); !opened) return unexpected(opened.error());
    }
    const std::uint32_t number = state->classic
                                     ? state->classic->link_number()
                                     : static_cast<std::uint32_t>(pcap_datalink(state->handle.get()));
    const auto link = link_of(number);
    if (!link) {
      return failure(name + ": link type " + std::to_string(number) +
                     " is not understood (Ethernet, Linux cooked, raw IP and loopback are)");
    }
    state->link = *link;
    return state;
  }

  Result<> open_with_libpcap(const std::string& name) {
    if (source.peek(1).empty()) {
      return failure(name +
                     " is not a capture file: " + (source.error().empty() ? "it is empty" : source.error()));
    }
    File file(fopencookie(&source, "r",
                          {.read = read_source, .write = nullptr, .seek = nullptr, .close = nullptr}));
    if (!file) return failure(std::string("cannot read ") + name + ": " + std::strerror(errno));
    char text[PCAP_ERRBUF_SIZE] = "";
    handle.reset(pcap_fopen_offline_with_tstamp_precision(file.get(), PCAP_TSTAMP_PRECISION_NANO, text));
    if (handle == nullptr) return failure(name + " is not a capture file that can be read: " + text);
    // The file is the handle's from now on, and closed with it, which clang-tidy cannot know.
    static_cast<void>(file.release());  // NOLINT(bugprone-unused-return-value,clang-analyzer-unix.Stream)
    return {};
  }

  /// Of a ClassicFile or a PcapngFile.
  template <class Reader>
  std::optional<FrameView> next_of(Reader& reader) {
    auto frame = reader.next(source);
    if (!frame) damage = reader.damage();
    return frame;
  }

  std::optional<FrameView> next_of_libpcap() {
    pcap_pkthdr* header = nullptr;
    const u_char* data = nullptr;
    const int status = pcap_next_ex(handle.get(), &header, &data);
    if (status != 1) {
      if (status == PCAP_ERROR) damage = pcap_geterr(handle.get());
      return std::nullopt;
    }
    FrameView frame;
    frame.link = link;
    // With nanosecond precision asked for, tv_usec holds nanoseconds. Times are the file's: any value may
    // come.
    frame.time_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(header->ts.tv_sec) * kNsPerSecond +
                                              static_cast<std::uint64_t>(header->ts.tv_usec));
    frame.wire_length = header->len;
    frame.octets = Octets(reinterpret_cast<const std::byte*>(data), header->caplen);
    return frame;
  }

  std::optional<FrameView> next() {
    if (over) return std::nullopt;
    auto frame = classic ? next_of(*classic) : pcapng ? next_of(*pcapng) : next_of_libpcap();
    if (frame) {
      frame->number = ++number;
      frame->time_ns = std::clamp(frame->time_ns, -kLatest, kLatest);
      if (classic) frame->link = link;
      return frame;
    }
    over = true;
    if (!source.error().empty()) damage = damage.empty() ? source.error() : damage + ": " + source.error();
    if (!damage.empty()) damage = "after frame " + std::to_string(number) + ": " + damage;
    return std::nullopt;
  }
};

CaptureReader::CaptureReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
CaptureReader::CaptureReader(CaptureReader&&) noexcept = default;
CaptureReader& CaptureReader::operator=(CaptureReader&&) noexcept = default;
CaptureReader::~CaptureReader() = default;

Result<CaptureReader> CaptureReader::open(const std::string& path) {
  auto source = ByteSource::open(path);
  if (!source) return unexpected(source.error());
  auto state = State::from(std::move(*source), path == "-" ? "standard input" : path);
  if (!state) return unexpected(state.error());
  return CaptureReader(std::move(*state));
}

Result<CaptureReader> CaptureReader::over(Octets octets) {
  auto state = State::from(ByteSource::over(octets), "the capture");
  if (!state) return unexpected(state.error());
  return CaptureReader(std::move(*state));
}

std::optional<FrameView> CaptureReader::next_view() { return state_->next(); }

std::optional<Frame> CaptureReader::next() {
  const auto frame = next_view();
  if (!frame) return std::nullopt;
  return Frame{frame->number, frame->time_ns, frame->link, frame->wire_length, to_vector(frame->octets)};
}

const std::string& CaptureReader::damage() const { return state_->damage; }

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
