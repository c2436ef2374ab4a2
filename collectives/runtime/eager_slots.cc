#include "collectives/runtime/eager_slots.h"

#include "transports/mailbox.h"

namespace ringwood {

bool slots_to_all(const Mesh& mesh) {
  for (int peer = 0; peer < mesh.size; ++peer) {
    if (peer == mesh.rank) continue;
    Link* const link = mesh.peers[peer].link[kCollectiveChannel].get();
    if (!link || !link->mailbox()) return false;
  }
  return true;
}

}  // namespace ringwood
