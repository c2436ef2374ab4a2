#include <fmt/core.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>

#include "transports/base/host.h"

#include "transports/base/input_file.h"

namespace ringwood {

namespace {

std::string boot_token() {
  std::string boot;
  std::getline(InputFile("/proc/sys/kernel/random/boot_id"), boot);
  // Some sandboxes hide the boot id; hosts of equal name would then have equal tokens.
  return boot.empty() ? host_name() : boot;
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown-host";
  return name.data();
}

std::string cores_token() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  std::string text = boot_token() + "/";
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return text;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &cores)) text += fmt::format("{}.", core);
  return text;
}

std::string users_token() {
  struct stat users {
  }, mounts{};
  if (stat("/proc/self/ns/user", &users) != 0 || stat("/proc/self/ns/mnt", &mounts) != 0) return "";
  return fmt::format("{}/{}/{}", boot_token(), users.st_ino, mounts.st_ino);
}

std::string host_token() {
  const std::string boot = boot_token();
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) != 0) network.st_ino = 0;
  return fmt::format("{}/{}", boot, network.st_ino);
}

}  // namespace ringwood
