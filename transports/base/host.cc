#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include "transports/base/host.h"

namespace ringwood {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown-host";
  return name.data();
}

std::string host_token() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  // Some sandboxes hide the boot id; hosts of equal name would then have equal tokens.
  if (boot.empty()) boot = host_name();
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) != 0) network.st_ino = 0;
  return fmt::format("{}/{}", boot, network.st_ino);
}

}  // namespace ringwood
