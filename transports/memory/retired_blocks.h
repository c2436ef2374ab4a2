// Blocks of buffers that are no longer mapped where they were remapped (remap.h), until they are
// unreachable.
//
// A block is reused, or its memory given back, when no message in it is exposed and the kernel
// knows of no mapping of it at any address. That must be found twice running, since a mapping that
// another thread moves may be missed once. Not thread safe.
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
