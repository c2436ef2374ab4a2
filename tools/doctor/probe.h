// What only traffic shows: pairs of hosts that are slow, addresses that do not answer, packets of
// the full MTU that vanish.
//
// Addresses. Each host sends UDP packets from each of its rails (or, without RDMA, from the address
// that its ranks use) to the same rail of every other host: small ones, and such as fill the MTU of
// both interfaces and may not be cut. A small one that is not answered in three tries is
// probe-unreachable, a full one probe-mtu. It takes 1.5 seconds and 10 ms for each address; packets
// of strangers are ignored. A rail's packets leave by its own interface.
// Transports. Ranks that use TCP between hosts which both have RDMA ports are probe-over-tcp.
// Pairs. The rates of all pairs of hosts, by proved rounds (tools/matrix), and of each RDMA rail by
// itself where hosts have several.
//
// Collective over the group; the first rank of each host sends. Results are the same on all ranks.
// Throws the group's Error.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "tools/doctor/probe_rails.h"
#include "tools/doctor/rules/rules.h"
#include "tools/matrix/matrix.h"

namespace ringwood::tools::doctor {

struct ProbeResult {
  std::optional<Matrix> matrix, by_rail;  // by_rail: each RDMA rail by itself (probe_rails.h)
  std::vector<Finding> findings;
  std::vector<NotChecked> not_checked;
};

// `hosts`: all of them, with their ranks; this rank's is hosts[mine]. `make`: groups for single
// rails.
ProbeResult probe_hosts(Communicator& group, const Snapshots& hosts, size_t mine,
                        const MakeGroup& make,
                        const std::function<void(const std::string&)>& progress);

// From a host's rail to the same rail of another.
struct FailedPath {
  int from = 0, to = 0, rail = 0;
  bool small = false;  // also small packets
  std::string what;    // "10.0.0.1 -> 10.0.0.2, 9000 bytes"
  bool operator<(const FailedPath& o) const {
    return std::tie(from, to, rail) < std::tie(o.from, o.to, o.rail);
  }
};
// Names the host whose paths fail, where all of them do, or the pair. `hosts`: their names.
std::vector<Finding> name_failures(const std::vector<FailedPath>& failed,
                                   const std::vector<std::string>& hosts);
// Pairs of hosts, the lower number first, with what was seen of each. Named is the finding's host:
// one all of whose pairs are there, or the pair, or all hosts.
using FailedPairs = std::map<std::pair<int, int>, std::string>;
std::vector<Finding> name_pairs(const char* id, FailedPairs pairs,
                                const std::vector<std::string>& hosts);
// By link or host, worst first.
std::vector<Finding> name_slow(const Matrix& matrix);

}  // namespace ringwood::tools::doctor
