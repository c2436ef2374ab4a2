// An end of a path, as two messages contain it: a link's hello and the address of a path that is
// reopened. Needs no RDMA device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "transports/base/bytes.h"
#include "transports/verbs/library/ece.h"

namespace ringwood::verbs {

inline constexpr size_t kMaxPaths = 128;  // of a link
// On each of so many rails, of the queue pairs that are wanted there.
constexpr int queue_pairs_of_rail(int wanted, int rails) {
  return std::clamp(static_cast<int>(kMaxPaths) / rails, 1, wanted);
}

// What a side needs to know of the other's end.
struct PathEnd {
  uint32_t number = 0, first_packet = 0;  // 24 bits on the network
  std::optional<Ece> ece = std::nullopt;
  bool operator==(const PathEnd&) const = default;
};

void fields(auto& io, PathEnd& end) {
  constexpr uint32_t k24Bits = 0xffffff;
  io.number(end.number, 0, k24Bits);
  io.number(end.first_packet, 0, k24Bits);
  io.optional(end.ece, [&](Ece& ece) {
    for (uint32_t* part : {&ece.vendor, &ece.options, &ece.mask}) io.number(*part);
  });
}

}  // namespace ringwood::verbs
