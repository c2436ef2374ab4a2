// The message from one end of a path that is reopened to the other (reopener.h). Needs no RDMA
// device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "transports/verbs/path/path_end.h"
#include "transports/verbs/rail/gids.h"

namespace ringwood::verbs {

// The GID may have changed.
struct PathAddress {
  PathEnd end;
  GidBytes gid{};
  int lid = 0, mtu = 1024;
  uint32_t key = 0;    // of the memory that the other end writes to
  uint64_t scrap = 0;  // address of kProbeBytes there, for the probe
};
inline constexpr size_t kProbeBytes = 4096;

struct PathRefusal {
  std::string why;
};

void fields(auto& io, PathAddress& address) {
  fields(io, address.end);
  io.raw(address.gid);
  io.number(address.lid, 0, 0xffff);
  io.number(address.mtu, 256, 4096);
  io.number(address.key);
  io.number(address.scrap);
}

void fields(auto& io, PathRefusal& refusal) { io.text(refusal.why, 1024); }

}  // namespace ringwood::verbs
