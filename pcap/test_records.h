// Records of hand-built conversations, kept as text, and what printers make of them.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "pcap/decoder.h"
#include "pcap/filter.h"
#include "pcap/print_fields.h"
#include "pcap/print_lines.h"
#include "pcap/record_builder.h"

namespace kbtp::trace::test {

/// A Record that outlives its event.
struct Seen {
  struct Value {
    std::string text;  ///< as print_value() tells it
    std::uint64_t number = 0;
    Place place;
    Kind kind = Kind::number;
  };
  std::vector<std::pair<std::string, Value>> fields;
  std::vector<std::byte> octets;

  [[nodiscard]] const Value* find(const std::string& name) const {
    for (const auto& [n, value] : fields) {
      if (n == name) return &value;
    }
    return nullptr;
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    const Value* value = find(name);
    return value == nullptr ? "(none)" : value->text;
  }
  /// "8+4": offset and size; "none" when it is not there.
  [[nodiscard]] std::string place(const std::string& name) const {
    const Value* value = find(name);
    return value == nullptr ? "none"
                            : std::to_string(value->place.offset) + "+" + std::to_string(value->place.size);
  }
};

inline Seen keep(const Record& record) {
  Seen seen;
  seen.octets.assign(record.octets.begin(), record.octets.end());
  for (const Field& field : record.fields) {
    Output text(-1);
    print_value(field, text);
    seen.fields.emplace_back(
        std::string(field.info->name),
        Seen::Value{std::string(text.held()), field.number, {field.offset, field.size}, field.info->kind});
  }
  return seen;
}

/// Calls `tell(connection, event, record)` for each event of iWARP in the frames.
template <class Tell>
class Told final : public Observer {
 public:
  Told(const std::vector<Frame>& frames, Tell tell) : tell_(std::move(tell)) {
    DecodeOptions options;
    options.expect_iwarp = false;
    Decoder decoder(options, *this);
    builder_.set_start(frames.empty() ? 0 : frames.front().time_ns);
    for (const Frame& frame : frames) decoder.frame(view(frame));
    decoder.finish();
  }
  void on_event(const ConnectionInfo& connection, const Event& event) override {
    if (!connection.is_iwarp) return;
    builder_.build(connection, event, annotation_, record_);
    tell_(connection, event, record_);
  }
  void on_end(const ConnectionInfo& /*connection*/) override {}
  void on_other_frame(const FrameView& /*frame*/, const FrameProblem& /*problem*/) override {}

 private:
  Tell tell_;
  RecordBuilder builder_{wire::kProposed};
  Annotation annotation_;
  Record record_;
};

inline std::vector<Seen> records(const std::vector<Frame>& frames) {
  std::vector<Seen> all;
  const auto tell = [&](const ConnectionInfo&, const Event&, const Record& record) {
    all.push_back(keep(record));
  };
  const Told told(frames, tell);
  return all;
}

/// The records of one kind of event.
inline std::vector<Seen> records(const std::vector<Frame>& frames, const std::string& event) {
  std::vector<Seen> all = records(frames);
  std::erase_if(all, [&](const Seen& seen) { return seen.text("event") != event; });
  return all;
}

}  // namespace kbtp::trace::test
