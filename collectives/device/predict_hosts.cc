#include "collectives/device/predict_hosts.h"

#include <algorithm>

namespace ringwood::device {
namespace {

HostsPrediction of_pieces(DeviceRows& rows, const CollectiveArgs& args, int devices, int hosts,
                          const IslandModel& model, int pieces) {
  CollectiveArgs part = args;
  part.collective = Collective::reduce_scatter;
  const auto parts = static_cast<size_t>(pieces) * static_cast<size_t>(devices);
  part.count = (args.count + parts - 1) / parts;
  HostsPrediction predicted;
  predicted.pieces = pieces;
  predicted.scatter = choose_device(rows, part, devices, model);
  part.collective = Collective::all_gather;
  predicted.gather = choose_device(rows, part, devices, model);
  predicted.inside = predicted.scatter.seconds + predicted.gather.seconds - 2 * model.launch;
  predicted.rails =
      rail_all_reduce(static_cast<double>(part.count * size_of(args.type)), hosts, model);
  predicted.seconds = model.launch + predicted.inside + predicted.rails.seconds() +
                      (pieces - 1) * std::max(predicted.inside, predicted.rails.transfer);
  return predicted;
}

}  // namespace

RailTimes rail_all_reduce(double bytes, int hosts, const IslandModel& model) {
  if (hosts < 2) return {};
  const double others = hosts - 1;
  const RailTimes once{model.rail_latency, others * bytes / model.rail};
  const RailTimes twice{2 * model.rail_latency, 2 * others / hosts * bytes / model.rail};
  return once.seconds() <= twice.seconds() ? once : twice;
}

HostsPrediction predict_hosts(DeviceRows& rows, const CollectiveArgs& args, int devices, int hosts,
                              const IslandModel& model) {
  HostsPrediction best = of_pieces(rows, args, devices, hosts, model, 1);
  for (int pieces = 2; pieces <= kMaxPieces; pieces *= 2) {
    if (args.count < static_cast<size_t>(pieces) * static_cast<size_t>(devices)) break;
    HostsPrediction next = of_pieces(rows, args, devices, hosts, model, pieces);
    if (next.seconds < best.seconds) best = next;
  }
  return best;
}

}  // namespace ringwood::device
