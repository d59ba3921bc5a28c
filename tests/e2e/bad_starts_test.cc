// Bad starts in a row leave a listener as it was: it serves a good peer and keeps no descriptor.
// KBTP_BAD_STARTS sets how many.

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/e2e/process.h"

namespace kbtp::e2e {
namespace {

using namespace std::string_literals;

constexpr std::size_t kDefaultCount = 10'000;

std::size_t descriptors_of(pid_t pid) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd"))
    ++count;
  return count;
}

TEST(BadStarts, InARowLeakNothingAndStopNothing) {
  const char* wanted = std::getenv("KBTP_BAD_STARTS");
  const std::size_t count = wanted == nullptr ? kDefaultCount : std::stoul(wanted);
  Target target(
      {"--listen", "127.0.0.1:0", "--blocks", "16", "--block-size", "4096", "--metrics", "127.0.0.1:0"});
  const auto good = [&target] {
    return kbtp({"block", "alloc-store", "--target", target.endpoint(), "--handle", "0"}, "text").status;
  };
  ASSERT_EQ(good(), 0);
  ASSERT_TRUE(target.wait_for_metric("kbtp_sessions_open", [](double open) { return open == 0; }));
  const std::size_t before = descriptors_of(target.process().pid());

  // RFC 5044 7.1.1: key (16), flags, revision, private data length (2).
  const std::string key = "MPA ID Req Frame";
  const std::string starts[] = {
      "",                                                   // nothing at all
      (key + "\x40\x01\x00\x00"s).substr(0, 19),            // 19 octets, then FIN
      "MPA ID Rep Frame\x40\x01\x00\x00"s,                  // a Reply where a Request should be
      "mpa id req frame\x40\x01\x00\x00"s,                  // a key that is nearly right
      key + "\x40\x01\x02\x01"s + std::string(513, 'p'),    // private data of 513 octets
      key + "\x40\x01\xff\xff"s,                            // 65535 octets, none of them sent
      key + "\x40\x00\x00\x00"s,                            // revision 0
      key + "\x50\x02\x00\x02"s + "\x00\x08"s,              // enhanced, with half of its 4 octets
      "GET / HTTP/1.1\r\n\r\n",                             // somebody else's protocol
      key + "\x40\x01\x00\x00"s + std::string(64, '\xff'),  // good start, then no FPDU
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& start = starts[i % std::size(starts)];
    const int fd = connect_to(target.port());
    ASSERT_GE(fd, 0) << "after " << i << " bad starts";
    if (!start.empty()) static_cast<void>(send(fd, start.data(), start.size(), MSG_NOSIGNAL));
    close(fd);
  }

  EXPECT_EQ(good(), 0);
  std::size_t after = descriptors_of(target.process().pid());
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (after > before && std::chrono::steady_clock::now() < deadline) {
    poll(nullptr, 0, 20);
    after = descriptors_of(target.process().pid());
  }
  EXPECT_LE(after, before);
  EXPECT_EQ(target.drain(), "drained: 16 of 16 blocks are free");
}

}  // namespace
}  // namespace kbtp::e2e
