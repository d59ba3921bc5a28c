#include <algorithm>
#include <array>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

#include "base/hex.h"
#include "pcap/print_json.h"
#include "pcap/test_frames.h"
#include "pcap/test_records.h"
#include "proto/wire/request.h"

namespace kbtp::trace::test {
namespace {

using rdmap::Opcode;

// --- Lines -----------------------------------------------------------------------------------------------

/// What LinePrinter makes of all events for which `wanted` holds.
std::string lines(const std::vector<Frame>& frames, bool each_segment = false,
                  const char* expression = nullptr, const Annotation& annotation = {}) {
  Output output(-1);
  LinePrinter printer(output, each_segment);
  printer.set_start(frames.front().time_ns);
  std::optional<Filter> filter;
  if (expression != nullptr) filter = *Filter::compile(expression);
  ConnectionInfo last;
  const auto tell = [&](const ConnectionInfo& connection, const Event& event, const Record& record) {
    printer.event(connection, event, annotation, !filter || filter->matches(record));
    last = connection;
  };
  const Told told(frames, tell);
  printer.end(last);
  return std::string(output.held());
}

Conversation started() {
  Conversation talk;
  talk.open();
  talk.say(true, request());
  talk.say(false, reply());
  return talk;
}

void say_write(Conversation& talk, std::size_t segments, bool last = true) {
  for (std::size_t i = 0; i < segments; ++i) {
    const bool is_last = last && i + 1 == segments;
    talk.say(false, tagged(Opcode::rdma_write, 0x1234, 0x1000 + 100 * i, is_last, pattern(100)));
  }
}

constexpr const char* kStart =
    "stream 1: 10.0.0.1:40000 > 10.0.0.2:7420\n"
    "     3     0.000002  1 > MPA Request          revision 2, CRC, no markers, IRD 4 ORD 8\n"
    "     4     0.000003  1 < MPA Reply            revision 2, CRC, no markers, IRD 8 ORD 4\n";

TEST(Lines, OneForAMessageOfSeveralSegments) {
  Conversation talk = started();
  talk.say(true, untagged(Opcode::send, 0, 1, 0, true,
                          wire::encode(wire::Request(
                              wire::Load{.head = {7, 3, 0, 0}, .destination = {0x1234, 0x1000, 300}}))));
  say_write(talk, 3);
  wire::Completion completion;
  completion.request_id = 7;
  completion.handle = 3;
  completion.generation = 2;
  completion.data_length = 300;
  completion.block_offset = 0x9000;
  talk.say(false, untagged(Opcode::send, 0, 1, 0, true, wire::encode(completion)));
  talk.fin(true);
  EXPECT_EQ(
      lines(talk.frames),
      std::string(kStart) +
          "     5     0.000004  1 > KBTP LOAD            request 0x7, handle 3, to 300 octets at STag "
          "0x00001234 TO 0x1000\n"
          "     8     0.000007  1 < RDMA Write           300 octets to STag 0x00001234 TO 0x1000, 3 "
          "segments since #6\n"
          "     9     0.000008  1 < KBTP COMPLETION      SUCCESS request 0x7, handle 3 generation 2, 300 "
          "octets, block 0x9000\n"
          "    10     0.000009  1 > TCP FIN              sends no more\n");
}

TEST(Lines, AGuessIsCalledAGuess) {
  mpa::StartupFrame frame;
  const Bytes depths = *from_hex("0000001000000001");
  frame.private_data = depths;
  Conversation talk;
  talk.open();
  talk.say(true, mpa::encode_startup(frame));
  EXPECT_NE(lines(talk.frames).find("8 octets of private data, a guess: IRD 16 ORD 1 in them\n"),
            std::string::npos)
      << lines(talk.frames);
}

TEST(Lines, OneForEachSegmentWhenAsked) {
  Conversation talk = started();
  say_write(talk, 2);
  EXPECT_EQ(lines(talk.frames, true),
            std::string(kStart) +
                "     5     0.000004  1 < RDMA Write           100 octets to STag 0x00001234 TO 0x1000, more "
                "follows\n"
                "     6     0.000005  1 < RDMA Write           100 octets to STag 0x00001234 TO 0x1064\n");
}

TEST(Lines, AMessageThatDoesNotEndIsToldWithTheConnection) {
  Conversation talk = started();
  say_write(talk, 2, false);
  EXPECT_EQ(lines(talk.frames),
            std::string(kStart) +
                "     6     0.000005  1 < RDMA Write           200 octets to STag 0x00001234 TO 0x1000, 2 "
                "segments, its last segment was not seen since #5\n");
}

TEST(Lines, AControlMessageDoesNotEndTheOneAroundIt) {
  Conversation talk = started();
  const auto immediate = rdmap::encode(rdmap::Immediate{5});
  talk.say(false, tagged(Opcode::rdma_write, 1, 0, false, pattern(4)));
  talk.say(false, untagged(Opcode::immediate, 0, 1, 0, true, immediate));
  talk.say(false, tagged(Opcode::rdma_write, 1, 4, true, pattern(4)));
  const std::string text = lines(talk.frames);
  EXPECT_NE(text.find("8 octets to STag 0x00000001 TO 0x0, 2 segments since #5"), std::string::npos) << text;
  EXPECT_NE(text.find("Immediate Data       0x0000000000000005"), std::string::npos) << text;
}

TEST(Lines, WhatIsWrongHasItsOwnLine) {
  Conversation talk = started();
  Bytes bad = tagged(Opcode::rdma_write, 1, 0, true, pattern(8));
  bad[20] ^= std::byte{1};
  talk.say(false, bad);
  EXPECT_NE(lines(talk.frames).find("8 octets to STag 0x00000001 TO 0x0, CRC bad"), std::string::npos);
}

TEST(Lines, AMessageIsShownWhenOneOfItsSegmentsFits) {
  Conversation talk = started();
  say_write(talk, 3);
  const std::string text = lines(talk.frames, false, "ddp.to==0x1064");
  EXPECT_NE(text.find("300 octets to STag 0x00001234"), std::string::npos) << text;
  EXPECT_EQ(text.find("MPA"), std::string::npos) << text;
  EXPECT_EQ(lines(talk.frames, false, "ddp.to==0x1065"), "");
}

TEST(Lines, SayWhyAMessageIsNoKbtpOnceTheConnectionSpokeIt) {
  Conversation talk = started();
  const auto say = [&](std::uint32_t msn, Octets octets) {
    talk.say(true, untagged(Opcode::send, 0, msn, 0, true, octets));
  };
  auto unknown = wire::encode(wire::Request(wire::Free{.head = {7, 3, 0, 0}}));
  unknown[1] = std::byte{0x63};
  say(1, unknown);
  say(2, wire::encode(wire::Hello{}));
  say(3, unknown);
  const std::string text = lines(talk.frames);
  EXPECT_NE(text.find("Send                 24 octets, MSN 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("KBTP ?               24 octets, opcode not assigned (KBTP-5.1-02, octet 1), version 1 "
                      "opcode 0x63 flags 0x0000 request 0x7 handle 3\n"),
            std::string::npos)
      << text;
}

TEST(Lines, TellWhatAnAnalysisAdds) {
  Conversation talk = started();
  Annotation annotation;
  annotation.text = "answers #3";
  annotation.findings.push_back({Finding::Severity::error, "bad", "This is bad."});
  const std::string text = lines(talk.frames, false, "mpa.kind==reply", annotation);
  EXPECT_NE(text.find("ORD 4  answers #3\n        error: This is bad.\n"), std::string::npos) << text;
}

// --- Fields and octets -----------------------------------------------------------------------------------

template <class Print>
std::string of_fpdu(const Bytes& octets, Print print) {
  Conversation talk = started();
  talk.say(true, octets);
  Output output(-1);
  const auto tell = [&](const ConnectionInfo&, const Event& event, const Record& record) {
    if (event.as<Fpdu>() != nullptr) print(record, output);
  };
  const Told told(talk.frames, tell);
  return std::string(output.held());
}

TEST(FieldLines, HaveTheirOctets) {
  const std::string text = of_fpdu(tagged(Opcode::rdma_write, 0x1234, 0x1000, true, pattern(4)),
                                   [](const Record& record, Output& out) { print_fields(record, {}, out); });
  EXPECT_NE(text.find("\n         4..7   ddp.stag                   0x00001234\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("\n            3   rdmap.opcode               0x00  RDMA Write\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("\n                fpdu.crc                   good\n"), std::string::npos) << text;
}

TEST(OctetRows, HoldEveryOctetOnceAndNameItsField) {
  const auto filter = Filter::compile("ddp.to");
  const Bytes fpdu = tagged(Opcode::rdma_write, 0x1234, 0x1000, true, pattern(20, 0x41));
  const std::string text =
      of_fpdu(fpdu, [&](const Record& record, Output& out) { print_octets(record, filter->fields(), out); });
  std::string hex;
  std::istringstream rows(text);
  for (std::string row; std::getline(rows, row);) hex += row.substr(10, 47);
  std::erase(hex, ' ');
  Output expected(-1);
  expected.octets(fpdu);
  EXPECT_EQ(hex, expected.held());
  EXPECT_NE(text.find("\n*   0008  00 00 00 00 00 00 10 00"), std::string::npos) << text;
  EXPECT_NE(text.find("ddp.to                     0x0000000000001000\n"), std::string::npos) << text;
  EXPECT_NE(text.find("0020  b1 b8 bf c6"), std::string::npos) << text;
}

// --- JSON ------------------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 1> kNames{"ONE"};
constexpr std::array kFields{
    FieldInfo{"a.number", Kind::number, "x", Base::hex32, 0, kNames},
    FieldInfo{"a.fixed", Kind::fixed, "x", Base::decimal, 9},
    FieldInfo{"a.truth", Kind::boolean, "x"},
    FieldInfo{"a.text", Kind::text, "x"},
    FieldInfo{"a.octets", Kind::octets, "x"},
    FieldInfo{"a.marker", Kind::number, "x", Base::decimal, 0, {}, true},
};
consteval const FieldInfo* f(std::string_view name) { return field_of(kFields, name); }

std::string json_of(const std::vector<Field>& fields) {
  Record record;
  for (const Field& field : fields) record.add(field);
  Output output(-1);
  print_json(record, output);
  return std::string(output.held());
}

TEST(JsonLines, EachKind) {
  EXPECT_EQ(json_of({number_field(f("a.number"), 1, {}, "ONE"), fixed_field(f("a.fixed"), -1'000'000'001),
                     boolean_field(f("a.truth"), true), text_field(f("a.text"), "x"),
                     octets_field(f("a.octets"), as_octets("\x01\xff"))}),
            "{\"a.number\":1,\"a.number_name\":\"ONE\",\"a.fixed\":-1.000000001,\"a.truth\":true,"
            "\"a.text\":\"x\",\"a.octets\":\"01ff\"}\n");
}

TEST(JsonLines, NumbersThatADoubleDoesNotHoldAreStrings) {
  constexpr std::uint64_t kExact = std::uint64_t{1} << 53;
  EXPECT_EQ(json_of({number_field(f("a.number"), kExact)}), "{\"a.number\":9007199254740992}\n");
  EXPECT_EQ(json_of({number_field(f("a.number"), kExact + 1)}), "{\"a.number\":\"9007199254740993\"}\n");
  EXPECT_EQ(json_of({number_field(f("a.number"), ~std::uint64_t{0})}),
            "{\"a.number\":\"18446744073709551615\"}\n");
}

TEST(JsonLines, WhatMayComeMoreThanOnceIsAnArray) {
  EXPECT_EQ(json_of({number_field(f("a.marker"), 1)}), "{\"a.marker\":[1]}\n");
  EXPECT_EQ(json_of({number_field(f("a.marker"), 1), number_field(f("a.marker"), 2),
                     boolean_field(f("a.truth"), false)}),
            "{\"a.marker\":[1,2],\"a.truth\":false}\n");
}

TEST(JsonLines, AnyOctetsMakeAValidString) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  all += "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80 \xED\xA0\x80 \xC0\x80 \xF4\x90\x80\x80 \xE2\x82";
  const auto parsed = nlohmann::json::parse(json_of({text_field(f("a.text"), all)}));
  const auto text = parsed["a.text"].get<std::string>();
  EXPECT_EQ(text.substr(0, 128), all.substr(0, 128));
  EXPECT_NE(text.find("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80 "), std::string::npos);
  EXPECT_NE(text.find("\xEF\xBF\xBD"), std::string::npos);
}

TEST(JsonLines, OfAConversationParseAndNameOnlyKnownFields) {
  Conversation talk = started();
  talk.say(true, untagged(Opcode::send, 0, 1, 0, true, wire::encode(wire::Hello{})));
  say_write(talk, 2);
  talk.fin(true);
  Output output(-1);
  const auto tell = [&](const ConnectionInfo&, const Event&, const Record& record) {
    print_json(record, output);
  };
  const Told told(talk.frames, tell);
  std::istringstream text{std::string(output.held())};
  std::size_t count = 0;
  for (std::string line; std::getline(text, line); ++count) {
    const auto parsed = nlohmann::json::parse(line);
    for (const auto& [key, value] : parsed.items()) {
      const std::string name = key.ends_with("_name") ? key.substr(0, key.size() - 5) : key;
      const auto info = find_field(name);
      ASSERT_TRUE(info) << key;
      EXPECT_EQ((*info)->name, name);
    }
  }
  EXPECT_EQ(count, 7U);
}

TEST(JsonLines, TheDocumentListsEveryFieldWithItsKind) {
  std::ifstream file(KBTP_SOURCE_DIR "/docs/dissect-json.md");
  ASSERT_TRUE(file);
  std::stringstream text;
  text << file.rdbuf();
  constexpr std::array<std::string_view, 5> kKinds{"number", "decimal", "boolean", "text", "octets"};
  std::size_t fields = 0;
  for (const auto group : field_groups()) {
    for (const FieldInfo& info : group) {
      const std::string row = "| `" + std::string(info.name) + "` | " +
                              std::string(kKinds[static_cast<std::size_t>(info.kind)]) +
                              (info.repeated ? "[]" : "") + " | " + std::string(info.help) + " |";
      EXPECT_NE(text.str().find(row), std::string::npos) << "docs/dissect-json.md lacks the row\n" << row;
      ++fields;
    }
  }
  // And none that there is not: a row each in the table of fields.
  std::size_t rows = 0;
  for (std::string line; std::getline(text, line) && line != "## Findings";) {
    const bool name = line.starts_with("| `") && line.find('`', 3) != std::string::npos;
    if (name && std::ranges::count(line, '|') == 4) ++rows;
  }
  EXPECT_EQ(rows, fields);
}

TEST(JsonLines, TheDocumentListsEveryFinding) {
  std::ifstream file(KBTP_SOURCE_DIR "/docs/dissect-json.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string table = text.str().substr(text.str().find("| `finding.kind` | is |"));
  for (const FindingKind& kind : kFindingKinds) {
    const std::string row = "| `" + std::string(kind.word) + "` | " + std::string(kind.help) + " |\n";
    EXPECT_NE(table.find(row), std::string::npos) << row;
  }
  EXPECT_EQ(std::ranges::count(table, '\n'), static_cast<std::ptrdiff_t>(kFindingKinds.size()) + 2);
}

// --- Output ----------------------------------------------------------------------------------------------

TEST(OutputTest, Numbers) {
  Output out(-1);
  out.number(0).sign(' ').number(7, 4).sign(' ').hex(0).sign(' ').hex(0xAB, 4).sign(' ').hex(
      ~std::uint64_t{0});
  EXPECT_EQ(out.held(), "0    7 0x0 0x00ab 0xffffffffffffffff");
}

TEST(OutputTest, Decimals) {
  Output out(-1);
  out.fixed(1'234'567'891, 9, 9).sign(' ').fixed(1'234'567'891, 9, 6).sign(' ').fixed(-5, 3, 3).sign(' ');
  out.fixed(35'200, 3, 1).sign(' ').fixed(7'999, 3, 0);
  EXPECT_EQ(out.held(), "1.234567891 1.234567 -0.005 35.2 7");
}

TEST(OutputTest, ColourOnlyWhenAsked) {
  Output plain(-1), coloured(-1, true);
  plain.colour(Colour::red).text("x").colour(Colour::none);
  coloured.colour(Colour::red).text("x").colour(Colour::none);
  EXPECT_EQ(plain.held(), "x");
  EXPECT_EQ(coloured.held(), "\x1b[31mx\x1b[0m");
}

TEST(OutputTest, AReaderThatHasGoneIsNoticed) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  signal(SIGPIPE, SIG_IGN);
  Output out(ends[1]);
  out.text("x");
  EXPECT_FALSE(out.broken());
  out.flush();
  EXPECT_TRUE(out.broken());
  EXPECT_EQ(out.error(), EPIPE);
  EXPECT_FALSE(out.pending());
  close(ends[1]);
}

TEST(OutputTest, WritesInBigPiecesAndLosesNothing) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  std::string got;
  {
    Output out(ends[1]);
    out.text("short").end_line();
    EXPECT_TRUE(out.pending());
    out.flush();
    EXPECT_FALSE(out.pending());
    std::array<char, 16> buffer{};
    const ssize_t n = read(ends[0], buffer.data(), buffer.size());
    got.assign(buffer.data(), static_cast<std::size_t>(n));
  }
  EXPECT_EQ(got, "short\n");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace kbtp::trace::test
