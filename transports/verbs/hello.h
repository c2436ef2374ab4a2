// What a side of a link tells the other before it connects, as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transports/verbs/path/queue_pair.h"

namespace ringwood::verbs {

struct Hello {
  std::string failure;
  uint64_t ring_bytes = 0, ring = 0;  // where the peer writes
  int traffic_class = 0, service_level = 0;
  std::vector<uint32_t> keys;  // by rail pair
  std::vector<PathEnd> paths;  // rail pair by rail pair
};
// Bounded and strict; parse throws Error(network).
std::string print(const Hello& hello);
Hello parse_hello(std::string_view text);

}  // namespace ringwood::verbs
