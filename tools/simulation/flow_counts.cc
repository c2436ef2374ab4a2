#include "tools/simulation/flow_counts.h"

#include <algorithm>

namespace ringwood {
namespace {

// Differences below are rounding errors.
constexpr double kSame = 1e-4;

}  // namespace

FlowSpread spread_of(const CostMessage& price, RailUse use, int paths) {
  const bool pieces = paths > 1 && in_pieces(price.bytes);
  return {pieces || use == RailUse::by_rank ? 1.0 : 1.0 / paths, pieces};
}

FlowCounts::FlowCounts(const Traffic& traffic, const HostSymmetry& symmetry, const Network& network,
                       bool ports_alike)
    : traffic_(traffic),
      symmetry_(symmetry),
      network_(network),
      moves_(symmetry),
      ports_alike_(ports_alike),
      on_rail_(network.shape().rails, 0),
      on_link_(network.links(), 0),
      amount_(network.links(), 0),
      slow_(network.hosts(), 0),
      speed_(network.hosts(), 0) {
  const int leaf = std::max(1, network.shape().leaf);
  for (int h = 0; h < network.hosts(); ++h) leaf_.push_back(h / leaf);
}

FlowSpread FlowCounts::spread(const JobRecord& flow, int paths) const {
  return spread_of(traffic_.prices[ends(flow).price], network_.shape().use, paths);
}

int FlowCounts::first_rail(const JobRecord& flow) const {
  return by_rank() ? traffic_.rail_owner(flow.index) % rails() : 0;
}

// Calls visit(host, up, down) for each host from which the flow goes to another leaf.
template <class Visit>
void FlowCounts::each_crossing(const JobRecord& flow, int rail, const Visit& visit) const {
  const TrafficMessage& m = ends(flow);
  const int far = traffic_.far_hosts[flow.index], hosts = network_.hosts();
  const bool rotates = symmetry_.factors().size() == 1;
  for (int h = 0; h < hosts; ++h) {
    int there = h + far;
    if (!rotates)
      there = moves_.receiver(h, far);
    else if (there >= hosts)
      there -= hosts;
    if (leaf_[h] == leaf_[there]) continue;
    const int u =
        network_.pick_uplink(symmetry_.ranks_of(h)[m.from], symmetry_.ranks_of(there)[m.to], rail);
    visit(h, network_.uplink(leaf_[h], rail, u, false),
          network_.uplink(leaf_[there], rail, u, true));
  }
}

void FlowCounts::count(const JobRecord& flow, double times) {
  const int paths = paths_of_a_host(), first = first_rail(flow);
  const double share = spread(flow, paths).share * times;
  for (int rail = first; rail < first + paths; ++rail) on_rail_[rail] += share;
  if (ports_alike_) {
    for (int rail = first; rail < first + paths; ++rail)
      each_crossing(flow, rail, [&](int /*host*/, int up, int down) {
        on_link_[up] += share;
        on_link_[down] += share;
      });
    return;
  }
  for (int h = 0; h < network_.hosts(); ++h) {
    find_paths(flow, h);
    const double part = spread(flow, static_cast<int>(paths_.size())).share * times;
    for (const Network::Path& path : paths_)
      for (int i = 0; i < path.count; ++i) on_link_[path.links[i]] += part;
  }
}

void FlowCounts::measure(const JobRecord& flow, double seconds, HostDelays& delays) {
  std::fill(speed_.begin(), speed_.end(), 0);
  if (ports_alike_)
    measure_uplinks(flow, seconds);
  else
    measure_links(flow, seconds);
  // Of each of its paths, where all hosts are alike.
  const FlowSpread spread = this->spread(flow, paths_of_a_host());
  const double flows = on_rail_[first_rail(flow)] + 1 - spread.share;
  const double known = 1 / (flows * rails()) * (spread.pieces ? rails() : 1);
  const double lasted = flow.ended - flow.began;
  for (int h = 0; h < network_.hosts(); ++h) {
    const double stretch = known / speed_[h];
    if (stretch > 1 + kSame)
      delays.of[h] +=
          static_cast<float>(std::max(0.0, static_cast<double>(flow.network) * stretch - lasted));
  }
}

void FlowCounts::measure_uplinks(const JobRecord& flow, double seconds) {
  const int paths = paths_of_a_host(), first = first_rail(flow);
  const FlowSpread spread = this->spread(flow, paths);
  const double own = (1 - spread.share) * rails();
  for (int rail = first; rail < first + paths; ++rail) {
    std::fill(slow_.begin(), slow_.end(), on_rail_[rail] * rails());
    each_crossing(flow, rail, [&](int h, int up, int down) {
      slow_[h] = std::max(
          {slow_[h], on_link_[up] / network_.rate(up), on_link_[down] / network_.rate(down)});
      const double part = seconds * (spread.pieces ? 1.0 / paths : spread.share);
      amount_[up] += part;
      amount_[down] += part;
    });
    for (size_t h = 0; h < slow_.size(); ++h) {
      const double speed = 1 / (slow_[h] + own);
      speed_[h] = spread.pieces ? speed_[h] + speed : std::max(speed_[h], speed);
    }
  }
}

// ---- where ports are not alike

void FlowCounts::find_paths(const JobRecord& flow, int host) {
  const TrafficMessage& m = ends(flow);
  const int there = moves_.receiver(host, traffic_.far_hosts[flow.index]);
  network_.paths(symmetry_.ranks_of(host)[m.from], symmetry_.ranks_of(there)[m.to], paths_);
}

double FlowCounts::slowest(const Network::Path& path) const {
  double most = 0;
  for (int i = 0; i < path.count; ++i)
    most = std::max(most, on_link_[path.links[i]] / network_.rate(path.links[i]));
  return most;
}

void FlowCounts::measure_links(const JobRecord& flow, double seconds) {
  for (int h = 0; h < network_.hosts(); ++h) {
    find_paths(flow, h);
    const FlowSpread spread = this->spread(flow, static_cast<int>(paths_.size()));
    double& speed = speed_[h];
    for (const Network::Path& path : paths_) {
      const double one = 1 / (slowest(path) + (1 - spread.share) * rails());
      speed = spread.pieces ? speed + one : std::max(speed, one);
    }
    for (const Network::Path& path : paths_) {
      const double part = spread.pieces ? 1 / slowest(path) / speed : spread.share;
      for (int i = 0; i < path.count; ++i) amount_[path.links[i]] += seconds * part;
    }
  }
}

}  // namespace ringwood
