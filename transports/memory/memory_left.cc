#include "transports/memory/memory_left.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "transports/base/input_file.h"

namespace ringwood {
namespace {

// The names that the two kinds of control groups use.
struct Kind {
  const char* mount;
  const char *limit, *usage;
  const char *inactive_file, *active_file;  // of memory.stat
};
constexpr Kind kSecond{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file",
                       "active_file"};
constexpr Kind kFirst{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                      "total_inactive_file", "total_active_file"};

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

void at_most(MemoryLeft& left, uint64_t bytes, const std::string& limit) {
  if (bytes < left.bytes) left = {bytes, limit};
}

// Looks at the group and all groups that contain it. Where a container shows only its own part of
// the tree, the path that the kernel reports may not exist, but the root of that part does.
void look_at_groups(MemoryLeft& left, const std::string& root, const Kind& kind, std::string path,
                    uint64_t swap) {
  for (;; path.erase(path.find_last_of('/'))) {
    const std::string folder = fmt::format("{}{}{}/", root, kind.mount, path);
    const auto limit = number(folder + kind.limit), usage = number(folder + kind.usage);
    if (limit && usage) {
      const uint64_t cached = sum(folder + "memory.stat", kind.inactive_file, kind.active_file);
      const uint64_t kept = *usage - std::min(*usage, cached);
      at_most(left, *limit - std::min(*limit, kept) + swap,
              fmt::format("the control group {}", path.empty() ? "/" : path));
    }
    if (path.find('/') == std::string::npos) return;
  }
}

}  // namespace

MemoryLeft memory_left(const std::string& root) {
  MemoryLeft left;
  const std::string machine = root + "/proc/meminfo";
  const uint64_t swap = sum(machine, "SwapFree:", "") * 1024;
  if (const uint64_t kib = sum(machine, "MemAvailable:", ""))
    at_most(left, kib * 1024 + swap, "the machine");
  InputFile groups(root + "/proc/self/cgroup");
  // "0::/a/b", and for the first kind "4:memory:/a/b".
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers == ",,") look_at_groups(left, root, kSecond, path, swap);
    if (controllers.find(",memory,") != std::string::npos)
      look_at_groups(left, root, kFirst, path, swap);
  }
  return left;
}

}  // namespace ringwood
