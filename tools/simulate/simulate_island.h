// `ringwood simulate --island-model`: what a group of GPUs that NVLink joins would take, from the
// very programs that it would run (collectives/device/predict.h). Starts nothing, measures nothing.
#pragma once

#include <string>
#include <vector>

#include "tools/prediction.h"

namespace CLI {
class App;
}

namespace ringwood::tools {

// As they are typed.
struct IslandWords {
  QueryWords query;                  // bytes: "8,64K,256M"
  std::string model;                 // "h100", a preset, or a file with a line that begins like one
  std::vector<std::string> changes;  // "link=400G"
  int devices = 0;                   // of an island; 0: 8
  int islands = 1;
  std::string algorithm;  // "": the choice; "all": each row
  bool json = false;
};

// Refuses options of `command` that have no part in it. What cannot be throws
// Error(invalid_argument).
void run_simulate_island(const IslandWords& words, const CLI::App& command);

}  // namespace ringwood::tools
