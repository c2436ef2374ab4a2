// The log: "host:pid [rank] RINGWOOD LEVEL subsystem: text" on standard error (by spdlog, which is
// hidden). Level from RINGWOOD_LOG (error, warn, info, debug; default warn). Thread safe. Not used
// on the data path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transports/base/clock.h"

namespace ringwood {

enum class LogLevel { error, warn, info, debug };

// Sets the prefix of lines and the level; called once per communicator (the last call wins).
void log_configure(LogLevel level, int rank);
void log_set_level(LogLevel level);  // the level alone
void log(LogLevel level, std::string_view subsystem, const std::string& text);
// Whether a line of this level would be written: for text that costs something to make.
bool log_shows(LogLevel level);

// The last errors and warnings of this process, the oldest first, also those that the level keeps
// from the log; at most kMaxLogged.
struct LoggedLine {
  Clock::time_point at;
  LogLevel level;
  std::string text;  // "subsystem: text"
};
inline constexpr size_t kMaxLogged = 16;
std::vector<LoggedLine> last_logged();

}  // namespace ringwood
