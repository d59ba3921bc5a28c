// The common header (5.1, 24 octets) and the descriptors (5.2, 16 octets each), field by field as they are on
// the wire. All integers are in network order there.

#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "proto/wire/assignment.h"

namespace kbtp::wire {

/// 0 Version8 | 1 Opcode8 | 2 Flags16 | 4 Request ID64 | 12 Block Handle64 | 20 Generation16 | 22 Status16.
struct Header {
  std::uint8_t version = kVersion;
  std::uint8_t opcode = 0;  ///< code on the wire; Assignment::opcode() names it
  std::uint16_t flags = 0;
  std::uint64_t request_id = 0;
  std::uint64_t handle = 0;
  std::uint16_t generation = 0;
  std::uint16_t status = 0;  ///< code on the wire; Assignment::status() names it
  friend bool operator==(const Header&, const Header&) = default;
};

/// The first 24 octets as a header, whatever they say; nothing when there are fewer.
[[nodiscard]] std::optional<Header> read_header(Octets octets);
void write(ByteWriter& writer, const Header& header);

/// A buffer of the initiator (5.2): 0 STag32 | 4 Tagged Offset64 | 12 Length32.
struct DataDescriptor {
  std::uint32_t stag = 0;
  std::uint64_t tagged_offset = 0;
  std::uint32_t length = 0;  ///< octets
  friend bool operator==(const DataDescriptor&, const DataDescriptor&) = default;
};

/// A 24-octet completion record slot of the initiator (5.2): 0 STag32 | 4 Tagged Offset64 | 12 reserved32.
struct CompletionDescriptor {
  std::uint32_t stag = 0;
  std::uint64_t tagged_offset = 0;
  friend bool operator==(const CompletionDescriptor&, const CompletionDescriptor&) = default;
};

/// Readers latch an overrun in the reader (ByteReader::ok()).
[[nodiscard]] DataDescriptor read_data_descriptor(ByteReader& reader);
[[nodiscard]] CompletionDescriptor read_completion_descriptor(ByteReader& reader);
void write(ByteWriter& writer, const DataDescriptor& descriptor);
void write(ByteWriter& writer, const CompletionDescriptor& descriptor);

}  // namespace kbtp::wire
