// Which buffers of collectives are remapped to shared memory in place (RINGWOOD_REMAP,
// transports/memory/remap.h).
#pragma once

#include <cstddef>

#include "collectives/operations/operation.h"
#include "transports/base/options.h"
#include "transports/memory/remap.h"
#include "transports/mesh.h"

namespace ringwood {

class Remapping final {
 public:
  Remapping(const Mesh& mesh, const Options& options);

  // The operation begins: from now until it is completed its buffers may be remapped. Other
  // operations in flight may share some of this memory, but all of them only read it. So the bytes
  // remain the same while the pages change, for every reader.
  void begin(const CollectiveState& operation) {
    if (remapped_) remap(operation);
  }
  // The operation is given up: the owner of its buffers gets pages that no peer can reach.
  void withdraw(const CollectiveState& operation);

 private:
  void remap(const CollectiveState& operation);

  RemappedMemory* remapped_ = nullptr;  // null: no buffer is to be remapped
  const size_t bytes_;                  // the size from which on buffers are remapped
};

}  // namespace ringwood
