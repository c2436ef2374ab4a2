#include "transports/base/numa.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "transports/base/input_file.h"

namespace ringwood {
namespace {

// Parses "0-3,8"; anything else is ignored.
void add_list(const std::string& text, int node, std::map<int, int>& node_of) {
  const char *at = text.data(), *const end = text.data() + text.size();
  while (at < end) {
    int first = 0;
    const auto begin = std::from_chars(at, end, first);
    if (begin.ec != std::errc()) return;
    int last = first;
    at = begin.ptr;
    if (at < end && *at == '-') at = std::from_chars(at + 1, end, last).ptr;
    for (int cpu = first; cpu <= std::min(last, first + CPU_SETSIZE); ++cpu) node_of[cpu] = node;
    if (at < end && *at++ != ',') return;
  }
}

}  // namespace

std::vector<int> numa_nodes(const std::vector<int>& processors, const std::string& root) {
  std::map<int, int> node_of;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    const std::string name = entry.path().filename().string();
    int node = -1;
    if (name.rfind("node", 0) != 0 ||
        std::from_chars(name.data() + 4, name.data() + name.size(), node).ec != std::errc())
      continue;
    std::string list;
    std::getline(InputFile(entry.path() / "cpulist"), list);
    add_list(list, node, node_of);
  }
  std::vector<int> nodes;
  for (const int cpu : processors) {
    const auto at = node_of.find(cpu);
    nodes.push_back(at == node_of.end() ? -1 : at->second);
  }
  return nodes;
}

int device_numa_node(const std::string& folder) {
  InputFile file(folder + "/device/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

int own_numa_node() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return -1;
  std::vector<int> processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) processors.push_back(cpu);
  const std::vector<int> nodes = numa_nodes(processors);
  const bool one =
      !nodes.empty() && std::count(nodes.begin(), nodes.end(), nodes[0]) == std::ssize(nodes);
  return one ? nodes[0] : -1;
}

}  // namespace ringwood
