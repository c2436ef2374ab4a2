#include "collectives/tuner/cost/placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace ringwood {
namespace {

// Numbers in the order of their first use.
class Renumbering {
 public:
  int operator()(int number) {
    return numbers_.try_emplace(number, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<int, int> numbers_;
};

SharedPlacement made(MachineModel machine, int n) {
  if (machine.hosts.empty()) machine.hosts.assign(static_cast<size_t>(n), 0);
  const Where where{0, n, 0, machine.hosts, machine.nodes};
  const Hosts hosts = hosts_of(where), nodes = hosts_of(by_node(where));
  return std::make_shared<const Placement>(
      Placement{std::move(machine), n, hosts, nodes, hosts.alike() ? hosts.smallest : 0, {}});
}

// The placement of these ranks only.
Placement restricted(const Placement& whole, std::vector<int> ranks, MachineModel machine) {
  std::sort(ranks.begin(), ranks.end());
  Renumbering hosts, nodes;
  machine.hosts.clear();
  machine.nodes.clear();
  std::vector<int> leaves = std::exchange(machine.net.leaves, {});
  for (const int r : ranks) {
    machine.hosts.push_back(hosts(whole.machine.hosts[r]));
    if (!whole.machine.nodes.empty()) machine.nodes.push_back(nodes(whole.machine.nodes[r]));
  }
  Placement placement = *made(std::move(machine), static_cast<int>(ranks.size()));
  placement.group_leaves = std::move(leaves);
  return placement;
}

int most_frequent_size(const Hosts& hosts) {
  std::map<int, int> times;
  for (int h = 0; h < hosts.count(); ++h) ++times[hosts.size(h)];
  return std::max_element(times.begin(), times.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// Where all hosts do the same, the slowest decides.
void make_hosts_alike(NetworkParameters& net) {
  double part = 1;
  for (const HostException& one : net.exceptions)
    for (int port = 0; port < port_count(net); ++port)
      part = std::min(part, port_rate(net, one.host, port) * port_count(net));
  net.exceptions.clear();
  net.nic *= part;
  if (net.far) net.far->rate *= part;
}

std::vector<int> first_ranks(const Hosts& hosts, int count, int each) {
  std::vector<int> ranks;
  for (int h = 0, found = 0; h < hosts.count() && found < count; ++h) {
    if (hosts.size(h) < each) continue;
    ++found;
    ranks.insert(ranks.end(), hosts.ranks[h].begin(), hosts.ranks[h].begin() + each);
  }
  return ranks;
}

int nodes_of_a_host(const Placement& p, int ranks_of_a_host) {
  for (const auto& ranks : p.hosts.ranks) {
    if (static_cast<int>(ranks.size()) != ranks_of_a_host) continue;
    Renumbering nodes;
    int most = 0;
    for (const int r : ranks) most = std::max(most, nodes(p.machine.nodes[r]) + 1);
    return most;
  }
  return 1;
}

}  // namespace

SharedPlacement placement_of(const MachineModel& machine, int n) { return made(machine, n); }

SharedPlacement nearest_regular(const SharedPlacement& placement) {
  const Placement& p = *placement;
  if (p.regular() && p.machine.net.exceptions.empty()) return placement;
  MachineModel machine = p.machine;
  make_hosts_alike(machine.net);
  if (p.regular()) return made(std::move(machine), p.n);
  const int k = most_frequent_size(p.hosts);
  if (!std::is_sorted(p.hosts.host.begin(), p.hosts.host.end()))
    return std::make_shared<const Placement>(
        restricted(p, first_ranks(p.hosts, p.hosts.count(), k), std::move(machine)));
  const int hosts = std::max(1, (p.n + k / 2) / k);
  const int nodes = machine.nodes.empty() ? 0 : nodes_of_a_host(p, k);
  machine.hosts.clear();
  machine.nodes.clear();
  machine.net.leaves.clear();
  for (int r = 0; r < hosts * k; ++r) {
    machine.hosts.push_back(r / k);
    if (nodes > 0) machine.nodes.push_back(r / k * nodes + r % k * nodes / k);
  }
  return made(std::move(machine), hosts * k);
}

SharedPlacement sibling(const Placement& regular, int hosts, int ranks_of_a_host) {
  const int k = regular.ranks_of_a_host;
  MachineModel machine = regular.machine;
  const double part = static_cast<double>(ranks_of_a_host) / k;
  if (ranks_of_a_host < k) {
    machine.cores = std::max(1, (machine.cores * ranks_of_a_host + k / 2) / k);
    machine.net.rails = std::min(machine.net.rails, ranks_of_a_host);
    for (double* resource : {&machine.l3_bytes, &machine.memory, &machine.net.nic})
      *resource *= part;
    if (machine.net.far) machine.net.far->rate *= part;
  }
  return std::make_shared<const Placement>(
      restricted(regular, first_ranks(regular.hosts, hosts, ranks_of_a_host), std::move(machine)));
}

SharedPlacement sibling_with_leaves(const Placement& regular, int hosts, int ranks_of_a_host) {
  Placement made = *sibling(regular, hosts, ranks_of_a_host);
  if (std::ssize(made.group_leaves) < hosts) return {};
  Renumbering leaves;
  std::vector<int>& known = made.machine.net.leaves;
  for (int h = 0; h < hosts; ++h) known.push_back(leaves(made.group_leaves[h]));
  if (std::ranges::count(known, 0) == hosts) return {};
  return std::make_shared<const Placement>(std::move(made));
}

SharedPlacement sibling_with_exceptions(const Placement& whole, int hosts) {
  std::map<std::pair<int, int>, HostException> kept;  // by host and rail
  std::set<int> slow;
  for (HostException one : whole.machine.net.exceptions) {
    one.host %= hosts;
    slow.insert(one.host);
    HostException& there = kept.try_emplace({one.host, one.rail}, one).first->second;
    there.rate = std::min(there.rate, one.rate);
  }
  if (slow.empty() || 2 * std::ssize(slow) > hosts) return {};
  Placement plain = whole;
  plain.machine.net.exceptions.clear();
  Placement made = *sibling(plain, hosts, whole.ranks_of_a_host);
  for (const auto& [at, one] : kept) made.machine.net.exceptions.push_back(one);
  return std::make_shared<const Placement>(std::move(made));
}

}  // namespace ringwood
