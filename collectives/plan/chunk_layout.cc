#include "collectives/plan/chunk_layout.h"

#include <algorithm>

#include "collectives/plan/passes.h"

namespace ringwood {
namespace {

// The divisions of piece(), once for all pieces.
class Cut {
 public:
  Cut(size_t count, int parts, size_t unit)
      : count_(count),
        parts_(static_cast<size_t>(parts)),
        unit_(count < unit * parts_ * 4 ? 1 : unit),
        share_(count / unit_ / parts_),
        extra_(count / unit_ % parts_) {}
  Piece operator[](size_t index) const { return {begin(index), begin(index + 1) - begin(index)}; }

 private:
  size_t begin(size_t i) const {
    return i == parts_ ? count_ : unit_ * (share_ * i + std::min(i, extra_));
  }

  size_t count_, parts_, unit_, share_, extra_;
};

}  // namespace

ChunkLayout::ChunkLayout(const Schedule& flat, const Schedule& segmented,
                         const CollectiveArgs& args, int segment_count)
    : args_(args),
      at_{flat.rank, flat.n, args.root},
      users_(flat.chunks),
      segments_(segment_count),
      element_(size_of(args.type)) {
  chunks_.reserve(segmented.chunks + segmented.scratch.size());
  for (int l = 0; l < segment_count; ++l) add_user_chunks(l);
  const size_t per_segment = flat.scratch.size();
  for (size_t s = 0; s < segmented.scratch.size(); ++s) {
    // The scratch of one segment is contiguous, as spans require; each segment begins on
    // a cache line.
    if (per_segment && s % per_segment == 0) scratch_bytes_ = aligned(scratch_bytes_);
    const size_t bytes = segmented.chunks ? chunks_[segmented.scratch[s]].bytes
                                          : 1;  // a barrier's token is one byte
    chunks_.push_back({{kScratch, scratch_bytes_}, bytes});
    scratch_bytes_ += bytes;
  }
  before_.reserve(chunks_.size() + 1);
  for (const ChunkPlace& chunk : chunks_) before_.push_back(before_.back() + chunk.bytes);
}

void ChunkLayout::add_user_chunks(int segment) {
  const size_t unit = std::max<size_t>(1, 64 / element_);
  if (cut_from_one_buffer(args_.collective)) {
    const Piece outer = piece(args_.count, segments_, segment, unit);
    const Cut inner(outer.count, std::max(1, users_), unit);
    for (int c = 0; c < users_; ++c) {
      const Piece p = inner[static_cast<size_t>(c)];
      chunks_.push_back({{0, (outer.first + p.first) * element_}, p.count * element_});
    }
    return;
  }
  for (int c = 0; c < users_; ++c) {
    const size_t block =
        args_.blocks.empty() ? args_.count : args_.blocks[block_of_chunk(args_.collective, at_, c)];
    const Piece p = piece(block, segments_, segment, unit);
    chunks_.push_back({{c, p.first * element_}, p.count * element_});
  }
}

Piece piece(size_t count, int parts, int index, size_t unit) {
  return Cut(count, parts, unit)[static_cast<size_t>(index)];
}

}  // namespace ringwood
