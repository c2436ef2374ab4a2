// The addresses of a rank, and which of two ranks' rails are paired. Needs no RDMA device.
//
// A rail is one port with one GID. Addresses are exchanged through the store. A rank without rails
// sends the reason, so that no rank waits for it and all ranks pair rails alike.
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
  int node = -1;   // the memory node near the device; -1: unknown
  bool operator==(const RailAddress&) const = default;
};

struct RankAddress {
  std::string reason;  // why there are no rails
  int node = -1;       // the memory node that the rank runs on
  std::vector<RailAddress> rails;
};

// The value in the store.
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

// Collective among the wanted ranks. Returns addresses by rank. Leaves nothing in the store.
std::vector<RankAddress> exchange_addresses(const Group& group, const std::vector<bool>& wanted,
                                            const RankAddress& mine);

// Pairs of a rail of `a` and a rail of `b`; each rail once. Rails of one subnet are paired; if no
// two share one (every rail is routed), they are paired in their order. Families and link layers
// never mix. pair_rails(b, a) gives the same pairs.
std::vector<std::pair<int, int>> pair_rails(const RankAddress& a, const RankAddress& b);

// How many rails of a pair are not near their rank's memory; unknown counts as near.
int far_ends(const RankAddress& a, const RankAddress& b, std::pair<int, int> rails);

// Sorts near pairs first. Of equally near ones, the first `turn` go to the end, so that ranks of a
// host that have the same rails begin with different ones. No effect if no node is known.
void arrange(std::vector<std::pair<int, int>>& pairs, const RankAddress& a, const RankAddress& b,
             int turn);

// "^mlx5_0" exclude, "=mlx5_0" exact, else prefixes; "name:port". Empty: all.
bool selected(const std::string& wish, const std::string& device, int port);

}  // namespace ringwood::verbs
