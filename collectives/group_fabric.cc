#include "collectives/group_fabric.h"

#include <map>
#include <mutex>

#include "collectives/calibrate.h"

namespace ringwood {

std::string announced_figures(const Options& options) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  std::lock_guard lock(mutex);
  auto it = known.find(options.calibration);
  if (it == known.end()) {
    const CalibrationUse use = calibration_use(options.calibration);
    it = known.emplace(options.calibration, print(calibration(cache_directory(), use))).first;
  }
  return it->second;
}

Fabric fabric_of(const Mesh& mesh) {
  Fabric fabric = mesh.announcement.empty() ? Fabric{} : parse_fabric(mesh.announcement);
  fabric.cores = mesh.cores_on_root_host;
  fabric.hosts = mesh.several_hosts ? mesh.host_numbers : std::vector<int>{};
  return fabric;
}

}  // namespace ringwood
