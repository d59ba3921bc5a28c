// The constants in kbtp.lua, Wireshark's dissector, are those of proto/wire. With KBTP_UPDATE=1 in the
// environment they are written into the file.

#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <string_view>

#include "proto/wire/assignment.h"

namespace kbtp::wire {
namespace {

constexpr std::string_view kBegin = "-- begin constants";
constexpr std::string_view kEnd = "-- end constants";
constexpr const char* kFile = KBTP_SOURCE_DIR "/pcap/wireshark/kbtp.lua";

constexpr std::array kFlags{Flag::inline_data, Flag::seal, Flag::record, Flag::invalidate,
                            Flag::allow_unsealed};

std::string constants(const Assignment& a) {
  std::string opcodes, statuses, features, flags, flag, legal;
  for (std::size_t i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    opcodes += fmt::format("  [{:#04x}] = \"{}\",\n", a.code(opcode), to_string(opcode));
    legal += fmt::format("  {} = {:#06x},\n", to_string(opcode), a.flags_of(opcode));
  }
  for (std::size_t i = 0; i < kStatusCount; ++i) {
    const auto status = static_cast<Status>(i);
    statuses += fmt::format("  [{}] = \"{}\",\n", a.code(status), to_string(status));
  }
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    const auto feature = static_cast<Feature>(i);
    features += fmt::format("  [{:#06x}] = \"{}\",\n", a.code(feature), to_string(feature));
  }
  for (const Flag one : kFlags) {
    flags += fmt::format("  [{:#06x}] = \"{}\",\n", bit(one), to_string(one));
    flag += fmt::format("  {} = {:#06x},\n", to_string(one), bit(one));
  }
  return fmt::format(
      "local OPCODES = {{\n{}}}\nlocal STATUSES = {{\n{}}}\nlocal FEATURES = {{\n{}}}\n"
      "local FLAGS = {{\n{}}}\nlocal FLAG = {{\n{}}}\nlocal LEGAL_FLAGS = {{\n{}}}\n",
      opcodes, statuses, features, flags, flag, legal);
}

TEST(LuaConstants, AreThoseOfTheWire) {
  std::ifstream in(kFile);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::size_t begin = text.find('\n', text.find(kBegin)) + 1;
  const std::size_t end = text.find(kEnd);
  ASSERT_LE(begin, end) << kFile << " has no place for the constants";
  const std::string expected = constants(kProposed);
  if (std::getenv("KBTP_UPDATE") != nullptr) {
    text.replace(begin, end - begin, expected);
    ASSERT_TRUE(std::ofstream(kFile) << text);
    return;
  }
  EXPECT_EQ(text.substr(begin, end - begin), expected) << "run lua_constants_test with KBTP_UPDATE=1";
}

}  // namespace
}  // namespace kbtp::wire
