#include "transports/verbs/rail/addresses.h"

#include <fmt/format.h>

#include <algorithm>

#include "transports/base/error.h"
#include "transports/bootstrap/store.h"

namespace ringwood::verbs {
namespace {

std::string key_of(int rank) { return fmt::format("verbs/{}", rank); }
std::string readers_of(int rank) { return fmt::format("verbs/{}/readers", rank); }

bool is_far(const RankAddress& address, int rail) {
  const int node = address.rails[rail].node;
  return node >= 0 && address.node >= 0 && node != address.node;
}

bool knows_nodes(const RankAddress& address) {
  return address.node >= 0 && std::any_of(address.rails.begin(), address.rails.end(),
                                          [](const RailAddress& rail) { return rail.node >= 0; });
}

// How well two rails go together. 0: not at all; 1: only over a router.
int affinity(const RailAddress& a, const RailAddress& b) {
  if (a.infiniband != b.infiniband) return 0;
  if (!a.infiniband && is_ipv4(a.gid) != is_ipv4(b.gid)) return 0;
  const int whole = !a.infiniband && is_ipv4(a.gid) ? 24 : 64;
  return shared_prefix(a.gid, b.gid) >= whole ? 2 : 1;
}

}  // namespace

std::vector<RankAddress> exchange_addresses(const Group& group, const std::vector<bool>& wanted,
                                            const RankAddress& mine) {
  std::vector<RankAddress> addresses(group.size());
  addresses[group.rank()] = mine;
  const int readers = static_cast<int>(std::count(wanted.begin(), wanted.end(), true));
  group.store->set(key_of(group.rank()), encode(SharedAddress{readers, mine}), group.deadline);
  for (int peer = 0; peer < group.size(); ++peer) {
    if (!wanted[peer]) continue;
    SharedAddress theirs;
    if (!decode(group.store->get(key_of(peer), group.deadline), theirs))
      throw Error(ErrorCode::internal,
                  fmt::format("the verbs address of rank {} in the store is damaged", peer));
    addresses[peer] = std::move(theirs.address);
    // The last reader removes it.
    if (group.store->add(readers_of(peer), 1, group.deadline) < theirs.readers) continue;
    group.store->remove(key_of(peer));
    group.store->remove(readers_of(peer));
  }
  return addresses;
}

std::vector<std::pair<int, int>> pair_rails(const RankAddress& a, const RankAddress& b) {
  for (int wanted : {2, 1}) {
    std::vector<std::pair<int, int>> pairs;
    std::vector<bool> taken(b.rails.size());
    for (size_t i = 0; i < a.rails.size(); ++i) {
      for (size_t j = 0; j < b.rails.size(); ++j) {
        if (taken[j] || affinity(a.rails[i], b.rails[j]) < wanted) continue;
        taken[j] = true;
        pairs.emplace_back(int(i), int(j));
        break;
      }
    }
    if (!pairs.empty()) return pairs;
  }
  return {};
}

int far_ends(const RankAddress& a, const RankAddress& b, std::pair<int, int> rails) {
  return int(is_far(a, rails.first)) + int(is_far(b, rails.second));
}

void arrange(std::vector<std::pair<int, int>>& pairs, const RankAddress& a, const RankAddress& b,
             int turn) {
  if (!knows_nodes(a) && !knows_nodes(b)) return;
  const auto far = [&](const std::pair<int, int>& pair) { return far_ends(a, b, pair); };
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const auto& x, const auto& y) { return far(x) < far(y); });
  for (auto first = pairs.begin(); first != pairs.end();) {
    const auto last = std::find_if(first, pairs.end(),
                                   [&](const auto& pair) { return far(pair) != far(*first); });
    std::rotate(first, first + turn % (last - first), last);
    first = last;
  }
}

bool selected(const std::string& wish, const std::string& device, int port) {
  if (wish.empty()) return true;
  const bool exclude = wish[0] == '^';
  size_t at = exclude ? 1 : 0;
  const bool exact = at < wish.size() && wish[at] == '=';
  at += exact ? 1 : 0;
  for (; at <= wish.size();) {
    const size_t comma = std::min(wish.find(',', at), wish.size());
    const std::string item = wish.substr(at, comma - at);
    at = comma + 1;
    const size_t colon = item.find(':');
    const std::string name = item.substr(0, colon);
    // What follows a second colon (rail and plane) concerns the switch only.
    const bool port_fits = colon == item.npos || std::atoi(item.c_str() + colon + 1) == port;
    const bool name_fits = exact ? device == name : device.compare(0, name.size(), name) == 0;
    if (!name.empty() && name_fits && port_fits) return !exclude;
  }
  return exclude;
}

}  // namespace ringwood::verbs
