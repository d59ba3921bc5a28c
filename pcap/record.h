// An event as named fields: what filters, JSON lines and the field by field form work on.
//
// Names are dotted and stable (docs/dissect-json.md); each is described once, by a FieldInfo in the array of
// its group. A Record and an Annotation are made once and filled again for each event, so that nothing is
// allocated in the long run. All that they point to is valid until the next event. One thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace kbtp::trace {

/// What a field holds, and how it is told.
enum class Kind : std::uint8_t {
  number,   ///< unsigned, with a name when it has one (an opcode, a status)
  fixed,    ///< signed, in units of the `decimals`-th decimal place: nanoseconds told as seconds have 9
  boolean,  ///< `number` is 0 or 1
  text,     ///< UTF-8 for people, or a word of `names`
  octets,
};

/// How people are shown a number; JSON always has it decimal.
enum class Base : std::uint8_t {
  decimal,
  hex8,
  hex16,
  hex32,
  hex64,
  hex,  ///< without leading zeros
};

/// What all fields of one name have in common. Lives as long as the program.
struct FieldInfo {
  std::string_view name;  ///< "ddp.stag"
  Kind kind = Kind::number;
  std::string_view help;  ///< one line, with the section that it comes from
  Base base = Base::decimal;
  std::uint8_t decimals = 0;  ///< of Kind::fixed
  /// The names that a number may have, or all values of a text that is one of a few words; for filters.
  std::span<const std::string_view> names = {};
  bool repeated = false;  ///< may come more than once in a Record, one behind the other; JSON has an array
};

/// One value. `octets` is the text of Kind::text, the octets of Kind::octets, the name (or nothing) of a
/// number.
struct Field {
  const FieldInfo* info = nullptr;
  std::uint64_t number = 0;
  Octets octets;
  std::uint32_t offset = 0;  ///< of its first octet in Record::octets
  std::uint32_t size = 0;    ///< octets from its first to its last, markers between them included; 0: derived

  [[nodiscard]] std::string_view text() const {
    return {reinterpret_cast<const char*>(octets.data()), octets.size()};
  }
  [[nodiscard]] std::int64_t fixed() const { return static_cast<std::int64_t>(number); }
};

/// Where a field was read; `size` 0: nowhere, it was derived.
struct Place {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};

[[nodiscard]] inline Field number_field(const FieldInfo* info, std::uint64_t value, Place place = {},
                                        std::string_view name = {}) {
  return {info, value, as_octets(name), place.offset, place.size};
}
[[nodiscard]] inline Field boolean_field(const FieldInfo* info, bool value, Place place = {}) {
  return {info, value ? std::uint64_t{1} : 0, {}, place.offset, place.size};
}
/// `value` counts units of the last decimal: nanoseconds for a FieldInfo of seconds with 9 decimals.
[[nodiscard]] inline Field fixed_field(const FieldInfo* info, std::int64_t value, Place place = {}) {
  return {info, static_cast<std::uint64_t>(value), {}, place.offset, place.size};
}
/// `text` must stay where it is until the next event.
[[nodiscard]] inline Field text_field(const FieldInfo* info, std::string_view text, Place place = {}) {
  return {info, 0, as_octets(text), place.offset, place.size};
}
[[nodiscard]] inline Field octets_field(const FieldInfo* info, Octets octets, Place place = {}) {
  return {info, 0, octets, place.offset, place.size};
}

/// What findings there are. The words are stable.
struct FindingKind {
  std::string_view word;
  std::string_view help;
};
inline constexpr std::array<FindingKind, 25> kFindingKinds{{
    {"bad-startup", "no MPA start-up frame where one is due, or one that breaks off"},
    {"boundary-lost", "octets are lacking: where the next FPDU begins is not known"},
    {"cm-repeated", "a message of the Communication Manager was sent again"},
    {"completion-unasked", "a COMPLETION or HELLO_ACK without an open request"},
    {"congestion", "a CNP: the network told the receiver of congestion"},
    {"crc-bad", "the CRC of an FPDU is wrong"},
    {"fpdu-error", "a right receiver finds the headers of an FPDU wrong"},
    {"ib-malformed", "the headers behind a BTH cannot be read"},
    {"icrc-bad", "the ICRC of a packet is wrong"},
    {"nak", "a NAK"},
    {"octets-differ", "octets were sent again with other values"},
    {"octets-missing", "the capture lacks octets of the stream"},
    {"psn-gap", "packets in front of it were not seen"},
    {"psn-repeated", "the PSN was sent before"},
    {"refused", "a KBTP request ends with another status than SUCCESS"},
    {"rejected", "the connection is rejected"},
    {"request-repeated", "a KBTP request with a Request ID that is in use"},
    {"reset", "a TCP RST"},
    {"response-elsewhere", "a response that does not fit its request"},
    {"response-unasked", "a response without a request"},
    {"rnr-nak", "an RNR NAK: no receive was posted"},
    {"stag-after-invalidate", "an STag or R_Key is used after it was invalidated"},
    {"terminate", "a Terminate: the stream ends with an error"},
    {"terminate-bit-order", "a Terminate whose control bits are in Linux siw's order"},
    {"unanswered", "the stream ends with KBTP requests open"},
}};

/// One of these words; any other does not compile.
struct FindingWord {
  consteval FindingWord(const char* of) : word(of) {  // NOLINT(google-explicit-constructor)
    for (const FindingKind& kind : kFindingKinds) {
      if (kind.word == word) return;
    }
    throw "no such finding";
  }
  std::string_view word;
};

/// Something that deserves a reader's eye.
struct Finding {
  enum class Severity : std::uint8_t {
    note,     ///< lawful, but explains something
    warning,  ///< odd
    error,    ///< a rule is broken, or something failed
  };
  Severity severity = Severity::note;
  std::string_view kind;  ///< a word of kFindingKinds
  std::string text;       ///< one sentence
};

/// What an analysis adds to an event.
struct Annotation {
  std::vector<Field> fields;  ///< analysis.*
  std::vector<Finding> findings;
  std::string text;  ///< what the one-line form adds: "answers #12, 35.2 us"; empty: nothing

  void clear() {
    fields.clear();
    findings.clear();
    text.clear();
  }
};

/// An event as fields.
struct Record {
  std::vector<Field> fields;  ///< in the order in which they are told
  Octets octets;              ///< that offsets count in: a start-up frame, an FPDU, a message, a packet
  std::span<const Finding> findings;

  void clear() {
    fields.clear();
    octets = {};
    findings = {};
  }
  void add(const Field& field) { fields.push_back(field); }
  [[nodiscard]] const Field* find(const FieldInfo* info) const {
    for (const Field& field : fields) {
      if (field.info == info) return &field;
    }
    return nullptr;
  }
};

/// The element of a group with this name, at compile time; a name that is not in it does not compile:
///   consteval const FieldInfo* f(std::string_view name) { return field_of(kIwarpFields, name); }
[[nodiscard]] consteval const FieldInfo* field_of(std::span<const FieldInfo> group, std::string_view name) {
  for (const FieldInfo& info : group) {
    if (info.name == name) return &info;
  }
  throw "no such field";
}

/// The groups of fields, each defined beside what fills it (fields_*.cc); field_groups() has them all.
[[nodiscard]] std::span<const std::span<const FieldInfo>> field_groups();

}  // namespace kbtp::trace
