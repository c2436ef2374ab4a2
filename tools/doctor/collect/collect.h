// Looks at a host: its RDMA ports, interfaces, PCI links, GPUs, limits, memory nodes, and the
// settings of one process. Reads only; asks nobody else. What cannot be read becomes a Gap.
#pragma once

#include <string>

#include "tools/doctor/collect/tree.h"
#include "tools/doctor/snapshot.h"

namespace ringwood::tools::doctor {

struct CollectOptions {
  std::string root = "/";        // tree.h
  std::string process = "self";  // whose limits and environment: a number below /proc
};

// Throws Error(invalid_argument) if there is no such folder or no such process.
Snapshot collect(const CollectOptions& options);

// The parts, in the order in which they are called: later ones use what earlier ones found.
void collect_process(Tree& tree, const std::string& process, Snapshot& snapshot);
void collect_system(Tree& tree, const std::string& process, Snapshot& snapshot);
// The folders of the process's control groups that may have files of a controller, its own first.
std::vector<std::string> group_folders(const Tree& tree, const std::string& process,
                                       const std::string& controller);
// After the system, which tells whether it is a virtual machine.
void collect_machine(Tree& tree, const std::string& process, Snapshot& snapshot);
void collect_ports(Tree& tree, Snapshot& snapshot);
void collect_interfaces(Tree& tree, Snapshot& snapshot);
void collect_pci(Tree& tree, Snapshot& snapshot);
void collect_gpus(Tree& tree, Snapshot& snapshot);

// "0-3,8" -> 0 1 2 3 8; at most 4096 of them.
std::vector<int> parse_cores(const std::string& list);
// The largest of the five sizes that a packet of the interface can carry, as drivers choose it.
int path_mtu_of(int interface_mtu);

}  // namespace ringwood::tools::doctor
