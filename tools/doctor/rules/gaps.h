// What a snapshot does not tell although nothing failed while it was read: a driver without a
// counter, a virtual machine without a PCI link. A pure function.
#pragma once

#include <vector>

#include "tools/doctor/snapshot.h"

namespace ringwood::tools::doctor {

// Needs of rules (rules.h) that the snapshot cannot meet, beside those in its own list of gaps.
std::vector<Gap> derived_gaps(const Snapshot& snapshot);

}  // namespace ringwood::tools::doctor
