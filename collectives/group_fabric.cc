#include "collectives/group_fabric.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

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
  Fabric fabric = parse_fabric(it->second);
  const auto& allowed = options.transports;
  const auto names = [&](const char* name) {
    return std::find(allowed.begin(), allowed.end(), name) != allowed.end();
  };
  fabric.wired = !allowed.empty() && !names("shm") && !names("loopback");
  return print(fabric);
}

Fabric fabric_of(const Mesh& mesh) {
  Fabric fabric = mesh.announcement.empty() ? Fabric{} : parse_fabric(mesh.announcement);
  fabric.cores = mesh.cores_on_root_host;
  fabric.hosts = mesh.several_hosts ? mesh.host_numbers : std::vector<int>{};
  if (fabric.wired && mesh.size > 1) {  // as if each rank had a host, and its share of the cores
    const int hosts = mesh.several_hosts ? 1 + *std::max_element(mesh.host_numbers.begin(),
                                                                 mesh.host_numbers.end())
                                         : 1;
    fabric.hosts.resize(mesh.size);
    std::iota(fabric.hosts.begin(), fabric.hosts.end(), 0);
    fabric.cores = std::max(1, fabric.cores * hosts / mesh.size);
  }
  return fabric;
}

}  // namespace ringwood
