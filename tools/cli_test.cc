#include "tools/cli.h"

#include <gtest/gtest.h>
#include <limits>

namespace kbtp::tools {
namespace {

TEST(ParseNumber, TakesWholeNumbersAndBinaryUnits) {
  EXPECT_EQ(parse_number("0").value(), 0U);
  EXPECT_EQ(parse_number("65536").value(), 65536U);
  EXPECT_EQ(parse_number("64KiB").value(), 65536U);
  EXPECT_EQ(parse_number("1MiB").value(), std::uint64_t{1} << 20);
  EXPECT_EQ(parse_number("2GiB").value(), std::uint64_t{1} << 31);
  EXPECT_EQ(parse_number("18446744073709551615").value(), std::numeric_limits<std::uint64_t>::max());
}

TEST(ParseNumber, RefusesEverythingElse) {
  for (const char* text : {"", "-1", "+1", "1.5", "64k", "64KB", " 1", "1 ", "0x10", "18446744073709551616",
                           "18446744073709551615KiB", "17179869184GiB"}) {
    EXPECT_FALSE(parse_number(text)) << text;
  }
}

TEST(ParseFactor, IsPositiveAndFinite) {
  EXPECT_DOUBLE_EQ(parse_factor("2.5").value(), 2.5);
  for (const char* text : {"", "0", "-1", "inf", "nan", "1x"}) EXPECT_FALSE(parse_factor(text)) << text;
}

struct Nested {
  CLI::App app{"", "kbtp"};
  CLI::App& target = *app.add_subcommand("target");
  CLI::App& block = *app.add_subcommand("block");
  CLI::App& load = *block.add_subcommand("load");
  std::uint64_t blocks = 0;
  bool crc = true;
  Nested() {
    add_number(target, "--blocks", blocks, 1, 10, "");
    add_switch(target, "--crc", crc, "");
    load.add_option("--target")->required();
  }
  std::string sentence(const std::string& line) {
    try {
      app.parse(line);
    } catch (const CLI::ParseError& error) {
      return full_name(reached(app)) + ": " + usage_sentence(app, error);
    }
    return "";
  }
};

TEST(UsageSentence, SaysWhatIsWrongInOneLine) {
  EXPECT_EQ(Nested().sentence("target --blocks 7 --crc off"), "");
  EXPECT_EQ(Nested().sentence("dissect"), "kbtp: 'dissect' is no subcommand; there is target, block");
  EXPECT_EQ(Nested().sentence("block save"), "kbtp block: 'save' is no subcommand; there is load");
  EXPECT_EQ(Nested().sentence("target --colour"), "kbtp target: there is no option '--colour'");
  EXPECT_EQ(Nested().sentence("target here"), "kbtp target: nothing is done with 'here'");
  EXPECT_EQ(Nested().sentence("target --blocks 11"), "kbtp target: --blocks: 11 is not between 1 and 10");
  EXPECT_EQ(Nested().sentence("target --blocks x"), "kbtp target: --blocks: 'x' is no whole number");
  EXPECT_EQ(Nested().sentence("target --crc maybe"), "kbtp target: --crc: 'maybe' is neither on nor off");
  EXPECT_EQ(Nested().sentence("block load"), "kbtp block load: --target is required");
  EXPECT_EQ(Nested().sentence("target --blocks"), "kbtp target: --blocks: 1 required N missing");
}

TEST(Duration, HoursMinutesSecondsOrANumberOfSeconds) {
  EXPECT_DOUBLE_EQ(*parse_duration("24h"), 86400);
  EXPECT_DOUBLE_EQ(*parse_duration("35m"), 2100);
  EXPECT_DOUBLE_EQ(*parse_duration("1.5s"), 1.5);
  EXPECT_DOUBLE_EQ(*parse_duration("90"), 90);
  for (const char* wrong : {"", "h", "0", "-1s", "1d", "1hh", "soon", "1e9h"})
    EXPECT_FALSE(parse_duration(wrong)) << wrong;
}

}  // namespace
}  // namespace kbtp::tools
