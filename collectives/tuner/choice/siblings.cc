#include "collectives/tuner/choice/siblings.h"

namespace ringwood {

Siblings::Siblings(const MachineModel& machine, int n)
    : whole_(placement_of(machine, n)), regular_(nearest_regular(whole_)) {}

const SharedPlacement& Siblings::get(int hosts, int ranks_of_a_host) {
  if (hosts == regular_->hosts.count() && ranks_of_a_host == regular_->ranks_of_a_host)
    return regular_;
  SharedPlacement& found = siblings_[{hosts, ranks_of_a_host}];
  if (!found) found = sibling(*regular_, hosts, ranks_of_a_host);
  return found;
}

const SharedPlacement& Siblings::with_leaves(int hosts, int ranks_of_a_host) {
  const auto [at, is_new] = with_leaves_.try_emplace({hosts, ranks_of_a_host});
  if (is_new) at->second = sibling_with_leaves(*regular_, hosts, ranks_of_a_host);
  return at->second;
}

const SharedPlacement& Siblings::with_slow_hosts(int hosts) {
  const auto [at, is_new] = slow_.try_emplace(hosts);
  if (is_new && whole_->regular()) at->second = sibling_with_exceptions(*whole_, hosts);
  return at->second;
}

double doublings(double times) {
  double result = 0;
  for (; times >= 2; times /= 2) ++result;
  return result + times - 1;
}

double left_of_doublings(double part, double count) {
  double left = 1;
  for (; count >= 2; count /= 2) left *= part;
  return left * (1 - (count - 1) * (1 - part));
}

}  // namespace ringwood
