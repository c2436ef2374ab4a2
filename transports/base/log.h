// The log: "host:pid [rank] RINGWOOD LEVEL subsystem: text" on standard error (spdlog underneath,
// hidden). Level from RINGWOOD_LOG (error, warn, info, debug; default warn). Thread safe. Never on
// the data path.
#pragma once

#include <string>
#include <string_view>

namespace ringwood {

enum class LogLevel { error, warn, info, debug };

// Sets what lines begin with and which are shown; called once per communicator (the last one wins).
void log_configure(LogLevel level, int rank);
void log_set_level(LogLevel level);  // only that
void log(LogLevel level, std::string_view subsystem, const std::string& text);

}  // namespace ringwood
