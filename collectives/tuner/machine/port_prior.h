// What the kernel says of this host's ports: used where nothing was measured (explain, simulate).
#pragma once

#include <optional>
#include <string>

namespace ringwood {

struct PortPrior {
  double rate = 0;  // bytes/s of all ports together, each direction
  int rails = 1;
  bool rdma = false;  // they are InfiniBand or RoCE
};

// The InfiniBand and RoCE ports that are active; without one the fastest network device whose link
// is up. Virtual devices do not count: their rates mean nothing. Nothing where no rate is known.
// `sys`: where sysfs is.
std::optional<PortPrior> port_prior(const std::string& sys = "/sys");

}  // namespace ringwood
