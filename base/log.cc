#include "base/log.h"

#include <memory>
#include <spdlog/sinks/stdout_color_sinks.h>

#include "base/time.h"

namespace kbtp {

namespace {
constexpr std::uint32_t kLinesPerSecond = 10;
}

void set_up_log(spdlog::level::level_enum level) {
  auto logger =
      std::make_shared<spdlog::logger>("kbtp", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e [%l] %v");
  logger->set_level(level);
  spdlog::set_default_logger(std::move(logger));
}

bool RateLimit::admit(std::uint64_t& suppressed) {
  const auto second =
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now().time_since_epoch()).count();
  if (window_.exchange(second) != second) in_window_ = 0;
  if (in_window_.fetch_add(1) >= kLinesPerSecond) {
    suppressed_.fetch_add(1);
    return false;
  }
  suppressed = suppressed_.exchange(0);
  return true;
}

void peer_log(spdlog::level::level_enum level, std::string_view text) {
  static RateLimit limit;
  if (!spdlog::should_log(level)) return;
  std::uint64_t suppressed = 0;
  if (!limit.admit(suppressed)) return;
  if (suppressed > 0) spdlog::log(level, "({} lines about peers left out)", suppressed);
  spdlog::log(level, "{}", text);
}

}  // namespace kbtp
