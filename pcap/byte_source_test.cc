#include "pcap/byte_source.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "pcap/test_gzip.h"

namespace kbtp::trace {
namespace {

std::vector<std::byte> counted(std::size_t size) {
  std::vector<std::byte> octets(size);
  for (std::size_t i = 0; i < size; ++i) octets[i] = static_cast<std::byte>(i * 31 + i / 4099);
  return octets;
}

/// A file that goes with the test.
class File {
 public:
  explicit File(Octets octets)
      : path_(std::filesystem::temp_directory_path() / ("kbtp_byte_source_" + std::to_string(getpid()))) {
    std::ofstream out(path_, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(octets.data()), static_cast<std::streamsize>(octets.size()));
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[nodiscard]] std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Takes everything in pieces of many sizes; what came, in order.
std::vector<std::byte> drained(ByteSource& source) {
  std::vector<std::byte> all;
  std::size_t step = 1;
  for (;;) {
    step = step * 7 % 90'001 + 1;
    const Octets octets = source.peek(step);
    const std::size_t n = std::min(step, octets.size());
    if (n == 0) return all;
    all.insert(all.end(), octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(n));
    source.consume(n);
  }
}

TEST(ByteSource, ALongFileComesWholeInPiecesOfAnySize) {
  const auto content = counted((std::size_t{7} << 20) + 123);
  const File file(content);
  auto source = ByteSource::open(file.path());
  ASSERT_TRUE(source) << source.error().text;
  EXPECT_EQ(drained(*source), content);
  EXPECT_TRUE(source->peek(1).empty());
  EXPECT_EQ(source->error(), "");
}

TEST(ByteSource, MoreThanAChunkCanBePeekedAt) {
  const auto content = counted(std::size_t{9} << 20);
  const File file(content);
  auto source = ByteSource::open(file.path());
  ASSERT_TRUE(source) << source.error().text;
  source->consume(source->peek(1000).size() - 500);
  const std::size_t done = content.size() - source->peek(content.size()).size();
  const Octets rest = source->peek(content.size());
  EXPECT_TRUE(std::ranges::equal(rest, Octets(content).subspan(done)));
  EXPECT_GT(rest.size(), std::size_t{8} << 20);
}

TEST(ByteSource, ALongPackedFileIsUnpacked) {
  auto content = counted(std::size_t{6} << 20);
  std::uint32_t noise = 1;
  for (std::byte& octet : content)
    octet ^= static_cast<std::byte>((noise = noise * 1664525 + 1013904223) >> 24);
  auto two = test::gzipped(Octets(content).first(content.size() / 2));
  const auto second = test::gzipped(Octets(content).subspan(content.size() / 2));
  two.insert(two.end(), second.begin(), second.end());  // members follow each other (RFC 1952 2.2)
  ASSERT_GT(two.size(), std::size_t{5} << 20);
  const File file(two);
  auto source = ByteSource::open(file.path());
  ASSERT_TRUE(source) << source.error().text;
  EXPECT_EQ(drained(*source), content);
  EXPECT_EQ(source->error(), "");

  two.resize(two.size() - 100'000);
  const File cut(two);
  source = ByteSource::open(cut.path());
  ASSERT_TRUE(source) << source.error().text;
  const auto some = drained(*source);
  EXPECT_GT(some.size(), std::size_t{5} << 20);
  EXPECT_TRUE(std::ranges::equal(some, Octets(content).first(some.size())));
  EXPECT_EQ(source->error(), "the gzip data break off");
}

TEST(ByteSource, AFileThatNobodyReadsToItsEndIsLetGo) {
  const File file(counted(std::size_t{8} << 20));
  for (const std::size_t taken : {0, 1, 300'000, 3'000'000}) {
    auto source = ByteSource::open(file.path());
    ASSERT_TRUE(source) << source.error().text;
    EXPECT_GE(source->peek(taken).size(), taken);
  }
}

TEST(ByteSource, AFileThatIsCutShortMeanwhileEndsThere) {
  const auto content = counted(std::size_t{12} << 20);
  const File file(content);
  auto source = ByteSource::open(file.path());
  ASSERT_TRUE(source) << source.error().text;
  EXPECT_FALSE(source->peek(1).empty());
  std::filesystem::resize_file(file.path(), std::size_t{5} << 20);
  const auto all = drained(*source);
  EXPECT_GE(all.size(), std::size_t{5} << 20);
  EXPECT_LT(all.size(), content.size());
  EXPECT_TRUE(std::ranges::equal(all, Octets(content).first(all.size())));
}

TEST(ByteSource, WhatCannotBeReadIsSaid) {
  auto source = ByteSource::open("/");
  ASSERT_TRUE(source) << source.error().text;
  EXPECT_TRUE(source->peek(1).empty());
  EXPECT_NE(source->error().find("reading failed"), std::string::npos) << source->error();
}

TEST(ByteSource, MemoryIsSeenWhereItLies) {
  const auto content = counted(1000);
  ByteSource source = ByteSource::over(content);
  EXPECT_EQ(source.peek(1).data(), content.data());
  EXPECT_EQ(drained(source), content);
}

}  // namespace
}  // namespace kbtp::trace
