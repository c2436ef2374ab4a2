// What one end of a path that is to be opened again tells the other (reopener.h), as text. Needs no
// device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "transports/verbs/path/queue_pair.h"

namespace ringwood::verbs {

// The GID may have changed.
struct PathAddress {
  PathEnd end;
  GidBytes gid{};
  int lid = 0, mtu = 1024;
  uint32_t key = 0;    // of the memory that the other end writes to
  uint64_t scrap = 0;  // there: kProbeBytes for the probe
};
inline constexpr size_t kProbeBytes = 4096;

// Bounded and strict; parse throws Error(network).
std::string print(const PathAddress& address);
PathAddress parse_path_address(std::span<const std::byte> text);
// A peer's words for our log: bounded, printable.
std::string printable(std::span<const std::byte> text);

}  // namespace ringwood::verbs
