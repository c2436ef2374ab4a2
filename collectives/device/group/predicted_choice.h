// The row, the way and the blocks of calls that name none, by the least predicted time
// (choose_device.h). Equal on all ranks, which agree on the model when the group is made.
//
// A choice takes milliseconds, so it is made once for all sizes between two powers of two, at the
// larger one. Not thread safe.
#pragma once

#include <map>
#include <tuple>

#include "collectives/device/choose_device.h"
#include "collectives/device/group/device_group.h"

namespace ringwood::device {

// The preset for the oldest device of a group, with the room that its groups have.
IslandModel model_of(int oldest_sm, const DeviceOptions& options);

class PredictedChoice final {
 public:
  PredictedChoice(int n, IslandModel model) : n_(n), model_(std::move(model)) {}

  // Fills what the call leaves open. Throws Error(invalid_argument) where no row fits.
  void fill(DeviceCall& call);

 private:
  const int n_;
  const IslandModel model_;
  DeviceRows rows_;
  std::map<std::tuple<int, int, int, int, size_t>, DeviceChoice> known_;
};

}  // namespace ringwood::device
