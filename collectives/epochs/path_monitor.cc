#include "collectives/epochs/path_monitor.h"

#include <utility>

#include <fmt/format.h>

#include "collectives/epochs/epochs.h"
#include "collectives/machine/group_model.h"
#include "transports/base/log.h"

namespace ringwood {
namespace {

LinkTraffic traffic_of(const Peer& peer, int in_flight) {
  LinkTraffic all;
  for (int track = 0; track < in_flight; ++track) {
    const Link* link = peer.link[collective_channel(track)].get();
    const auto one = link ? link->traffic() : std::nullopt;
    if (!one) continue;
    all.messages += one->messages;
    all.bytes += one->bytes;
    all.busy += one->busy;
    all.held += one->held;
  }
  return all;
}

}  // namespace

void PathMonitor::use(Mesh& mesh) { mesh_.store(&mesh); }

const Mesh* PathMonitor::watched_mesh() const {
  const Mesh* const mesh = mesh_;
  return mesh && mesh->several_hosts && options_.calibration != "off" ? mesh : nullptr;
}

void PathMonitor::watch(const Mesh& mesh) {
  const MachineModel machine = machine_model_of(mesh);
  const int hosts = host_count(machine), here = mesh.host_numbers[mesh.rank];
  for (int peer = 0; peer < mesh.size; ++peer) {
    const int there = mesh.host_numbers[peer];
    const Link* link = mesh.peers[peer].link[kCollectiveChannel].get();
    if (there == here || !link || !link->traffic()) continue;
    // The ranks of a host may all send at once, and one uses one of its rails.
    const double sharing = mesh.ranks_on_this_host * machine.net.rails;
    watched_.push_back({peer, {path(machine, hosts, here, there), sharing}});
  }
}

std::vector<PathReport> PathMonitor::look() {
  const Mesh* const mesh = watched_mesh();
  if (!mesh) return {};
  if (watched_.empty()) watch(*mesh);
  const bool renewed = renewed_.exchange(false);
  std::vector<PathReport> reports;
  for (Watched& one : watched_) {
    if (renewed) one.rate.renew();
    const LinkTraffic traffic = traffic_of(mesh->peers[one.peer], mesh->in_flight);
    if (const auto change = one.rate.look(traffic))
      reports.push_back({mesh->rank, one.peer, change->rate, change->expected});
  }
  return reports;
}

void PathMonitor::reported(const PathReport& report) {
  if (!watched_mesh()) return;
  measuring_.report(fmt::format("rank {} sends {:.3g} MB/s to rank {} instead of {:.3g}",
                                report.from, report.rate * 1e-6, report.to, report.expected * 1e-6),
                    Clock::now());
}

Proposal PathMonitor::next_change(const Planner* planner) {
  if (!planner) return {};
  std::optional<NetworkParameters> measured;
  {
    const std::lock_guard lock(mutex_);
    measured = std::exchange(measured_, std::nullopt);
  }
  if (measured) {
    Proposal change = planner->weigh(*measured);
    measuring_.end(!change.parameters.empty());
    if (change.parameters.empty())
      log(LogLevel::info, "parameters", "measured again: no other algorithm is faster by 10 %");
    return change;
  }
  const auto why = measuring_.begin(Clock::now());
  if (!why) return {};
  return {std::string(kMeasureAgain), "the network is measured again: " + *why};
}

void PathMonitor::measure(int channel) {
  auto measured = measure_again(*mesh_, options_, channel);
  renew();
  if (!measured) return;
  const std::lock_guard lock(mutex_);
  measured_ = std::move(measured);
}

}  // namespace ringwood
