// The first message of each side of a link, before it connects. Needs no RDMA device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transports/verbs/path/path_end.h"

namespace ringwood::verbs {

struct Hello {
  std::string failure;
  uint64_t ring_bytes = 0, ring = 0;  // where the peer writes
  int traffic_class = 0, service_level = 0;
  std::vector<uint32_t> keys;  // by rail pair
  std::vector<PathEnd> paths;  // rail pair by rail pair
};

void fields(auto& io, Hello& hello) {
  io.text(hello.failure, 4096);
  io.number(hello.ring_bytes);
  io.number(hello.ring);
  io.number(hello.traffic_class, 0, 255);
  io.number(hello.service_level, 0, 15);
  io.list(hello.keys, kMaxPaths, [&](uint32_t& key) { io.number(key); });
  io.list(hello.paths, kMaxPaths, [&](PathEnd& end) { fields(io, end); });
}

}  // namespace ringwood::verbs
