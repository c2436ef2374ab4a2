// A cluster file as `ringwood doctor` takes it: what is to be there.
#pragma once

#include <string>

#include "tools/doctor/rules/rules.h"

namespace ringwood::tools {

// Throws Error(invalid_argument) with the line, as for a command that predicts.
doctor::ExpectedCluster read_expected_cluster(const std::string& file);

}  // namespace ringwood::tools
