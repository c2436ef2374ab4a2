// Processors and memory: what the kernel and control groups give to processes of a host.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

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

// The number in the line that begins with a word: "oom_kill 3", "MemTotal:  24684096 kB".
std::optional<int64_t> number_in(const std::string& text, const std::string& word) {
  for (const std::string& line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() < 2 || words[0] != word) continue;
    const auto number = leading_number(words[1]);
    return number && *number >= 0 ? number : std::nullopt;
  }
  return std::nullopt;
}

// The names that the two versions of control groups use.
struct GroupFiles {
  const char *limit, *used, *events;
  const char *inactive, *active, *shared;  // of memory.stat
};
constexpr GroupFiles kMemory[] = {
    {"memory.max", "memory.current", "memory.events", "inactive_file", "active_file", "shmem"},
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control", "total_inactive_file",
     "total_active_file", "total_shmem"}};
constexpr GroupFiles kThreads = {"pids.max", "pids.current", "pids.events", "", "", ""};

// Version 1 says "no limit" by a number that no machine has.
constexpr int64_t kNoLimit = int64_t{1} << 60;

// "max" is no number.
std::optional<int64_t> limit_in(Tree& tree, const char* need, const std::string& file) {
  const auto limit = leading_number(tree.needed(need, "", file, false).value_or(""));
  return limit && *limit > 0 && *limit < kNoLimit ? limit : std::nullopt;
}

bool is_nearer(int64_t used, int64_t limit, std::optional<int64_t> used_before,
               std::optional<int64_t> limit_before) {
  if (!used_before || !limit_before) return true;
  return static_cast<double>(used) * static_cast<double>(*limit_before) >
         static_cast<double>(*used_before) * static_cast<double>(limit);
}

void take_larger(std::optional<int64_t>& most, std::optional<int64_t> number) {
  if (number) most = std::max(*number, most.value_or(0));
}

void read_memory(Tree& tree, const std::string& folder, const GroupFiles& files, bool own,
                 GroupLimits& group) {
  const auto limit = limit_in(tree, "memory-limit", folder + files.limit);
  // Others than the job's processes may be in a group above that limits nothing.
  if (limit || own)
    take_larger(group.memory_kills,
                number_in(tree.text(folder + files.events).value_or(""), "oom_kill"));
  if (!limit) return;
  const auto used = tree.needed("memory-limit", "", folder + files.used, true);
  const auto parts = tree.needed("memory-limit", "", folder + "memory.stat", true);
  const auto all = leading_number(used.value_or(""));
  const auto inactive = number_in(parts.value_or(""), files.inactive);
  const auto active = number_in(parts.value_or(""), files.active);
  if (!all || !inactive || !active) return;
  const int64_t kept = *all - std::min(*all, *inactive);
  const int64_t fixed = kept - std::min(kept, *active);
  if (!is_nearer(fixed, *limit, group.memory_used, group.memory)) return;
  group.memory = limit;
  group.memory_used = fixed;
  group.memory_shared = number_in(*parts, files.shared);
}

void read_threads(Tree& tree, const std::string& folder, bool own, GroupLimits& group) {
  const auto limit = limit_in(tree, "pids-limit", folder + kThreads.limit);
  if (limit || own)
    take_larger(group.threads_refused,
                number_in(tree.text(folder + kThreads.events).value_or(""), "max"));
  if (!limit) return;
  const auto used =
      leading_number(tree.needed("pids-limit", "", folder + kThreads.used, true).value_or(""));
  if (!used || *used < 0 || !is_nearer(*used, *limit, group.threads_used, group.threads)) return;
  group.threads = limit;
  group.threads_used = used;
}

void read_groups(Tree& tree, const std::string& process, GroupLimits& group) {
  std::set<std::string> seen;
  for (const std::string& folder : group_folders(tree, process, "memory")) {
    const bool own = seen.empty();
    if (!seen.insert(folder).second) continue;
    for (const GroupFiles& files : kMemory) read_memory(tree, folder + "/", files, own, group);
  }
  seen.clear();
  for (const std::string& folder : group_folders(tree, process, "pids")) {
    const bool own = seen.empty();
    if (seen.insert(folder).second) read_threads(tree, folder + "/", own, group);
  }
}

void read_memory_of_host(Tree& tree, SystemState& system) {
  constexpr int64_t kMax = int64_t{1} << 31;  // KiB or pages: so that products fit
  const auto text = tree.needed("huge-pages", "", "proc/meminfo", true);
  if (!text) return;
  const auto number = [&](const char* name) {
    const auto found = number_in(*text, name);
    return found && *found <= kMax ? found : std::nullopt;
  };
  const auto memory_kib = number("MemTotal:"), page_kib = number("Hugepagesize:");
  const auto pages = number("HugePages_Total:"), idle = number("HugePages_Free:");
  if (memory_kib) system.memory_bytes = *memory_kib << 10;
  if (!page_kib || *page_kib > kMax >> 8 || !pages || !idle) return;  // without support: no lines
  // Pages that a process has asked for, and not touched yet, still count as free.
  const auto add = [&](int64_t page, int64_t all, int64_t free, int64_t asked) {
    system.huge_page_bytes = system.huge_page_bytes.value_or(0) + all * page;
    system.huge_bytes_free =
        system.huge_bytes_free.value_or(0) + (free - std::min(asked, free)) * page;
  };
  add(*page_kib << 10, *pages, *idle, number("HugePages_Rsvd:").value_or(0));
  // Of other sizes than the usual one: hugepages-1048576kB.
  const std::string folder = "sys/kernel/mm/hugepages";
  for (const std::string& name : tree.names(folder)) {
    const auto kib =
        begins_with(name, "hugepages-") ? leading_number(name.substr(10)) : std::nullopt;
    if (!kib || *kib <= 0 || *kib > kMax >> 8 || *kib == *page_kib) continue;
    const auto of = [&](const char* file) {
      const auto found = tree.number(fmt::format("{}/{}/{}", folder, name, file));
      return found && *found >= 0 && *found <= kMax >> 8 ? *found : 0;
    };
    add(*kib << 10, of("nr_hugepages"), of("free_hugepages"), of("resv_hugepages"));
  }
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
  read_memory_of_host(tree, system);
  tree.needed("control-group", "", "proc/" + process + "/cgroup", true);
  read_groups(tree, process, snapshot.process.group);
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
