#include "transports/memory/retired_blocks.h"

#include <algorithm>

namespace ringwood {
namespace {

void drop_mapped(std::vector<RemappedBuffer>& unmapped, const Remapper& remapper) {
  const auto mapped = remapper.pieces();
  std::erase_if(unmapped, [&](const RemappedBuffer& buffer) {
    return std::any_of(mapped.begin(), mapped.end(), [&](const Mapping& m) {
      return m.offset < buffer.offset + buffer.block_bytes() &&
             buffer.offset < m.offset + (m.end - m.begin);
    });
  });
}

}  // namespace

void RetiredBlocks::give_back_unmapped(const Remapper& remapper) {
  if (blocks_.empty()) return;
  std::vector<RemappedBuffer> unmapped = blocks_;
  drop_mapped(unmapped, remapper);
  if (!unmapped.empty()) drop_mapped(unmapped, remapper);
  // The only other holders of a block, besides these two lists, are exposed messages.
  std::erase_if(blocks_, [&](const RemappedBuffer& buffer) {
    const auto same = [&](const RemappedBuffer& other) { return other.block == buffer.block; };
    return std::any_of(unmapped.begin(), unmapped.end(), same) && buffer.block.use_count() == 2;
  });
}

}  // namespace ringwood
