// Enhanced connection establishment: what two devices of a vendor can do for each other beyond the
// standard, opaque to us. The side that asks sends what its queue pair can; the other takes that
// over, answers with what is left of it, and the first takes that over: all before the queue pairs
// are ready to receive.
//
// Nothing depends on it: where the library or the device has none, or refuses, there is none.
#pragma once

#include <cstdint>
#include <optional>

struct ibv_qp;

namespace ringwood::verbs {

struct Library;

struct Ece {
  uint32_t vendor = 0, options = 0, mask = 0;
  bool operator==(const Ece&) const = default;
};

// What the queue pair can do, or is set to.
std::optional<Ece> query_ece(const Library& library, ibv_qp* pair);
// False: refused.
bool set_ece(const Library& library, ibv_qp* pair, const Ece& wanted);

}  // namespace ringwood::verbs
