#include "collectives/plan/agreement.h"

#include <algorithm>
#include <cstddef>

namespace ringwood {

AgreementPlace agreement_place(int rank, std::span<const int> hosts) {
  AgreementPlace place;
  place.host = hosts[static_cast<size_t>(rank)];
  std::vector<int> here;
  int index = 0;
  for (int r = 0; r < static_cast<int>(hosts.size()); ++r) {
    if (hosts[static_cast<size_t>(r)] != place.host) continue;
    if (r == rank) index = static_cast<int>(here.size());
    here.push_back(r);
  }
  const auto k = static_cast<int>(here.size());
  for (int i = index * kAgreementFanOut + 1; i <= (index + 1) * kAgreementFanOut && i < k; ++i)
    place.below.push_back(here[static_cast<size_t>(i)]);
  if (index > 0) {
    place.above = here[static_cast<size_t>((index - 1) / kAgreementFanOut)];
    return place;
  }
  for (int r = 0; r < static_cast<int>(hosts.size()); ++r)
    if (hosts[static_cast<size_t>(r)] == static_cast<int>(place.leaders.size()))
      place.leaders.push_back(r);
  return place;
}

std::vector<int> AgreementPlace::all_heard() const {
  std::vector<int> ranks = below;
  if (above >= 0) ranks.push_back(above);
  const auto count = static_cast<int>(leaders.size());
  for (int distance = 1; distance < count; distance *= 2) ranks.push_back(heard(distance));
  return ranks;
}

}  // namespace ringwood
