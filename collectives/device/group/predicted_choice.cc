#include "collectives/device/group/predicted_choice.h"

#include <algorithm>
#include <bit>

namespace ringwood::device {
namespace {

constexpr int kBlackwell = 100;

}  // namespace

IslandModel model_of(int oldest_sm, const DeviceOptions& options) {
  IslandModel model = island_preset(oldest_sm >= kBlackwell ? "b200" : "h100");
  model.blocks = std::min(model.blocks, static_cast<double>(options.segments));
  model.packet_room = options.packet_bytes;
  return model;
}

void PredictedChoice::fill(DeviceCall& call) {
  if (!call.algorithm.empty()) return;
  CollectiveArgs args;
  args.collective = call.collective;
  args.type = call.type;
  args.op = call.op;
  args.root = call.root;
  args.count = std::bit_ceil(std::max<size_t>(call.count, 1));
  const auto key = std::tuple(static_cast<int>(args.collective), static_cast<int>(args.type),
                              static_cast<int>(args.op), args.root, args.count);
  auto known = known_.find(key);
  if (known == known_.end())
    known = known_.emplace(key, choose_device(rows_, args, n_, model_)).first;
  call.algorithm = known->second.row->name;
  if (call.packets < 0) call.packets = known->second.packets ? 1 : 0;
  if (call.segments == 0) call.segments = known->second.blocks;
}

}  // namespace ringwood::device
