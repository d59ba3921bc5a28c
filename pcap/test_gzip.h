// Packing, for tests of this room.

#pragma once

#include <gtest/gtest.h>
#include <vector>
#include <zlib.h>

#include "base/bytes.h"

namespace kbtp::trace::test {

/// `octets` as one gzip member.
inline std::vector<std::byte> gzipped(Octets octets) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::vector<std::byte> packed(deflateBound(&stream, octets.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(octets.data()));
  stream.avail_in = static_cast<uInt>(octets.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace kbtp::trace::test
