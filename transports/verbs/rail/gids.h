// Chooses which GID of a port to use, from its table, without an RDMA device. Pure functions.
//
// A port has one GID for every address and RoCE version. Tables are sparse, differ from host to
// host, and contain GIDs of interfaces that this network namespace does not have, so no fixed index
// is right. The order of preference:
// 1. RoCE v2 before v1 (or the version asked for),
// 2. an interface that is here and up,
// 3. the family and range asked for,
// 4. global IPv4 before global or unique-local IPv6 before link-local,
// 5. no VLAN before VLAN,
// 6. the lowest index.
//
// If none fits, the result is an explanation with the table, never index 0.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringwood::verbs {

using GidBytes = std::array<uint8_t, 16>;

enum class GidType { infiniband, roce_v1, roce_v2 };

struct Gid {
  GidBytes bytes{};
  int index = 0;
  GidType type = GidType::roce_v2;
  std::string interface;  // "" if it is not in this network namespace
  bool up = false;        // the interface is up and has a carrier
  bool vlan = false;
};

struct GidWish {
  int index = -1;      // >= 0: this one, if it is there
  int version = 2;     // RoCE
  std::string family;  // "", "AF_INET" or "AF_INET6"
  std::string range;   // "", or CIDR
};

// "10.0.0.1" for an IPv4-mapped GID, else IPv6.
std::string to_string(const GidBytes& gid);
bool is_ipv4(const GidBytes& gid);
bool is_link_local(const GidBytes& gid);
bool is_zero(const GidBytes& gid);

// CIDR of either family: "10.0.0.0/8", "fd00::/8". nullopt: not a range.
struct GidRange {
  GidBytes prefix{};
  int bits = 128;  // of the GID
  bool contains(const GidBytes& gid) const;
};
std::optional<GidRange> parse_range(const std::string& text);

// The index into `table`, or nullopt with `why`, which contains the table.
std::optional<size_t> choose(const std::vector<Gid>& table, const GidWish& wish, std::string& why);
// "[1] 10.0.0.1 RoCE v2 eth0 up; [2] ..."
std::string print(const std::vector<Gid>& table);

// The number of leading bits that two addresses share, of those that distinguish subnets: at most
// 24 for IPv4, 64 for IPv6; 0 for different families.
int shared_prefix(const GidBytes& a, const GidBytes& b);

}  // namespace ringwood::verbs
