// The log: "host:pid [rank] RINGWOOD LEVEL subsystem: text" on standard error (by spdlog, which is
// hidden). Level from RINGWOOD_LOG (error, warn, info, debug; default warn). Thread safe. Not used
// on the data path.
#pragma once

#include <string>
#include <string_view>

namespace ringwood {

enum class LogLevel { error, warn, info, debug };

// Sets the prefix of lines and the level; called once per communicator (the last call wins).
void log_configure(LogLevel level, int rank);
void log_set_level(LogLevel level);  // the level alone
void log(LogLevel level, std::string_view subsystem, const std::string& text);

}  // namespace ringwood
