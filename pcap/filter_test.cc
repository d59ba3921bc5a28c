#include "pcap/filter.h"

#include <array>
#include <gtest/gtest.h>
#include <random>

namespace kbtp::trace {
namespace {

constexpr std::array<std::string_view, 3> kOps{"LOAD", "ALLOC_STORE", "RDMA Write"};
constexpr std::array<std::string_view, 2> kSides{"client", "server"};
constexpr std::array kFields{
    FieldInfo{"kbtp.op", Kind::number, "x", Base::hex8, 0, kOps},
    FieldInfo{"kbtp.status", Kind::number, "x"},
    FieldInfo{"ddp.stag", Kind::number, "x", Base::hex32},
    FieldInfo{"terminate.ddp.stag", Kind::number, "x", Base::hex32},
    FieldInfo{"ddp.last", Kind::boolean, "x"},
    FieldInfo{"from", Kind::text, "x", Base::decimal, 0, kSides},
    FieldInfo{"src", Kind::text, "x"},
    FieldInfo{"time", Kind::fixed, "x", Base::decimal, 3},
    FieldInfo{"mpa.data", Kind::octets, "x"},
    FieldInfo{"one.version", Kind::number, "x"},
    FieldInfo{"other.version", Kind::number, "x"},
    FieldInfo{"marker", Kind::number, "x", Base::decimal, 0, {}, true},
};
constexpr std::array<std::span<const FieldInfo>, 1> kGroups{kFields};
consteval const FieldInfo* f(std::string_view name) { return field_of(kFields, name); }

class FilterTest : public ::testing::Test {
 protected:
  FilterTest() {
    record_.add(number_field(f("kbtp.op"), 3, {}, "LOAD"));
    record_.add(number_field(f("kbtp.status"), 12));
    record_.add(number_field(f("ddp.stag"), 0xAB));
    record_.add(boolean_field(f("ddp.last"), false));
    record_.add(text_field(f("from"), "server"));
    record_.add(text_field(f("src"), "10.0.0.1:7420"));
    record_.add(fixed_field(f("time"), -1500));
    record_.add(octets_field(f("mpa.data"), as_octets("\x4b\x42TP")));
    record_.add(number_field(f("marker"), 1));
    record_.add(number_field(f("marker"), 2));
  }
  [[nodiscard]] bool holds(const char* expression) const {
    const auto filter = Filter::compile(expression, kGroups);
    if (!filter) {
      ADD_FAILURE() << expression << ": column " << filter.error().column << ": " << filter.error().text;
      return false;
    }
    return filter->matches(record_);
  }
  Record record_;
};

struct Told {
  std::size_t column;
  std::string text;
};
Told error_of(const std::string& expression) {
  const auto filter = Filter::compile(expression, kGroups);
  if (filter) {
    ADD_FAILURE() << "accepted: " << expression;
    return {0, ""};
  }
  return {filter.error().column, filter.error().text};
}

TEST_F(FilterTest, ComparesNumbersInEitherBase) {
  EXPECT_TRUE(holds("kbtp.status == 12"));
  EXPECT_TRUE(holds("kbtp.status==0xc"));
  EXPECT_TRUE(holds("stag == 0xAB"));
  EXPECT_TRUE(holds("status != 0"));
  EXPECT_FALSE(holds("status != 12"));
  EXPECT_TRUE(holds("status > 11 && status < 13"));
  EXPECT_TRUE(holds("status >= 12 && status <= 12"));
  EXPECT_FALSE(holds("status > 12 || status < 12"));
}

TEST_F(FilterTest, KnowsNamesWhateverTheirCase) {
  EXPECT_TRUE(holds("op==LOAD"));
  EXPECT_TRUE(holds("op==load"));
  EXPECT_TRUE(holds("op==3"));
  EXPECT_FALSE(holds("op==alloc-store"));
  EXPECT_TRUE(holds("op!=rdma_write"));
  EXPECT_TRUE(holds("op != \"RDMA Write\""));
  EXPECT_TRUE(holds("from==SERVER"));
  EXPECT_TRUE(holds("op ~ oa"));
}

TEST_F(FilterTest, AsksWhetherAFieldIsThere) {
  EXPECT_TRUE(holds("stag"));
  EXPECT_FALSE(holds("terminate.ddp.stag"));
  EXPECT_TRUE(holds("!terminate.ddp.stag"));
  EXPECT_FALSE(holds("terminate.ddp.stag != 5"));
  EXPECT_FALSE(holds("last"));
  EXPECT_TRUE(holds("last == false"));
}

TEST_F(FilterTest, BindsAndBeforeOr) {
  EXPECT_TRUE(holds("op==LOAD || op==3 && status==0"));
  EXPECT_FALSE(holds("(op==LOAD || op==3) && status==0"));
  EXPECT_TRUE(holds("not (last or status == 0) and op == LOAD"));
  EXPECT_TRUE(holds("!!stag"));
}

TEST_F(FilterTest, LooksIntoTextsAndOctets) {
  EXPECT_TRUE(holds("src ~ \"10.0.0.\""));
  EXPECT_TRUE(holds("src == 10.0.0.1:7420"));
  EXPECT_FALSE(holds("src ~ 10.1"));
  EXPECT_TRUE(holds("data ~ 42:54"));
  EXPECT_TRUE(holds("data ~ \"KB\""));
  EXPECT_TRUE(holds("data == 4b:42:54:50"));
  EXPECT_FALSE(holds("data == 4b:42:54"));
}

TEST_F(FilterTest, ComparesDecimals) {
  EXPECT_TRUE(holds("time == -1.5"));
  EXPECT_TRUE(holds("time < -1.499"));
  EXPECT_TRUE(holds("time > -2 && time < 0"));
  EXPECT_TRUE(holds("time == -1.500000"));
}

TEST_F(FilterTest, OneOfSeveralIsEnough) {
  EXPECT_TRUE(holds("marker == 1"));
  EXPECT_TRUE(holds("marker == 2"));
  EXPECT_TRUE(holds("marker > 1"));
  EXPECT_FALSE(holds("marker != 2"));
  EXPECT_TRUE(holds("marker != 3"));
}

TEST_F(FilterTest, TheLargestNumber) {
  record_.add(number_field(f("one.version"), ~std::uint64_t{0}));
  EXPECT_TRUE(holds("one.version == 18446744073709551615"));
  EXPECT_TRUE(holds("one.version == 0xffffffffffffffff"));
  EXPECT_EQ(error_of("one.version == 18446744073709551616").column, 16U);
}

TEST(FilterErrors, NameTheColumn) {
  EXPECT_EQ(error_of("").column, 1U);
  EXPECT_EQ(error_of("op ==").column, 6U);
  EXPECT_EQ(error_of("op = LOAD").column, 4U);
  EXPECT_EQ(error_of("op == NOWHERE").column, 7U);
  EXPECT_EQ(error_of("  nothing == 1").column, 3U);
  EXPECT_EQ(error_of("op == LOAD status").column, 12U);
  EXPECT_EQ(error_of("op == LOAD)").column, 11U);
  EXPECT_EQ(error_of("(op == LOAD").column, 12U);
  EXPECT_EQ(error_of("status == 1.5").column, 11U);
  EXPECT_EQ(error_of("op < LOAD").column, 6U);
  EXPECT_EQ(error_of("from < server").column, 6U);
  EXPECT_EQ(error_of("last == perhaps").column, 9U);
  EXPECT_EQ(error_of("src == \"open").column, 8U);
  EXPECT_EQ(error_of("data == 4b:4").column, 9U);
  EXPECT_EQ(error_of("time == 1.0005").column, 9U);
  EXPECT_EQ(error_of("time ~ 1").column, 6U);
  EXPECT_EQ(error_of(std::string(5000, '(')).column, 66U);
  EXPECT_EQ(error_of(std::string(5000, '!')).column, 66U);
}

TEST(FilterErrors, SayWhatWouldDo) {
  EXPECT_NE(error_of("version == 1").text.find("one.version, other.version"), std::string::npos);
  EXPECT_NE(error_of("op == STORE").text.find("LOAD, ALLOC_STORE, RDMA Write"), std::string::npos);
  EXPECT_NE(error_of("op = 1").text.find("=="), std::string::npos);
}

TEST(FilterErrors, NameTheFieldThatIsSpelledAlmostSo) {
  EXPECT_NE(error_of("statsu == 1").text.find("did you mean kbtp.status?"), std::string::npos);
  EXPECT_NE(error_of("kbtp.statu == 1").text.find("did you mean kbtp.status?"), std::string::npos);
  EXPECT_NE(error_of("stagg == 1").text.find("did you mean ddp.stag or terminate.ddp.stag?"),
            std::string::npos);
  EXPECT_EQ(error_of("nothing == 1").text.find("did you mean"), std::string::npos);
}

TEST_F(FilterTest, AnyTextIsTakenOrRefusedAtAColumnInIt) {
  constexpr std::array<std::string_view, 24> kPieces{
      "op", "stag", "src", "time", "data", "last", "==", "!=", "<",  ">=", "~",     "&&",
      "||", "!",    "(",   ")",    "LOAD", "0x1f", "7",  "-1", "4b", ":",  "\"a\"", " "};
  std::mt19937 random(1);
  std::size_t taken = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string expression;
    for (std::size_t n = random() % 9; n > 0; --n) expression += kPieces[random() % kPieces.size()];
    if (const auto filter = Filter::compile(expression, kGroups)) {
      ++taken;
      static_cast<void>(filter->matches(record_));
    } else {
      EXPECT_GE(filter.error().column, 1U) << expression;
      EXPECT_LE(filter.error().column, expression.size() + 1) << expression;
      EXPECT_FALSE(filter.error().text.empty()) << expression;
    }
  }
  EXPECT_GT(taken, 100U);
}

TEST(FilterFields, AreToldForMarking) {
  const auto filter = Filter::compile("op==LOAD && (status || !last)", kGroups);
  ASSERT_TRUE(filter);
  EXPECT_EQ(filter->fields(), (std::vector<const FieldInfo*>{f("kbtp.op"), f("kbtp.status"), f("ddp.last")}));
}

}  // namespace
}  // namespace kbtp::trace
