#include "transports/memory/memory_left.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "transports/base/input_file.h"

namespace ringwood {
namespace {

// The names that the two kinds of control groups use. A group of the first kind limits memory and
// swap together, and has a swappiness of its own; one of the second kind limits swap apart.
struct Kind {
  bool together;
  const char* mount;
  const char *limit, *usage;
  const char *swap_limit, *swap_usage;
  const char *inactive_file, *active_file;  // of memory.stat
};
constexpr Kind kSecond{false,
                       "/sys/fs/cgroup",
                       "memory.max",
                       "memory.current",
                       "memory.swap.max",
                       "memory.swap.current",
                       "inactive_file",
                       "active_file"};
constexpr Kind kFirst{true,
                      "/sys/fs/cgroup/memory",
                      "memory.limit_in_bytes",
                      "memory.usage_in_bytes",
                      "memory.memsw.limit_in_bytes",
                      "memory.memsw.usage_in_bytes",
                      "total_inactive_file",
                      "total_active_file"};

// Null for "max", which means no limit.
std::optional<uint64_t> number(const std::string& path) {
  InputFile file(path);
  uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// The sum of the lines that begin with one of the names: "inactive_file 4096".
uint64_t sum(const std::string& path, const std::string& one, const std::string& other) {
  InputFile file(path);
  uint64_t total = 0, value = 0;
  std::string rest;
  for (std::string name; file >> name; std::getline(file, rest))
    if (file >> value && (name == one || name == other)) total += value;
  return total;
}

// What a limit leaves; nothing where there is no limit. `spare`: of the usage, what can be dropped.
std::optional<uint64_t> left_of(const std::string& limit, const std::string& usage,
                                uint64_t spare = 0) {
  const auto most = number(limit), used = number(usage);
  if (!most || !used) return std::nullopt;
  return *most - std::min(*most, *used - std::min(*used, spare));
}

// One of the control groups that this process is in.
struct ControlGroup {
  const Kind& kind;
  std::string path;
  std::string folder;
};

// The group of that path and all groups that contain it. Where a container shows only its own part
// of the tree, the path that the kernel reports may not exist, but the root of that part does.
void add_groups(std::vector<ControlGroup>& groups, const std::string& root, const Kind& kind,
                std::string path) {
  if (path == "/") path.clear();
  for (;; path.erase(path.find_last_of('/'))) {
    groups.push_back({kind, path, fmt::format("{}{}{}/", root, kind.mount, path)});
    if (path.find('/') == std::string::npos) return;
  }
}

std::vector<ControlGroup> groups_of_process(const std::string& root) {
  std::vector<ControlGroup> groups;
  InputFile file(root + "/proc/self/cgroup");
  // "0::/a/b", and for the first kind "4:memory:/a/b".
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") add_groups(groups, root, kSecond, path);
    if (controllers.find(",memory,") != std::string::npos) add_groups(groups, root, kFirst, path);
  }
  return groups;
}

// How much more the groups of this process let the kernel swap out.
uint64_t swap_left(uint64_t free, const std::vector<ControlGroup>& groups) {
  uint64_t left = free;
  for (const auto& [kind, path, folder] : groups) {
    if (left == 0) break;
    if (kind.together && number(folder + "memory.swappiness") == 0u) left = 0;
    if (kind.together) continue;
    if (const auto here = left_of(folder + kind.swap_limit, folder + kind.swap_usage))
      left = std::min(left, *here);
  }
  return left;
}

void at_most(MemoryLeft& left, uint64_t bytes, const std::string& limit) {
  if (bytes < left.bytes) left = {bytes, limit};
}

}  // namespace

MemoryLeft memory_left(const std::string& root) {
  MemoryLeft left;
  const std::string machine = root + "/proc/meminfo";
  const std::vector<ControlGroup> groups = groups_of_process(root);
  const uint64_t swap = swap_left(sum(machine, "SwapFree:", "") * 1024, groups);
  if (const uint64_t kib = sum(machine, "MemAvailable:", ""))
    at_most(left, kib * 1024 + swap, "the machine");
  // At the limit of such a group nothing is swapped out where the machine prefers not to swap.
  const uint64_t apart = number(root + "/proc/sys/vm/swappiness") == 0u ? 0 : swap;
  for (const auto& [kind, path, folder] : groups) {
    if (!number(folder + kind.limit)) continue;
    const std::string name = fmt::format("the control group {}", path.empty() ? "/" : path);
    const uint64_t cached = sum(folder + "memory.stat", kind.inactive_file, kind.active_file);
    if (const auto memory = left_of(folder + kind.limit, folder + kind.usage, cached))
      at_most(left, *memory + (kind.together ? swap : apart), name);
    if (!kind.together) continue;
    if (const auto both = left_of(folder + kind.swap_limit, folder + kind.swap_usage, cached))
      at_most(left, *both, name);
  }
  return left;
}

}  // namespace ringwood
