#include "collectives/tuner/watch/path_monitor.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "collectives/tuner/machine/group_model.h"
#include "collectives/tuner/watch/row_changes.h"
#include "transports/base/log.h"
#include "transports/base/thread.h"

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
    all.blocked += one->blocked;
    all.carrying = std::min(all.carrying, one->carrying);
  }
  return all;
}

// The number of a rank among those of its host.
int index_on_host(const Mesh& mesh, int rank) {
  const auto& hosts = mesh.host_numbers;
  return static_cast<int>(std::count(hosts.begin(), hosts.begin() + rank, hosts[rank]));
}

int port_to(const Mesh& mesh, const MachineModel& machine, int peer) {
  return port_of(machine.net, mesh.rank, index_on_host(mesh, mesh.rank), peer,
                 index_on_host(mesh, peer));
}

// As the ports of both ends and what is between them allow.
PathParameters own_path(const Mesh& mesh, const MachineModel& machine, int peer) {
  const int here = mesh.host_numbers[mesh.rank], there = mesh.host_numbers[peer];
  const int port = port_to(mesh, machine, peer);
  PathParameters own = path(machine, host_count(machine), here, there);
  const double part =
      std::min(port_rate(machine.net, here, port), port_rate(machine.net, there, port));
  own.rate = std::min(own.rate, machine.net.nic * part);
  return own;
}

}  // namespace

std::unique_ptr<NetworkWatch> make_network_watch(const Options& options) {
  return std::make_unique<PathMonitor>(options);
}

PathMonitor::~PathMonitor() {
  if (!weigher_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  weigh_.notify_all();
  weigher_.join();
}

void PathMonitor::use(Mesh& mesh, std::function<TunerInUse()> in_use) {
  in_use_ = std::move(in_use);
  if (mesh.several_hosts) first_ = machine_model_of(mesh).net;
  mesh_.store(&mesh);
}

const Mesh* PathMonitor::watched_mesh() const {
  const Mesh* const mesh = mesh_;
  return mesh && mesh->several_hosts && options_.calibration != "off" ? mesh : nullptr;
}

void PathMonitor::watch(const Mesh& mesh) {
  const MachineModel machine = machine_model_of(mesh);
  for (int peer = 0; peer < mesh.size; ++peer) {
    const Link* link = mesh.peers[peer].link[kCollectiveChannel].get();
    if (mesh.host_numbers[peer] == mesh.host_numbers[mesh.rank] || !link || !link->traffic())
      continue;
    // The ranks of a host may all send at once.
    watched_.push_back({peer,
                        port_to(mesh, machine, peer),
                        {own_path(mesh, machine, peer), double(mesh.ranks_on_this_host)}});
  }
}

void PathMonitor::take_over_measured(const Mesh& mesh) {
  MachineModel machine;
  {
    const std::lock_guard lock(mutex_);
    if (!news_) return;
    machine.net = *std::exchange(news_, std::nullopt);
  }
  machine.hosts = mesh.host_numbers;
  for (Watched& one : watched_) one.rate.measured(own_path(mesh, machine, one.peer));
}

std::vector<PathReport> PathMonitor::look() {
  const Mesh* const mesh = watched_mesh();
  if (!mesh) return {};
  if (watched_.empty()) watch(*mesh);
  take_over_measured(*mesh);
  const bool renewed = renewed_.exchange(false);
  std::vector<LinkTraffic> traffic;
  std::map<int, double> busy;  // by port
  for (Watched& one : watched_) {
    if (renewed) one.rate.renew();
    traffic.push_back(traffic_of(mesh->peers[one.peer], mesh->in_flight));
    busy[one.port] += traffic.back().busy;
  }
  std::vector<PathReport> reports;
  for (size_t i = 0; i < watched_.size(); ++i) {
    Watched& one = watched_[i];
    if (const auto change = one.rate.look(traffic[i], busy[one.port]))
      reports.push_back({mesh->rank, one.peer, change->rate, change->expected});
  }
  return reports;
}

void PathMonitor::reported(const PathReport& report) {
  if (!watched_mesh()) return;
  measuring_.report(fmt::format("rank {} has {:.3g} MB/s to rank {} instead of {:.3g}", report.from,
                                report.rate * 1e-6, report.to, report.expected * 1e-6),
                    now_());
}

Proposal PathMonitor::next_change() {
  std::optional<Weighed> weighed;
  {
    const std::lock_guard lock(mutex_);
    weighed = std::exchange(weighed_, std::nullopt);
    if (!weighed && (found_ || weighing_)) return {};
  }
  if (weighed) return conclude(std::move(*weighed));
  const auto why = measuring_.begin(now_());
  if (!why) return {};
  return {std::string(kMeasureAgain), "the network is measured again: " + *why};
}

Proposal PathMonitor::conclude(Weighed weighed) {
  const NetworkParameters& measured = weighed.found.network;
  const bool confirmed = alike(measured, last_ ? *last_ : first_);
  const bool believed = confirmed || measuring_.reported();
  const bool changes = !weighed.change.parameters.empty();
  measuring_.end({changes, confirmed, worse(measured, first_)}, weighed.found.at);
  last_ = measured;
  if (changes && believed) return std::move(weighed.change);
  log(LogLevel::info, "parameters",
      changes ? "measured again: not as before, which has to be confirmed"
              : "measured again: no other algorithm is faster by 10 %");
  return {};
}

void PathMonitor::measure(int channel) {
  Mesh& mesh = *mesh_;
  found(measure_again(mesh, with(options_, mesh.link_settings), channel));
}

void PathMonitor::found(const NetworkParameters& measured) {
  {
    const std::lock_guard lock(mutex_);
    news_ = measured;
    if (mesh_.load()->rank != 0) return;
    found_ = {measured, now_()};
  }
  start_weighing();
}

// ---- rank 0 weighs ------------------------------------------------------------------------------

bool PathMonitor::weighs() const {
  const std::lock_guard lock(mutex_);
  return found_ || weighing_ || weighed_;
}

void PathMonitor::start_weighing() try {
  if (!weigher_.joinable())
    weigher_ = start_thread("ringwood-weigh", [this] { weigh_until_stopped(); });
  weigh_.notify_all();
} catch (const Error& error) {
  log(LogLevel::warn, "parameters",
      fmt::format("what was measured again is not used: {}", error.cause));
  const std::lock_guard lock(mutex_);
  found_.reset();
}

void PathMonitor::weigh_until_stopped() {
  std::unique_lock lock(mutex_);
  while (true) {
    weigh_.wait(lock, [this] { return stop_ || found_; });
    if (stop_) return;
    Weighed weighed{*std::exchange(found_, std::nullopt), {}};
    weighing_ = true;
    lock.unlock();
    try {
      if (const TunerInUse now = in_use_(); now.tuner)
        weighed.change = now.tuner->weigh(weighed.found.network, now.choices, stop_);
    } catch (const Error& error) {
      log(LogLevel::warn, "parameters",
          fmt::format("what was measured again is not used: {}", error.cause));
    }
    lock.lock();
    weighing_ = false;
    weighed_ = std::move(weighed);
  }
}

}  // namespace ringwood
