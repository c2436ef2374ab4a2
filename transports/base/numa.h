// The memory node (NUMA) of processors and devices.
#pragma once

#include <string>
#include <vector>

namespace ringwood {

// The node of all processors that the process may run on; -1: there are several nodes, or the
// kernel does not say.
int own_numa_node();

// The node of each of `processors`, from the lists ("0-3,8") at `root`/node<k>/cpulist; -1:
// unknown. `root` is the kernel's /sys/devices/system/node.
std::vector<int> numa_nodes(const std::vector<int>& processors,
                            const std::string& root = "/sys/devices/system/node");

// The node that a device is near, by its folder in /sys/class; -1: unknown.
int device_numa_node(const std::string& folder);

}  // namespace ringwood
