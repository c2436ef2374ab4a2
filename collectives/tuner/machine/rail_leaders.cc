#include "collectives/tuner/machine/rail_leaders.h"

#include <algorithm>

namespace ringwood {
namespace {

struct Host {
  std::vector<std::string> addresses;  // in the order of the first ranks that offer them
  std::vector<int> ranks;              // these
  std::vector<size_t> taken;           // by rank of the host: which of the addresses
};

}  // namespace

std::vector<std::vector<int>> rail_leaders(const std::vector<int>& hosts,
                                           const std::vector<std::string>& addresses) {
  std::vector<Host> all;
  for (size_t r = 0; r < hosts.size(); ++r) {
    const auto h = static_cast<size_t>(hosts[r]);
    if (h == all.size()) all.emplace_back();
    Host& host = all[h];
    const std::string address = r < addresses.size() ? addresses[r] : "";
    const auto at = std::ranges::find(host.addresses, address);
    host.taken.push_back(static_cast<size_t>(at - host.addresses.begin()));
    if (at != host.addresses.end()) continue;
    host.addresses.push_back(address);
    host.ranks.push_back(static_cast<int>(r));
  }
  size_t rails = all.empty() ? 1 : all[0].addresses.size();
  for (const Host& host : all) {
    if (host.addresses.size() != rails) rails = 1;
    for (size_t i = 0; i < host.taken.size(); ++i)
      if (host.taken[i] != i % rails) rails = 1;
  }
  std::vector<std::vector<int>> leaders(rails);
  for (size_t rail = 0; rail < rails; ++rail)
    for (const Host& host : all) leaders[rail].push_back(host.ranks[rail]);
  return leaders;
}

}  // namespace ringwood
