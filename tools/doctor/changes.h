// What differs between two looks at the same hosts: last week's snapshots and today's.
//
// Things are found again by their names: hosts, ports, interfaces, PCI addresses, rows of a GID
// table. What moves by itself (counters, clocks, process numbers) is no change. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/rules/rules.h"

namespace ringwood::tools::doctor {

struct Change {
  std::string host;
  std::string what;           // "interface rail0: mtu"; "" where the host itself came or went
  std::string before, after;  // "absent" where there is none
};

struct Comparison {
  std::string file;  // that the earlier snapshots are of
  std::vector<Change> changes;
  std::vector<Finding> found, gone;  // findings that are new, and those that are no more
};

// One host is compared with one whatever their names; of several each with its namesake. Findings
// of probes, which the earlier snapshots cannot have, and of `ignored` rules are left out.
Comparison compare_with(const std::string& file, const Snapshots& earlier, const Snapshots& now,
                        const Diagnosis& diagnosis, const Wishes& wishes,
                        const std::vector<std::string>& ignored);

// "host7  interface rail0: mtu: 9000 -> 1500", a line each; what was compared, if nothing changed.
std::string print_text(const Comparison& comparison);

}  // namespace ringwood::tools::doctor
