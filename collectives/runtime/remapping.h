// Which buffers of collectives become shared where they lie (RINGWOOD_REMAP,
// transports/memory/remap.h).
//
// Thread safety: the driver only.
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

  // It begins: its buffers are ours from now on, until it is completed. Others that are under way
  // may have some of this memory, but only to read it, as it does: so the bytes stay what they are
  // while the pages change, whoever reads them.
  void begin(const CollectiveState& operation) {
    if (remapped_) remap(operation);
  }
  // It is given up, and its buffers' owner gets pages that no peer can reach.
  void withdraw(const CollectiveState& operation);

 private:
  void remap(const CollectiveState& operation);

  RemappedMemory* remapped_ = nullptr;  // null: no buffer is to become shared
  const size_t bytes_;                  // from which on they do
};

}  // namespace ringwood
