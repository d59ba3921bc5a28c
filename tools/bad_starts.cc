#include "tools/bad_starts.h"

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>

namespace kbtp::tools {

namespace {

using namespace std::string_literals;

constexpr double kLongestHold = 8;  // seconds; longer than a target's HELLO deadline
constexpr std::size_t kMostAtOnce = 32;

}  // namespace

BadStarts::BadStarts(const SocketAddress& target, double per_second, std::uint64_t seed)
    : target_(target), per_second_(per_second), random_(seed) {}

BadStarts::~BadStarts() { close_all(); }

// RFC 5044 7.1.1: key (16), flags, revision, private data length (2).
std::string BadStarts::choose_octets() {
  const std::string key = "MPA ID Req Frame";
  std::string good = key + "\x40\x01\x00\x00"s;
  std::string noise(1 + random_() % 300, '\0');
  for (char& octet : noise) octet = static_cast<char>(random_());
  switch (random_() % 10) {
    case 0:
      return {};  // half open
    case 1:
      return good.substr(0, 1 + random_() % 19);
    case 2:
      return "MPA ID Rep Frame\x40\x01\x00\x00"s;  // a Reply where a Request should be
    case 3:
      return key + "\x40\x01\x02\x01"s + std::string(513, 'p');  // too much private data
    case 4:
      return key + "\x40\x01\xff\xff"s;  // 65535 octets of it, none sent
    case 5:
      return key + "\x50\x02\x00\x02"s + "\x00\x08"s;  // enhanced, with half of its 4 octets
    case 6:
      return "GET / HTTP/1.1\r\n\r\n";
    case 7:
      return good;  // and then silence: no HELLO
    case 8:
      return good + noise;
    default:
      return noise;
  }
}

void BadStarts::begin(TimePoint now) {
  const int fd = socket(target_.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  if (connect(fd, target_.get(), target_.length()) != 0 && errno != EINPROGRESS) {
    close(fd);
    return;
  }
  const std::chrono::duration<double> hold(
      random_() % 2 == 0 ? 0 : kLongestHold * static_cast<double>(random_() % 1000) / 1000);
  starts_.push_back({.fd = fd,
                     .unsent = choose_octets(),
                     .until = now + std::chrono::duration_cast<Duration>(hold),
                     .reset = random_() % 3 == 0});
  ++count_;
}

void BadStarts::end(const Start& start) const {
  if (start.reset) {
    const linger abort{.l_onoff = 1, .l_linger = 0};
    setsockopt(start.fd, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
  }
  close(start.fd);
}

void BadStarts::step(TimePoint now) {
  if (per_second_ <= 0) return;
  if (next_ == TimePoint{}) next_ = now;
  for (; next_ <= now;
       next_ += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(1 / per_second_))) {
    if (starts_.size() < kMostAtOnce) begin(now);
  }
  std::erase_if(starts_, [&](Start& start) {
    if (!start.unsent.empty()) {
      const ssize_t sent = send(start.fd, start.unsent.data(), start.unsent.size(), MSG_NOSIGNAL);
      if (sent > 0) start.unsent.erase(0, static_cast<std::size_t>(sent));
    }
    if (start.until > now) return false;
    end(start);
    return true;
  });
}

void BadStarts::close_all() {
  for (const Start& start : starts_) end(start);
  starts_.clear();
}

}  // namespace kbtp::tools
