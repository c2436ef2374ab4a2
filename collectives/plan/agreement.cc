#include "collectives/plan/agreement.h"

#include <algorithm>
#include <cstddef>

#include "collectives/schedule/factors.h"

namespace ringwood {

GroupSize group_size(std::span<const int> hosts, int n, int cores) {
  GroupSize group{n, 1, n, cores};
  if (hosts.empty()) return group;
  std::vector<int> on_host;
  for (const int host : hosts.first(static_cast<size_t>(n))) {
    if (host >= std::ssize(on_host)) on_host.resize(static_cast<size_t>(host) + 1, 0);
    ++on_host[static_cast<size_t>(host)];
  }
  group.hosts = static_cast<int>(on_host.size());
  group.on_host = std::ranges::max(on_host);
  return group;
}

AgreementWay agreement_way(const GroupSize& group, bool apart) {
  const bool one = group.hosts == 1;
  if (!apart && group.hosts < group.ranks && (!one || group.crowded())) return {true, {}};
  return {false, agreement_factors(group.ranks, one && !apart)};
}

std::vector<int> agreement_factors(int n, bool memory) {
  const auto ranks = static_cast<unsigned>(std::max(n, 1));
  if (!memory && !std::has_single_bit(ranks)) return {};
  if (!memory) return std::vector<int>(static_cast<size_t>(std::countr_zero(ranks)), 2);
  std::vector<int> factors = small_factors(n);
  if (!factors.empty() && std::ranges::max(factors) > kAgreementFanOut) factors.clear();
  return factors;
}

AgreementPlace agreement_place(int rank, int n, std::span<const int> hosts, bool crowded) {
  const auto host = [&](int r) { return hosts.empty() ? 0 : hosts[static_cast<size_t>(r)]; };
  const int fan_out = crowded ? n : kAgreementFanOut;
  AgreementPlace place;
  place.host = host(rank);
  std::vector<int> here;
  int index = 0;
  for (int r = 0; r < n; ++r) {
    if (host(r) != place.host) continue;
    if (r == rank) index = static_cast<int>(here.size());
    here.push_back(r);
  }
  const auto k = static_cast<int>(here.size());
  const int first = index * fan_out + 1;
  for (int i = first; i < std::min(first + fan_out, k); ++i)
    place.below.push_back(here[static_cast<size_t>(i)]);
  if (index > 0) {
    place.above = here[static_cast<size_t>((index - 1) / fan_out)];
    return place;
  }
  for (int r = 0; r < n; ++r)
    if (host(r) == static_cast<int>(place.leaders.size())) place.leaders.push_back(r);
  return place;
}

std::vector<int> AgreementPlace::all_told() const {
  std::vector<int> ranks = inside();
  for (int distance = 1; distance < std::ssize(leaders); distance *= 2)
    ranks.push_back(told(distance));
  return ranks;
}

std::vector<int> AgreementPlace::all_heard() const {
  std::vector<int> ranks = inside();
  for (int distance = 1; distance < std::ssize(leaders); distance *= 2)
    ranks.push_back(heard(distance));
  return ranks;
}

std::vector<int> AgreementPlace::inside() const {
  std::vector<int> ranks = below;
  if (above >= 0) ranks.push_back(above);
  return ranks;
}

}  // namespace ringwood
