#include "collectives/tuner/machine/network_facts.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/tuner/machine/calibrate.h"
#include "collectives/tuner/machine/probe_results.h"
#include "transports/base/hash.h"
#include "transports/base/input_file.h"

namespace ringwood {
namespace {

constexpr std::chrono::hours kMaxAge{7 * 24};

std::string first_line(const std::filesystem::path& path) {
  std::string line;
  std::getline(InputFile(path), line);
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
  std::set<std::string> interfaces;  // a host's interfaces of one kind count once: names differ
  for (const auto& at : entries("/sys/class/net"))
    if (const std::string speed = first_line(at / "speed");
        first_line(at / "operstate") == "up" && !speed.empty() && speed[0] != '-')
      interfaces.insert(speed + " Mbit/s");
  for (const auto& at : entries("/sys/class/infiniband"))
    for (const auto& port : entries(at / "ports"))
      interfaces.insert(fmt::format("{} {} {}", at.filename().string().substr(0, 4),
                                    first_line(at / "fw_ver"), first_line(port / "rate")));
  std::string text =
      fmt::format("{}; {}; {}", host_description(), fmt::join(interfaces, ", "), transports);
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

std::optional<std::vector<HostException>> exceptions_among(
    const std::vector<HostException>& exceptions, const std::vector<std::string>& names) {
  std::map<std::string, int> host_of;
  std::set<std::string> shared;
  for (size_t h = 0; h < names.size(); ++h)
    if (const std::string name = plain_name(names[h]);
        !host_of.emplace(name, static_cast<int>(h)).second)
      shared.insert(name);
  std::map<std::pair<int, int>, HostException> found;  // by host and rail
  for (const HostException& one : exceptions) {
    const auto host = host_of.find(one.name);
    if (one.name.empty() || host == host_of.end()) continue;
    const auto added = found.emplace(std::pair(host->second, one.rail), one);
    if (shared.contains(one.name) || !added.second) return std::nullopt;
    added.first->second.host = host->second;
  }
  std::vector<HostException> all;
  for (auto& [place, one] : found)
    if (all.size() < kMaxExceptions) all.push_back(std::move(one));
  return all;
}

}  // namespace ringwood
