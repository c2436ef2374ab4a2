// The counters of this host that tell of loss, reordering, congestion or faults on its network:
// RDMA ports (hw_counters and counters), network interfaces (the kernel's and the driver's own, as
// `ethtool -S` shows them) and TCP. And the bytes that each port and interface has sent and
// received, so that a rail that carried nothing, or a wrong priority, is seen. Those of all hosts
// come together by gather_counters().
//
// Drivers may refresh counters only every few milliseconds to seconds. What cannot be read is not
// there. Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/gather.h"

namespace ringwood::tools {

// By device ("mlx5_0/1", "eth0", "tcp") and counter.
using Counters = std::map<std::string, std::map<std::string, int64_t>>;

// Of one device; none: it has no such counter.
std::optional<int64_t> value_of(const std::map<std::string, int64_t>& device,
                                const std::string& counter);

class NetworkCounters final {
 public:
  // Reads them now. `root` is put before /sys and /proc; the driver's counters are the kernel's,
  // and only read where it is empty.
  explicit NetworkCounters(std::string root = "");
  // What came since.
  struct Readings {
    Counters telling;  // only what has risen
    // Also where they are 0, of all RDMA ports and of the interfaces that are up: "sent_bytes",
    // "received_bytes", and "tx_prio3_bytes", ... where the driver has them.
    Counters bytes;
  };
  Readings since() const;

 private:
  Readings read() const;
  void read_ports(Readings& now) const;
  void read_interfaces(Readings& now) const;

  const std::string root_;
  const Readings before_;
};

// "rxe0/1: out_of_seq_request +29, rcvd_seq_err +16", a line per device.
std::vector<std::string> lines_of(const Counters& risen);
// "rdma mlx5_0/1 sent 12.1 GB, received 12.1 GB; eth0 sent 0 B, received 1.2 kB". Of interfaces
// without a port of RDMA only those that carried something; "" where there is nothing to say.
std::string line_of_traffic(const Counters& traffic);
// "12.1 GB", of 10^9 bytes.
std::string print_bytes(int64_t bytes);
// Those of RDMA ports alone.
Counters rdma_only(const Counters& counters);

struct HostCounters {
  std::string host;
  std::vector<int> ranks;
  Counters risen, traffic;
};
// Collective: what has risen on each host, as its first rank saw it; at every rank. `mine`: not
// null at those ranks.
std::vector<HostCounters> gather_counters(Communicator& group, const std::vector<HostRanks>& hosts,
                                          const NetworkCounters* mine);

}  // namespace ringwood::tools
