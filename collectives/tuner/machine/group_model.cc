#include "collectives/tuner/machine/group_model.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "collectives/tuner/machine/calibrate.h"
#include "transports/base/knobs/knobs.h"

namespace ringwood {

MachineModel host_parameters(const Options& options) {
  static std::mutex mutex;
  static std::map<std::string, MachineModel> known;
  std::lock_guard lock(mutex);
  auto it = known.find(options.calibration);
  if (it == known.end()) {
    const CalibrationUse use = calibration_use(options.calibration);
    it = known.emplace(options.calibration, calibration(cache_directory(), use)).first;
  }
  MachineModel machine = it->second;
  const auto& allowed = options.transports;
  machine.loopback = std::ranges::none_of(transport_table(), [&](const TransportRow& row) {
    return row.shared_memory && (allowed.empty() || std::ranges::count(allowed, row.name) > 0);
  });
  return machine;
}

std::string announced_parameters(const Options& options) { return print(host_parameters(options)); }

MachineModel machine_model_of(const Mesh& mesh) {
  MachineModel machine =
      mesh.announcement.empty() ? MachineModel{} : parse_machine_model(mesh.announcement);
  machine.cores = mesh.cores_on_root_host;
  machine.hosts = mesh.several_hosts ? mesh.host_numbers : std::vector<int>{};
  machine.nodes = mesh.node_numbers;
  return machine;
}

}  // namespace ringwood
