// Processors and memory: what the kernel gives to processes of a host.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "tools/doctor/collect/collect.h"
#include "tools/doctor/collect/tree.h"

namespace ringwood::tools::doctor {
namespace {

bool is_core(const std::string& name) {
  return name.size() > 3 && begins_with(name, "cpu") &&
         std::all_of(name.begin() + 3, name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Cores, of time and period; nullopt: no limit.
std::optional<double> quota_of(std::optional<int64_t> time, std::optional<int64_t> period) {
  if (!time || !period || *time <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*time) / static_cast<double>(*period);
}

// "200000 100000", or "max 100000".
std::optional<double> quota_of(const std::string& text) {
  const auto words = words_of(text);
  if (words.size() < 2) return std::nullopt;
  return quota_of(leading_number(words[0]), leading_number(words[1]));
}

}  // namespace

std::vector<std::string> group_folders(const Tree& tree, const std::string& process,
                                       const std::string& controller) {
  std::vector<std::string> folders;
  for (const std::string& line : lines_of(tree.text("proc/" + process + "/cgroup").value_or(""))) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    const std::string mount = "sys/fs/cgroup" + (controllers.empty() ? "" : "/" + controllers);
    if (!controllers.empty() && ("," + controllers + ",").find("," + controller + ",") == line.npos)
      continue;
    for (; group.size() > 1; group.resize(group.rfind('/'))) folders.push_back(mount + group);
    folders.push_back(mount);
  }
  folders.push_back("sys/fs/cgroup");
  folders.push_back("sys/fs/cgroup/" + controller);
  return folders;
}

void collect_machine(Tree& tree, const std::string& process, Snapshot& snapshot) {
  SystemState& system = snapshot.system;
  for (const std::string& core : tree.names("sys/devices/system/cpu")) {
    if (!is_core(core)) continue;
    const auto governor =
        tree.text(fmt::format("sys/devices/system/cpu/{}/cpufreq/scaling_governor", core));
    if (governor && !governor->empty()) ++system.governors[*governor];
  }
  // The clock of a virtual machine's cores is its host's business.
  if (system.governors.empty() && !system.virtual_machine)
    tree.miss("governor", "", "the kernel tells no governor of its cores");
  if (const auto mode = tree.needed("overcommit", "", "proc/sys/vm/overcommit_memory", true))
    if (const auto number = leading_number(*mode)) system.overcommit = static_cast<int>(*number);
  for (const std::string& folder : group_folders(tree, process, "cpu")) {
    std::optional<double> quota;
    if (const auto text = tree.needed("cpu-quota", "", folder + "/cpu.max", false))
      quota = quota_of(*text);
    else
      quota = quota_of(tree.number(folder + "/cpu.cfs_quota_us"),
                       tree.number(folder + "/cpu.cfs_period_us"));
    if (quota)
      snapshot.process.cpu_quota = std::min(*quota, snapshot.process.cpu_quota.value_or(*quota));
  }
}

}  // namespace ringwood::tools::doctor
