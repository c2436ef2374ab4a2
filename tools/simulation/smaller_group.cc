#include "tools/simulation/smaller_group.h"

#include <algorithm>
#include <memory>
#include <set>

namespace ringwood {
namespace {

std::set<int> hosts_with_faults(const Placement& group, const NetworkShape& shape,
                                const Faults& faults, int root) {
  std::set<int> hosts;
  const auto add_rank = [&](int rank) { hosts.insert(group.hosts.host[rank]); };
  add_rank(root);
  for (const PortFault& fault : faults.ports) hosts.insert(fault.host);
  for (const PairFault& fault : faults.links) hosts.insert({fault.from, fault.to});
  for (const auto* ranks : {&faults.slow, &faults.late})
    for (const RankFault& fault : *ranks) add_rank(fault.rank);
  for (const UplinkFault& fault : faults.uplinks)
    hosts.insert(fault.part * hosts_below(shape, fault.tier));
  return hosts;
}

}  // namespace

SmallerGroup::SmallerGroup(Hosts group, const NetworkShape& shape)
    : group_(std::move(group)), shape_(shape), size_(hosts_of_unit(shape)) {}

std::optional<SmallerGroup> SmallerGroup::of(const Placement& whole, int hosts,
                                             const NetworkShape& shape, const Faults& faults,
                                             int root) {
  const int unit = hosts_of_unit(shape), group = whole.hosts.count();
  if (!whole.regular() || hosts >= group || hosts % unit != 0 || group % unit != 0) return {};
  std::set<int> kept;
  for (const int host : hosts_with_faults(whole, shape, faults, root)) kept.insert(host / unit);
  const int units = hosts / unit;
  if (units < 2 || std::ssize(kept) > units) return {};
  SmallerGroup small(whole.hosts, shape);
  small.kept_.assign(static_cast<size_t>(group / unit), -1);
  std::set<int> taken;
  for (int u = 0; u < units; ++u) small.numbers_.push_back(u);
  for (const int number : kept) {
    int place = number % units;
    while (!taken.insert(place).second) place = (place + 1) % units;
    small.kept_[number] = place;
    small.numbers_[place] = number;
  }
  Placement made = *sibling(whole, hosts, whole.ranks_of_a_host);
  made.machine.net.leaves.clear();
  for (int h = 0; h < hosts && shape.leaf > 0; ++h)
    made.machine.net.leaves.push_back(h / shape.leaf);
  small.small_ = std::make_shared<const Placement>(std::move(made));
  return small;
}

int SmallerGroup::unit(int of_group) const {
  return kept_[of_group] >= 0 ? kept_[of_group] : of_group % static_cast<int>(numbers_.size());
}

int SmallerGroup::host(int of_group) const {
  return unit(of_group / size_) * size_ + of_group % size_;
}

int SmallerGroup::rank(int of_group) const {
  return small_->hosts.ranks[host(group_.host[of_group])][group_.index[of_group]];
}

Faults SmallerGroup::faults(const Faults& of_group) const {
  Faults faults = of_group;
  for (PortFault& fault : faults.ports) fault.host = host(fault.host);
  for (PairFault& fault : faults.links) {
    fault.from = host(fault.from);
    fault.to = host(fault.to);
  }
  for (UplinkFault& fault : faults.uplinks) {
    const int below = hosts_below(shape_, fault.tier);
    fault.part = host(fault.part * below) / below;
  }
  for (auto* ranks : {&faults.slow, &faults.late})
    for (RankFault& fault : *ranks) fault.rank = rank(fault.rank);
  return faults;
}

int32_t SmallerGroup::link_of_group(const Network& small, int32_t link,
                                    const Network& group) const {
  const auto host_there = [&](int h) { return numbers_[h / size_] * size_ + h % size_; };
  return small.link_in(group, link, {host_there, [&](int rank) {
                                       const int h = host_there(small_->hosts.host[rank]);
                                       return group_.ranks[h][small_->hosts.index[rank]];
                                     }});
}

}  // namespace ringwood
