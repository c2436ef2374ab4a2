// The memory of all rings of a transport; registered as a whole.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "transports/verbs/path/path_address.h"
#include "transports/verbs/ring/ring.h"

namespace ringwood::verbs {

struct Rings {
  std::shared_ptr<std::byte> memory;
  size_t ring_bytes = 0, links = 0;
  std::string failure;  // why they cannot be used; the peers learn it from the hello
  size_t bytes() const { return 2 * links * ring_bytes + kProbeBytes; }
  std::byte* scrap() const { return memory.get() + 2 * links * ring_bytes; }  // is never read
  Ring outgoing(size_t link) const { return {memory.get() + 2 * link * ring_bytes, ring_bytes}; }
  Ring incoming(size_t link) const { return {outgoing(link).memory + ring_bytes, ring_bytes}; }
};

}  // namespace ringwood::verbs
