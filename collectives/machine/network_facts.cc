#include "collectives/machine/network_facts.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/machine/calibrate.h"
#include "collectives/machine/probe_results.h"
#include "transports/base/hash.h"

namespace ringwood {
namespace {

constexpr std::chrono::hours kMaxAge{7 * 24};

std::string first_line(const std::filesystem::path& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

// The entries of a folder of /sys, in order; none where it cannot be read.
std::vector<std::filesystem::path> entries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

struct Known {
  std::mutex mutex;
  std::map<std::string, MachineModel> machines;  // by title
};
Known& known() {
  static Known all;
  return all;
}

}  // namespace

std::string host_facts(const std::string& transports) {
  std::set<std::string> wires;  // a host's interfaces of one kind count once: names differ
  for (const auto& at : entries("/sys/class/net"))
    if (const std::string speed = first_line(at / "speed");
        first_line(at / "operstate") == "up" && !speed.empty() && speed[0] != '-')
      wires.insert(speed + " Mbit/s");
  for (const auto& at : entries("/sys/class/infiniband"))
    for (const auto& port : entries(at / "ports"))
      wires.insert(fmt::format("{} {} {}", at.filename().string().substr(0, 4),
                               first_line(at / "fw_ver"), first_line(port / "rate")));
  std::string text =
      fmt::format("{}; {}; {}", host_description(), fmt::join(wires, ", "), transports);
  return text.substr(0, kMaxFacts);
}

std::string network_title(const std::vector<HostFacts>& hosts, size_t rails,
                          const Options& options) {
  std::set<std::string> kinds;
  std::vector<std::string> cores;
  for (const HostFacts& host : hosts) {
    kinds.insert(host.facts);
    cores.push_back(host.cores);
  }
  const auto size = std::bit_width(hosts.size());
  const std::string all =
      fmt::format("{}\n{} {} {} {} {} {} {}", fmt::join(kinds, "\n"), size, rails,
                  hosts_sharing(cores), options.tcp_sockets, options.socket_interface,
                  options.verbs.ring_bytes, options.spin_us == 0);
  return fmt::format("network {:016x} of {} hosts", fnv1a_64(all), size_t{1} << (size - 1));
}

std::optional<MachineModel> known_network(const std::string& directory, const std::string& title) {
  std::lock_guard lock(known().mutex);
  auto& machines = known().machines;
  if (const auto it = machines.find(title); it != machines.end()) return it->second;
  if (directory.empty()) return {};
  const std::string path = parameters_path(directory, title);
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path, error);
  if (error || std::filesystem::file_time_type::clock::now() - written > kMaxAge) return {};
  MachineModel machine;
  if (!read_parameters(path, title, machine)) return {};
  return machines.emplace(title, machine).first->second;
}

void keep_network(const std::string& directory, const std::string& title,
                  const MachineModel& machine) {
  std::lock_guard lock(known().mutex);
  known().machines[title] = machine;
  if (!directory.empty()) write_parameters(parameters_path(directory, title), title, machine);
}

std::vector<HostException> exceptions_among(const std::vector<HostException>& exceptions,
                                            const std::vector<std::string>& names) {
  std::vector<HostException> found;
  for (size_t h = 0; h < names.size() && found.size() < kMaxExceptions; ++h)
    for (const HostException& one : exceptions)
      if (!one.name.empty() && one.name == plain_name(names[h])) {
        found.push_back({static_cast<int>(h), one.rate, one.name, one.rail});
        if (found.size() == kMaxExceptions) return found;
      }
  return found;
}

}  // namespace ringwood
