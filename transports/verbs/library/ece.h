// Enhanced connection establishment: vendor-specific options of two RDMA devices beyond the
// standard, opaque to this library. One side sends what its queue pair can do; the other applies
// that and replies with what it supports of it; the first then applies the reply. All this happens
// before the queue pairs are ready to receive.
//
// Optional: where the library or the device does not have it, or refuses, it is not used.
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
