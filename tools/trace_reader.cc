#include "tools/trace_reader.h"

#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string_view>

namespace kbtp::tools {

namespace {

constexpr std::array<std::string_view, 4> kMembers = {"timestamp", "input_length", "output_length",
                                                      "hash_ids"};

// Takes the events of one line and allows no other shape than the four members, each once.
class LineHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit LineHandler(TraceRequest& request) : request_(request) {}

  bool start_object(std::size_t) override {
    if (depth_ != 0 || started_) return reject("an object stands where a number should");
    started_ = true;
    depth_ = 1;
    return true;
  }
  bool end_object() override {
    depth_ = 0;
    for (std::size_t i = 0; i < kMembers.size(); ++i) {
      if (!seen_[i]) return reject(fmt::format("'{}' is missing", kMembers[i]));
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 1 || member_ != 3) return reject("an array stands where it should not");
    depth_ = 2;
    return true;
  }
  bool end_array() override {
    depth_ = 1;
    return true;
  }
  bool key(string_t& name) override {
    for (std::size_t i = 0; i < kMembers.size(); ++i) {
      if (name != kMembers[i]) continue;
      if (seen_[i]) return reject(fmt::format("'{}' stands twice", name));
      seen_[i] = true;
      member_ = i;
      return true;
    }
    return reject(fmt::format("'{}' is no member of the format", name.substr(0, 40)));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ == 2) {
      request_.hash_ids.push_back(value);
      return true;
    }
    if (depth_ == 1 && member_ < 3) {
      (member_ == 0   ? request_.timestamp_ms
       : member_ == 1 ? request_.input_length
                      : request_.output_length) = value;
      return true;
    }
    return reject(depth_ == 1 ? "'hash_ids' is an array of whole numbers" : "the line is no object");
  }
  bool number_integer(number_integer_t value) override {
    return reject(fmt::format("{} is negative", value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return reject(fmt::format("{} is no whole number of 64 bits", text.substr(0, 40)));
  }
  bool null() override { return reject("null stands where a whole number should"); }
  bool boolean(bool) override { return reject("true or false stands where a whole number should"); }
  bool string(string_t&) override { return reject("a string stands where a whole number should"); }
  bool binary(binary_t&) override { return reject("binary data stands where a whole number should"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return reject(fmt::format("no JSON at column {}", position));
  }

  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  bool reject(std::string why) {
    if (wrong_.empty()) wrong_ = std::move(why);
    return false;
  }

  TraceRequest& request_;
  std::string wrong_;
  std::array<bool, 4> seen_{};
  std::size_t member_ = 0;
  int depth_ = 0;
  bool started_ = false;
};

}  // namespace

Result<std::optional<TraceRequest>> TraceReader::next() {
  const auto wrong = [this](std::string_view why) {
    return failure(fmt::format("{}:{}: {}", name_, line_, why));
  };
  text_.clear();
  ++line_;
  std::streambuf& buffer = *input_.rdbuf();
  bool ended = false;
  for (;;) {
    const int c = buffer.sbumpc();
    if (c == std::istream::traits_type::eof()) {
      ended = true;
      break;
    }
    if (c == '\n') break;
    if (text_.size() == kMaxLine) return wrong(fmt::format("the line is longer than {} octets", kMaxLine));
    text_.push_back(static_cast<char>(c));
  }
  if (input_.bad()) return wrong("reading failed");
  if (ended && text_.empty()) return std::optional<TraceRequest>{};
  if (text_.ends_with('\r')) text_.pop_back();
  if (text_.empty()) return wrong("the line is empty");
  TraceRequest request;
  LineHandler handler(request);
  if (!nlohmann::json::sax_parse(text_, &handler)) return wrong(handler.wrong());
  return std::optional(std::move(request));
}

}  // namespace kbtp::tools
