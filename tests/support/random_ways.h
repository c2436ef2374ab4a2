// What is drawn beside schedules (random_programs.h): sizes, hosts, and what the passes decide by.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/plan_groups.h"

namespace ringwood::testing {

inline Places random_hosts(std::mt19937& random, int n) {
  Places places;
  int host = 0;
  for (int r = 0; r < n; ++r) {
    places.host.push_back(host);
    host += random() % 2 ? 1 : 0;
  }
  return places;
}

inline size_t random_count(std::mt19937& random) {
  switch (random() % 4) {
    case 0: return random() % 6;
    case 1: return 1 + random() % 3000;
    default: return 5000 + random() % 60000;  // large enough for fusion
  }
}

inline bool fits_round(const std::vector<Schedule>& all) {
  for (const Schedule& s : all)
    if (!fits_one_round(s)) return false;
  return true;
}

// Where fusion begins, from every message to none, and how long one waits for its operands.
inline ProtocolLimits random_limits(std::mt19937& random) {
  constexpr size_t kFused[] = {1, 1 << 10, ProtocolLimits{}.fused_bytes, SIZE_MAX};
  constexpr int kPatience[] = {0, 1, 50};
  ProtocolLimits limits;
  limits.fused_bytes = kFused[random() % 4];
  limits.fusion_patience = std::chrono::milliseconds(kPatience[random() % 3]);
  return limits;
}

}  // namespace ringwood::testing
