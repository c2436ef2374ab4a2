// What `ringwood simulate --island-model` prints: a table with nccl-tests' columns, or JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/choice/choose.h"
#include "collectives/device/predict_hosts.h"

namespace ringwood::tools {

// One line: a size on a row, or on several islands.
struct IslandRow {
  size_t bytes = 0;  // as typed: of the whole buffer, or of n blocks
  device::DeviceChoice choice;
  std::optional<device::HostsPrediction> hosts;
  bool chosen = false;
  double seconds() const { return hosts ? hosts->seconds : choice.seconds; }
};

struct IslandReport {
  TuningQuery query;  // of the last size
  int devices = 1, islands = 1;
  device::IslandModel model;
  std::vector<IslandRow> rows;
  int ranks() const { return devices * islands; }
};

std::string print_table(const IslandReport& report);
std::string print_json(const IslandReport& report);

}  // namespace ringwood::tools
