// Blocks of buffers that do not lie where they were remapped (remap.h), until nobody can reach
// them.
//
// A block is used again, or its memory given back, when no message is lent from it and the kernel
// knows of no mapping of it at any address: looked for twice in a row, since a mapping that another
// thread moves may be missed once. One thread at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "transports/memory/remapped_buffers.h"
#include "transports/memory/remapper.h"

namespace ringwood {

class RetiredBlocks final {
 public:
  void add(const std::vector<RemappedBuffer>& buffers) {
    blocks_.insert(blocks_.end(), buffers.begin(), buffers.end());
  }
  const std::vector<RemappedBuffer>& all() const { return blocks_; }
  void give_back_unmapped(const Remapper& remapper);

 private:
  std::vector<RemappedBuffer> blocks_;
};

}  // namespace ringwood
