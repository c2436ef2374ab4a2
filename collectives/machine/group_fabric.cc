#include "collectives/machine/group_fabric.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "collectives/machine/calibrate.h"

namespace ringwood {

std::string announced_figures(const Options& options) {
  static std::mutex mutex;
  static std::map<std::string, Fabric> known;
  std::lock_guard lock(mutex);
  auto it = known.find(options.calibration);
  if (it == known.end()) {
    const CalibrationUse use = calibration_use(options.calibration);
    it = known.emplace(options.calibration, calibration(cache_directory(), use)).first;
  }
  Fabric fabric = it->second;
  const auto& allowed = options.transports;
  fabric.loopback =
      !allowed.empty() && std::find(allowed.begin(), allowed.end(), "shm") == allowed.end();
  return print(fabric);
}

Fabric fabric_of(const Mesh& mesh) {
  Fabric fabric = mesh.announcement.empty() ? Fabric{} : parse_fabric(mesh.announcement);
  fabric.cores = mesh.cores_on_root_host;
  fabric.hosts = mesh.several_hosts ? mesh.host_numbers : std::vector<int>{};
  fabric.nodes = mesh.node_numbers;
  return fabric;
}

}  // namespace ringwood
