#include "pcap/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <vector>
#include <zlib.h>

namespace kbtp::trace {

namespace {

// So much is read at once: large enough that system calls do not count, small enough to stay in the cache
// until the frames in it are decoded.
constexpr std::size_t kChunk = std::size_t{256} << 10;
constexpr int kGzipOnly = 16 + MAX_WBITS;  // zlib: expect a gzip header (RFC 1952)

/// Unpacks what fill() hands it.
class Inflater {
 public:
  Inflater() { ok_ = inflateInit2(&stream_, kGzipOnly) == Z_OK; }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool between_members() const { return between_; }
  /// Unpacks from `in` to `out`; moves both behind what was used. False when the data are damaged.
  bool run(Octets& in, MutableOctets& out) {
    if (between_ && !in.empty()) {  // another member follows (RFC 1952 2.2)
      inflateReset(&stream_);
      between_ = false;
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int status = inflate(&stream_, Z_NO_FLUSH);
    in = in.subspan(in.size() - stream_.avail_in);
    out = out.subspan(out.size() - stream_.avail_out);
    between_ = status == Z_STREAM_END;
    return status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR;
  }

 private:
  z_stream stream_{};
  bool ok_ = false;
  bool between_ = false;
};

}  // namespace

struct ByteSource::State {
  int file = -1;  ///< -1: memory alone
  Octets memory;
  std::vector<std::byte> buffer;
  std::size_t begin = 0, end = 0;  ///< of the unused part of `buffer`
  std::unique_ptr<Inflater> inflater;
  std::vector<std::byte> packed;  ///< read and not unpacked yet: from packed_begin to packed_end
  std::size_t packed_begin = 0, packed_end = 0;
  bool sniffed = false;
  bool over = false;  ///< no more can be read
  std::string error;

  ~State() {
    if (file > STDIN_FILENO) ::close(file);
  }

  /// Reads to `to`; 0 at the end.
  std::size_t read_some(MutableOctets to) {
    if (file < 0) {
      const std::size_t n = std::min(to.size(), memory.size());
      std::copy_n(memory.begin(), n, to.begin());
      memory = memory.subspan(n);
      return n;
    }
    ssize_t n = 0;
    do n = ::read(file, to.data(), to.size());
    while (n < 0 && errno == EINTR);
    if (n < 0) error = std::string("reading failed: ") + std::strerror(errno);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }

  void make_room(std::size_t n) {
    if (begin != 0) {
      std::memmove(buffer.data(), buffer.data() + begin, end - begin);
      end -= begin;
      begin = 0;
    }
    if (buffer.size() < n) buffer.resize(n);
  }

  /// Adds octets behind `end`, where there is room.
  void fill() {
    const MutableOctets room = MutableOctets(buffer).subspan(end);
    if (inflater) return unpack(room);
    const std::size_t n = read_some(room);
    end += n;
    over = n == 0;
    if (!sniffed && (over || end - begin >= 2)) sniff();
  }

  void sniff() {
    sniffed = true;
    const bool gzip =
        end - begin >= 2 && buffer[begin] == std::byte{0x1F} && buffer[begin + 1] == std::byte{0x8B};
    if (!gzip) return;
    inflater = std::make_unique<Inflater>();
    packed.assign(buffer.begin() + static_cast<std::ptrdiff_t>(begin),
                  buffer.begin() + static_cast<std::ptrdiff_t>(end));
    packed_begin = 0;
    packed_end = packed.size();
    packed.resize(std::max(packed.size(), kChunk));
    begin = end = 0;
    over = false;
    if (!inflater->ok()) {
      error = "no memory to unpack";
      over = true;
    }
  }

  void unpack(MutableOctets room) {
    if (packed_begin == packed_end) {
      packed_begin = 0;
      packed_end = read_some(packed);
      if (packed_end == 0) {
        over = true;
        if (!inflater->between_members() && error.empty()) error = "the gzip data break off";
        return;
      }
    }
    Octets in = Octets(packed).subspan(packed_begin, packed_end - packed_begin);
    const std::size_t before = room.size();
    const bool sound = inflater->run(in, room);
    packed_begin = packed_end - in.size();
    end += before - room.size();
    if (!sound) {
      error = "the gzip data are damaged";
      over = true;
    }
  }
};

ByteSource::ByteSource(std::unique_ptr<State> state) : state_(std::move(state)) {}
ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&&) noexcept = default;
ByteSource::~ByteSource() = default;

Result<ByteSource> ByteSource::open(const std::string& path) {
  auto state = std::make_unique<State>();
  state->file = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (state->file < 0) return failure("cannot open " + path + ": " + std::strerror(errno));
  return ByteSource(std::move(state));
}

ByteSource ByteSource::over(Octets octets) {
  auto state = std::make_unique<State>();
  state->memory = octets;
  return ByteSource(std::move(state));
}

Octets ByteSource::peek(std::size_t n) {
  n = std::min(n, kMaxPeek);
  State& s = *state_;
  if (s.end - s.begin < n && !s.over) {
    s.make_room(std::max(n, kChunk));
    while (s.end - s.begin < n && !s.over) s.fill();
  }
  return Octets(s.buffer).subspan(s.begin, s.end - s.begin);
}

void ByteSource::consume(std::size_t n) { state_->begin += std::min(n, state_->end - state_->begin); }

const std::string& ByteSource::error() const { return state_->error; }

}  // namespace kbtp::trace
