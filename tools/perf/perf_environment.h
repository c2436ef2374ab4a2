// Where something was measured: the machine and the moment.
#pragma once

#include <string>
#include <vector>

namespace ringwood::tools {

std::string processor_name();
std::string load_average();               // of the last minute: "0.3"
std::string date_now();                   // "2026-11-23 20:15:00 UTC"
std::vector<std::string> command_line();  // of this process

}  // namespace ringwood::tools
