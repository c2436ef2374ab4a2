#include "collectives/runtime/group_parts.h"

#include "collectives/communicator.h"

namespace ringwood {

const GroupParts& parts_of(const Communicator& group) {
  return dynamic_cast<const GroupParts&>(group);
}

}  // namespace ringwood
