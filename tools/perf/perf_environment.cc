#include "tools/perf/perf_environment.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include <array>
#include <ctime>
#include <fstream>

namespace ringwood::tools {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  utsname name{};
  return uname(&name) == 0 ? name.machine : "unknown processor";
}

std::string load_average() {
  double loads[1] = {0};
  return ::getloadavg(loads, 1) == 1 ? fmt::format("{:.1f}", loads[0]) : "unknown";
}

std::string date_now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

}  // namespace ringwood::tools
