#include "collectives/tuner/machine/group_model.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "collectives/tuner/machine/calibrate.h"
#include "transports/base/knobs/knobs.h"
#include "transports/base/knobs/link_knobs.h"
#include "transports/channels.h"
#include "transports/shm/shm.h"

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
  machine.eager = static_cast<double>(options.shm_ring_bytes);
  const auto& allowed = options.transports;
  machine.loopback = std::ranges::none_of(transport_table(), [&](const TransportRow& row) {
    return row.shared_memory && (allowed.empty() || std::ranges::count(allowed, row.name) > 0);
  });
  return machine;
}

void use_rings(MachineModel& machine, int n, const Options& options) {
  std::vector<size_t> on_host(static_cast<size_t>(host_count(machine)), 0);
  for (int r = 0; r < n; ++r) ++on_host[static_cast<size_t>(machine.host_of(r))];
  const size_t ring = shm::ring_bytes(std::ranges::max(on_host), channels_for(options.in_flight),
                                      options.shm_ring_bytes);
  machine.eager = static_cast<double>(ring);
  machine.piece = static_cast<double>(std::min(kShmPiece, ring));
}

void use_rings(MachineModel& machine, const VerbsOptions& options) {
  if (machine.net.carrier != PathClass::rdma) return;
  machine.net.eager = static_cast<double>(options.ring_bytes);
  machine.net.piece = static_cast<double>(verbs_piece_bytes(options.ring_bytes));
  machine.net.zero_copy = static_cast<double>(options.zero_copy_bytes);
}

void use_all_rings(MachineModel& machine, int n, const Options& options) {
  use_rings(machine, n, options);
  use_rings(machine, options.verbs);
}

int striped_rails(const Mesh& mesh) {
  size_t fewest = 0;
  for (size_t r = 0; r < mesh.peers.size(); ++r) {
    const Link* const link = mesh.peers[r].link[kCollectiveChannel].get();
    if (!link || mesh.host_numbers[r] == mesh.host_numbers[mesh.rank]) continue;
    const std::vector<std::string> ports = link->ports();
    const size_t rails = std::set<std::string>(ports.begin(), ports.end()).size();
    if (rails > 0) fewest = fewest == 0 ? rails : std::min(fewest, rails);
  }
  return std::max(1, static_cast<int>(fewest));
}

std::string announced_parameters(const Options& options) { return print(host_parameters(options)); }

MachineModel machine_model_of(const Mesh& mesh) {
  constexpr double kMaxRing = 1 << 30;
  MachineModel machine =
      mesh.announcement.empty() ? MachineModel{} : parse_machine_model(mesh.announcement);
  machine.cores = mesh.cores_on_root_host;
  machine.hosts = mesh.several_hosts ? mesh.host_numbers : std::vector<int>{};
  machine.nodes = mesh.node_numbers;
  Options links;
  links.in_flight = mesh.in_flight;
  links.shm_ring_bytes = static_cast<size_t>(std::clamp(machine.eager, 1.0, kMaxRing));
  use_rings(machine, mesh.size, with(links, mesh.link_settings));
  return machine;
}

}  // namespace ringwood
