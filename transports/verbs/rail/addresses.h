// What a rank has to address its peers, and which of two ranks' rails belong together. Needs no
// device.
//
// A rail is one port with one GID. Addresses travel through the store, also from a rank that has
// nothing (with the reason), so that nobody waits for it and everyone pairs rails alike.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "transports/base/bytes.h"
#include "transports/group.h"
#include "transports/verbs/rail/gids.h"

namespace ringwood::verbs {

struct RailAddress {
  std::string name;  // "mlx5_0/1"
  bool infiniband = false;
  GidBytes gid{};
  int lid = 0;
  int mtu = 1024;  // bytes of a packet
  int node = -1;   // of memory, that the device is near to; -1: unknown
  bool operator==(const RailAddress&) const = default;
};

struct RankAddress {
  std::string reason;  // why there are none
  int node = -1;       // of memory, that the rank runs on
  std::vector<RailAddress> rails;
};

// As it lies in the store.
struct SharedAddress {
  int readers = 0;
  RankAddress address;
};

inline constexpr size_t kMaxRails = 16, kMaxReason = 4096;
inline constexpr int kMaxNodes = 4095;

void fields(auto& io, RailAddress& rail) {
  io.text(rail.name, 64);
  io.number(rail.infiniband);
  io.raw(rail.gid);
  io.number(rail.lid, 0, 0xffff);
  io.number(rail.mtu, 256, 4096);
  io.number(rail.node, -1, kMaxNodes);
}

void fields(auto& io, SharedAddress& shared) {
  io.number(shared.readers);
  io.text(shared.address.reason, kMaxReason);
  io.number(shared.address.node, -1, kMaxNodes);
  io.list(shared.address.rails, kMaxRails, [&](RailAddress& rail) { fields(io, rail); });
}

// Collective among the wanted; by rank. Leaves nothing in the store.
std::vector<RankAddress> exchange_addresses(const Group& group, const std::vector<bool>& wanted,
                                            const RankAddress& mine);

// Rail of `a` with rail of `b`; each once. Rails of one subnet belong together; where no two share
// one (every rail is routed), they are taken in their order. Families and link layers never mix.
// pair_rails(b, a) are the same pairs.
std::vector<std::pair<int, int>> pair_rails(const RankAddress& a, const RankAddress& b);

// Of the rails of a pair, how many are not near their rank's memory; what is unknown is near.
int far_ends(const RankAddress& a, const RankAddress& b, std::pair<int, int> rails);

// Near pairs first; of equal ones, as many as `turn` says go to the end, so that ranks of a host
// that have the same rails begin with different ones. Unchanged where no node is known.
void arrange(std::vector<std::pair<int, int>>& pairs, const RankAddress& a, const RankAddress& b,
             int turn);

// "^mlx5_0" exclude, "=mlx5_0" exact, else prefixes; "name:port". Empty: all.
bool selected(const std::string& wish, const std::string& device, int port);

}  // namespace ringwood::verbs
