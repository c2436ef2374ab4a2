#include "collectives/device/choose_device.h"

#include <algorithm>

#include <fmt/format.h>

#include "transports/base/error.h"

namespace ringwood::device {
namespace {

// Among candidates of any rows; none: null.
const DeviceChoice* taken(const std::vector<DeviceChoice>& all) {
  const DeviceChoice* best = nullptr;
  for (const DeviceChoice& one : all)
    if (!best || one.seconds < best->seconds) best = &one;
  if (!best) return nullptr;
  const double most = best->seconds * (1 + kTolerance);
  for (const DeviceChoice& one : all)
    if (one.seconds <= most &&
        (one.blocks < best->blocks || (one.blocks == best->blocks && one.seconds < best->seconds)))
      best = &one;
  return best;
}

// Of one row and way, in each number of blocks.
std::vector<DeviceChoice> in_blocks_of(DeviceRows& rows, const AlgorithmRow& row, bool packets,
                                       const CollectiveArgs& args, int n,
                                       const IslandModel& model) {
  std::vector<DeviceChoice> all;
  const ProvedProgram* const proved = rows.find(row, n, args.root, packets);
  for (int blocks = 1; proved && blocks <= model.blocks; blocks *= 2) {
    const DevicePrediction predicted = predict(*proved, args, blocks, model);
    if (predicted.packet_bytes > model.packet_room) continue;
    all.push_back({&row, packets, blocks, predicted.seconds});
  }
  return all;
}

std::vector<std::vector<DeviceChoice>> candidates(DeviceRows& rows, const CollectiveArgs& args,
                                                  int n, const IslandModel& model,
                                                  const std::string& algorithm) {
  if (!moves_data(args.collective)) return {{{nullptr, false, 1, model.launch + model.flag}}};
  std::vector<std::vector<DeviceChoice>> all;
  for (const AlgorithmRow& row : algorithm_table()) {
    if (row.collective != args.collective || !row.accepts(n)) continue;
    if (!algorithm.empty() && row.name != algorithm) continue;
    for (const bool packets : {false, true})
      all.push_back(in_blocks_of(rows, row, packets, args, n, model));
  }
  return all;
}

}  // namespace

const ProvedProgram* DeviceRows::find(const AlgorithmRow& row, int n, int root, bool packets) {
  const auto [at, is_new] = known_.try_emplace({&row, n, root, packets});
  if (is_new) {
    auto proved = lower_proved(row.collective, build_all(row, {0, n, root}), packets);
    if (proved) at->second = std::make_unique<const ProvedProgram>(std::move(*proved));
  }
  return at->second.get();
}

std::string name_of(const DeviceChoice& choice) { return choice.row ? choice.row->name : "hello"; }

std::vector<DeviceChoice> device_choices(DeviceRows& rows, const CollectiveArgs& args, int n,
                                         const IslandModel& model, const std::string& algorithm) {
  std::vector<DeviceChoice> best;
  for (const auto& of_row : candidates(rows, args, n, model, algorithm))
    if (const DeviceChoice* const one = taken(of_row)) best.push_back(*one);
  std::ranges::stable_sort(best, {}, &DeviceChoice::seconds);
  return best;
}

DeviceChoice choose_device(DeviceRows& rows, const CollectiveArgs& args, int n,
                           const IslandModel& model) {
  std::vector<DeviceChoice> all;
  for (const auto& of_row : candidates(rows, args, n, model, ""))
    all.insert(all.end(), of_row.begin(), of_row.end());
  if (const DeviceChoice* const one = taken(all)) return *one;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("no row of {} is proved for {} devices", to_string(args.collective), n));
}

}  // namespace ringwood::device
