#include "tools/doctor/collect/kernel.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <thread>

#include "transports/base/clock.h"
#include "transports/base/error.h"
#include "transports/base/owned_fd.h"

extern char** environ;

namespace ringwood::tools::doctor {
namespace {

constexpr uint32_t kMaxStatistics = 16384;
constexpr size_t kMaxPrinted = size_t{1} << 20;
// For a program to end that was killed: one that a driver holds does not, and is left alone.
constexpr std::chrono::milliseconds kKilledTime{200};

// `command` begins with the number of the question.
template <class T>
bool ask_ethtool(const std::string& interface, T* command, std::string& why) {
  const OwnedFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(command);
  if (socket && ::ioctl(socket.get(), SIOCETHTOOL, &request) == 0) return true;
  why = std::strerror(errno);
  return false;
}

std::string text_of(const char* field, size_t size) {
  return std::string(field, ::strnlen(field, size));
}

// The length of the netmask.
int prefix_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const auto* bytes =
      mask->sa_family == AF_INET
          ? reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr)
          : reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr.s6_addr;
  int bits = 0;
  for (int i = 0; i < (mask->sa_family == AF_INET ? 4 : 16); ++i) bits += std::popcount(bytes[i]);
  return bits;
}

std::string numeric(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
                sizeof text);
  else
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
                sizeof text);
  return text;
}

// Until the end, the deadline or kMaxPrinted; false: not until the end.
bool read_until_end(int fd, const Deadline& deadline, std::string& text) {
  char buffer[4096];
  while (text.size() < kMaxPrinted) {
    pollfd one{fd, POLLIN, 0};
    if (::poll(&one, 1, deadline.left_ms()) <= 0) return false;
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got <= 0) return got == 0;
    text.append(buffer, static_cast<size_t>(got));
  }
  return false;
}

// A program may close its output and live on.
bool wait_for(pid_t child, const Deadline& deadline, int& status) {
  while (true) {
    if (::waitpid(child, &status, WNOHANG) == child) return true;
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

std::optional<DriverInfo> ask_driver(const std::string& interface, std::string& why) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  if (!ask_ethtool(interface, &info, why)) return std::nullopt;
  return DriverInfo{text_of(info.driver, sizeof info.driver),
                    text_of(info.fw_version, sizeof info.fw_version),
                    text_of(info.bus_info, sizeof info.bus_info)};
}

std::optional<Counters> ask_statistics(const std::string& interface, std::string& why) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  if (!ask_ethtool(interface, &info, why)) return std::nullopt;
  const uint32_t count = info.n_stats;
  if (count == 0 || count > kMaxStatistics) {
    why = count == 0 ? "the driver has none" : fmt::format("{} of them", count);
    return std::nullopt;
  }
  std::vector<uint64_t> memory((sizeof(ethtool_gstrings) + size_t{count} * ETH_GSTRING_LEN) / 8 +
                               2);
  auto* names = reinterpret_cast<ethtool_gstrings*>(memory.data());
  names->cmd = ETHTOOL_GSTRINGS;
  names->string_set = ETH_SS_STATS;
  names->len = count;
  if (!ask_ethtool(interface, names, why)) return std::nullopt;
  std::vector<uint64_t> values(sizeof(ethtool_stats) / 8 + size_t{count} + 2);
  auto* statistics = reinterpret_cast<ethtool_stats*>(values.data());
  statistics->cmd = ETHTOOL_GSTATS;
  statistics->n_stats = count;
  if (!ask_ethtool(interface, statistics, why)) return std::nullopt;
  Counters counters;
  for (uint32_t i = 0; i < std::min({count, names->len, statistics->n_stats}); ++i) {
    const auto* name = reinterpret_cast<const char*>(names->data) + size_t{i} * ETH_GSTRING_LEN;
    counters[text_of(name, ETH_GSTRING_LEN)] = static_cast<int64_t>(statistics->data[i]);
  }
  return counters;
}

std::optional<Pause> ask_pause(const std::string& interface, std::string& why) {
  ethtool_pauseparam pause{};
  pause.cmd = ETHTOOL_GPAUSEPARAM;
  if (!ask_ethtool(interface, &pause, why)) return std::nullopt;
  return Pause{pause.rx_pause != 0, pause.tx_pause != 0};
}

std::optional<std::string> ask_fec(const std::string& interface, std::string& why) {
  ethtool_fecparam fec{};
  fec.cmd = ETHTOOL_GFECPARAM;
  if (!ask_ethtool(interface, &fec, why)) return std::nullopt;
  if (fec.active_fec & ETHTOOL_FEC_RS) return "RS";
  if (fec.active_fec & ETHTOOL_FEC_BASER) return "BaseR";
  if (fec.active_fec & ETHTOOL_FEC_LLRS) return "LLRS";
  return fec.active_fec & ETHTOOL_FEC_OFF ? "Off" : "None";
}

std::map<std::string, std::vector<std::string>> ask_addresses() {
  std::map<std::string, std::vector<std::string>> all;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    const int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
    if (family == AF_INET || family == AF_INET6)
      all[one->ifa_name].push_back(
          fmt::format("{}/{}", numeric(one->ifa_addr), prefix_of(one->ifa_netmask)));
  }
  return all;
}

std::vector<std::string> ask_name(const std::string& name, std::string& why) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  std::vector<std::string> all;
  const int refused = ::getaddrinfo(name.c_str(), nullptr, &wanted, &list);
  if (refused != 0) {
    why = ::gai_strerror(refused);
    return all;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  for (const addrinfo* one = list; one != nullptr && all.size() < 64; one = one->ai_next)
    if (one->ai_family == AF_INET || one->ai_family == AF_INET6)
      all.push_back(numeric(one->ai_addr));
  return all;
}

std::optional<std::string> ask_program(const std::vector<std::string>& words, std::string& why,
                                       ProgramFailure* failure, std::chrono::milliseconds limit) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    why = std::strerror(errno);
    return std::nullopt;
  }
  const OwnedFd from(ends[0]);
  OwnedFd to(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, to.get(), 1);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int refused =
      ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  to = OwnedFd();
  if (refused != 0) {
    why = fmt::format("{}: {}", words[0], std::strerror(refused));
    return std::nullopt;
  }
  std::string text;
  const Deadline deadline = Deadline::after(limit);
  int status = 0;
  const bool ended =
      read_until_end(from.get(), deadline, text) && wait_for(child, deadline, status);
  if (!ended) {
    ::kill(child, SIGKILL);
    wait_for(child, Deadline::after(kKilledTime), status);
  }
  if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  if (ended && WIFEXITED(status) && failure != nullptr) *failure = {WEXITSTATUS(status), text};
  why = fmt::format("{}: {}", words[0],
                    !ended ? fmt::format("no answer within {:g} s", seconds_in(limit))
                           : fmt::format("failed with {}", WEXITSTATUS(status)));
  return std::nullopt;
}

}  // namespace ringwood::tools::doctor
