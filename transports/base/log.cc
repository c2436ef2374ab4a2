#include "transports/base/log.h"
#include "transports/base/host.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <deque>
#include <memory>
#include <mutex>

namespace ringwood {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::error: return spdlog::level::err;
    case LogLevel::warn: return spdlog::level::warn;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::debug: return spdlog::level::debug;
  }
  return spdlog::level::warn;
}

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::error: return "ERROR";
    case LogLevel::warn: return "WARN";
    case LogLevel::info: return "INFO";
    case LogLevel::debug: return "DEBUG";
  }
  return "WARN";
}

// %P is the current process id, so the lines of a forked child are right.
std::string pattern(int rank) {
  return fmt::format("{}:%P [{}] RINGWOOD %v", host_name(), rank >= 0 ? std::to_string(rank) : "-");
}

// Not in spdlog's registry: the host program may use spdlog itself. Never destroyed: lines may
// still be written while the process is ending.
spdlog::logger& logger() {
  static auto* logger = [] {
    auto* made = new spdlog::logger("ringwood", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::warn);
    made->set_pattern(pattern(-1));
    return made;
  }();
  return *logger;
}

struct LastLines {
  std::mutex mutex;
  std::deque<LoggedLine> lines;
};
// Never destroyed, as the logger.
LastLines& last_lines() {
  static auto* lines = new LastLines;
  return *lines;
}

void remember(LogLevel level, std::string_view subsystem, const std::string& text) {
  LastLines& last = last_lines();
  std::lock_guard lock(last.mutex);
  last.lines.push_back({Clock::now(), level, fmt::format("{}: {}", subsystem, text)});
  if (last.lines.size() > kMaxLogged) last.lines.pop_front();
}

}  // namespace

void log_set_level(LogLevel level) { logger().set_level(level_of(level)); }

void log_configure(LogLevel level, int rank) {
  log_set_level(level);
  logger().set_pattern(pattern(rank));
}

bool log_shows(LogLevel level) { return logger().should_log(level_of(level)); }

void log(LogLevel level, std::string_view subsystem, const std::string& text) {
  if (level <= LogLevel::warn) remember(level, subsystem, text);
  logger().log(level_of(level), "{} {}: {}", name_of(level), subsystem, text);
}

std::vector<LoggedLine> last_logged() {
  LastLines& last = last_lines();
  std::lock_guard lock(last.mutex);
  return {last.lines.begin(), last.lines.end()};
}

}  // namespace ringwood
