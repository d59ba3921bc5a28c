// Memory of `kbtp dissect` over files of different lengths.

#include <gtest/gtest.h>
#include <string>

#include "base/sanitizers.h"
#include "pcap/capture_file.h"
#include "pcap/test_frames.h"
#include "tests/e2e/process.h"

namespace kbtp::e2e {
namespace {

/// RDMA Writes of 64 KiB in segments of 1,400 octets; a file of at least so many octets.
std::string writes(const std::string& name, std::size_t octets) {
  using namespace trace::test;
  Conversation talk;
  talk.open();
  talk.say(true, request());
  talk.say(false, reply());
  const Bytes data = pattern(1400);
  std::string file;
  std::uint64_t number = 0;
  std::uint64_t to = 0;
  while (file.size() < octets) {
    for (int i = 0; i < 47; ++i, to += data.size())
      talk.say(false, tagged(rdmap::Opcode::rdma_write, 0x1234, to, i == 46, data));
    const auto part = trace::encode_capture(talk.frames);
    talk.frames.clear();
    const std::size_t header = number++ == 0 ? 0 : 24;  // of the file, once
    file.append(reinterpret_cast<const char*>(part.data()) + header, part.size() - header);
  }
  return temporary_file(name, file);
}

/// KiB that `kbtp dissect PATH -o FORM` took at most. Python asks the kernel, because what this process takes
/// itself would count in its children.
double most_memory(const std::string& path, const std::string& form) {
  Process run({"/usr/bin/env", "python3", "-c",
               "import os, subprocess, sys\n"
               "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
               "_, status, usage = os.wait4(child.pid, 0)\n"
               "print(usage.ru_maxrss)\n"
               "sys.exit(status != 0)",
               kbtp_path(), "dissect", path, "-o", form});
  EXPECT_EQ(run.wait(), 0) << run.err();
  return std::stod(run.out());
}

TEST(DissectBounds, MemoryDoesNotGrowWithTheFile) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's memory would be measured";
  const std::string small = writes("small.pcap", std::size_t{3} << 20);
  const std::string large = writes("large.pcap", std::size_t{60} << 20);
  for (const char* form : {"summary", "text", "json"}) {
    const double little = most_memory(small, form);
    const double much = most_memory(large, form);
    EXPECT_LT(much, little * 1.1 + 1024) << form;
    EXPECT_LT(much, 64 * 1024) << form;
  }
}

}  // namespace
}  // namespace kbtp::e2e
