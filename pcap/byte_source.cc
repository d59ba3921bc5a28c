#include "pcap/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>
#include <zlib.h>

#include "pcap/read_ahead.h"

namespace kbtp::trace {

namespace {

// So much is read at once: large enough that system calls do not count, small enough to stay in the cache
// until the frames in it are decoded.
constexpr std::size_t kChunk = std::size_t{256} << 10;
constexpr off_t kLongFile = off_t{1} << 20;  // from here on a thread reads ahead
constexpr int kGzipOnly = 16 + MAX_WBITS;    // zlib: expect a gzip header (RFC 1952)

/// As `n` octets have been used, fetches as many from memory that come a frame later: what a thread has read
/// ahead lies in another processor's cache, and waiting for it takes a third of the time of a summary.
void prefetch(Octets view, std::size_t n) {
  constexpr std::size_t kCacheLine = 64;
  constexpr std::size_t kAhead = 1536;
  constexpr std::size_t kMost = 2048;
  const std::size_t end = std::min(view.size(), kAhead + std::min(n, kMost));
  for (std::size_t at = kAhead; at < end; at += kCacheLine) __builtin_prefetch(view.data() + at);
}

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
  int file = -1;                     ///< -1: memory alone
  std::unique_ptr<ReadAhead> ahead;  ///< of a file that is long
  Octets view;                       ///< what peek() gives: in the memory, `buffer` or a chunk of `ahead`
  std::vector<std::byte> buffer;
  std::unique_ptr<Inflater> inflater;
  Octets packed;  ///< read and not unpacked yet: in `packed_buffer` or a chunk of `ahead`
  std::vector<std::byte> packed_buffer;
  bool sniffed = false;
  bool over = false;  ///< no more can be read
  std::string error;

  ~State() {
    ahead.reset();
    if (file > STDIN_FILENO) ::close(file);
  }

  /// Reads to `to`; 0 at the end.
  std::size_t read_some(MutableOctets to) {
    ssize_t n = 0;
    do n = ::read(file, to.data(), to.size());
    while (n < 0 && errno == EINTR);
    if (n < 0) failed(errno);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  void failed(int number) { error = std::string("reading failed: ") + std::strerror(number); }

  /// The next chunk that was read ahead; empty at the end.
  MutableOctets next_chunk() {
    const MutableOctets chunk = ahead->next();
    if (chunk.empty() && ahead->error() != 0) failed(ahead->error());
    return chunk;
  }

  /// Moves `view` to the front of `buffer`, which gets room for `n` octets; what is behind the view there.
  MutableOctets gather(std::size_t n) {
    if (buffer.size() < n) {
      std::vector<std::byte> larger(n);
      std::ranges::copy(view, larger.begin());
      buffer = std::move(larger);
    } else if (!view.empty() && view.data() != buffer.data()) {
      std::memmove(buffer.data(), view.data(), view.size());
    }
    view = Octets(buffer).first(view.size());
    return MutableOctets(buffer).subspan(view.size());
  }

  /// Adds octets behind `view`, so that there are `n` of them if this is all that is lacking.
  void fill(std::size_t n) {
    if (inflater) return unpack(gather(std::max(n, kChunk)));
    if (ahead) {
      append(next_chunk());
    } else {
      const std::size_t more = read_some(gather(std::max(n, kChunk)));
      view = Octets(buffer).first(view.size() + more);
      over = more == 0;
    }
    if (!sniffed && (over || view.size() >= 2)) sniff();
  }

  void append(MutableOctets chunk) {
    over = chunk.empty();
    if (over) return;
    if (view.size() <= ReadAhead::kHeadroom) {
      std::byte* const front = chunk.data() - view.size();
      if (!view.empty()) std::memcpy(front, view.data(), view.size());
      view = Octets(front, view.size() + chunk.size());
    } else {
      const MutableOctets room = gather(view.size() + chunk.size());
      std::ranges::copy(chunk, room.begin());
      view = Octets(buffer).first(view.size() + chunk.size());
    }
  }

  void sniff() {
    sniffed = true;
    if (view.size() < 2 || view[0] != std::byte{0x1F} || view[1] != std::byte{0x8B}) return;
    inflater = std::make_unique<Inflater>();
    packed = view;
    if (file >= 0 && !ahead) {
      packed_buffer.assign(view.begin(), view.end());
      packed = packed_buffer;
    }
    view = {};
    over = false;
    if (!inflater->ok()) {
      error = "no memory to unpack";
      over = true;
    }
  }

  void read_packed() {
    if (file < 0) return;
    if (ahead) {
      packed = next_chunk();
    } else {
      packed_buffer.resize(kChunk);
      packed = Octets(packed_buffer).first(read_some(packed_buffer));
    }
  }

  void unpack(MutableOctets room) {
    if (packed.empty()) read_packed();
    if (packed.empty()) {
      over = true;
      if (!inflater->between_members() && error.empty()) error = "the gzip data break off";
      return;
    }
    const std::size_t before = room.size();
    const bool sound = inflater->run(packed, room);
    view = Octets(buffer).first(view.size() + before - room.size());
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
  struct stat status{};
  if (fstat(state->file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > kLongFile)
    state->ahead = ReadAhead::start(state->file);
  return ByteSource(std::move(state));
}

ByteSource ByteSource::over(Octets octets) {
  auto state = std::make_unique<State>();
  state->view = octets;
  state->over = true;
  state->sniff();
  return ByteSource(std::move(state));
}

Octets ByteSource::peek(std::size_t n) {
  n = std::min(n, kMaxPeek);
  State& s = *state_;
  while (s.view.size() < n && !s.over) s.fill(n);
  return s.view;
}

void ByteSource::consume(std::size_t n) {
  Octets& view = state_->view;
  n = std::min(n, view.size());
  view = view.subspan(n);
  prefetch(view, n);
}

const std::string& ByteSource::error() const { return state_->error; }

}  // namespace kbtp::trace
