// Where the chunks of a schedule lie, given sizes: for steps (bind in passes.h) and for the
// programs of devices (device/bind_words.h). Pure.
#pragma once

#include <vector>

#include "collectives/plan/plan.h"

namespace ringwood {

// Of a rank's schedule in `segment_count` segments. Chunks have the numbers of segments()
// (compose.h); scratch is contiguous within a segment, and each segment's begins on a cache line.
class ChunkLayout final {
 public:
  // `flat` is before segments(). Both are used in the constructor only; `args` has to live on.
  ChunkLayout(const Schedule& flat, const Schedule& segmented, const CollectiveArgs& args,
              int segment_count);

  size_t scratch_bytes() const { return scratch_bytes_; }
  Place place(Span span) const { return chunks_[span.first].place; }
  size_t bytes(Span span) const { return before_[span.first + span.count] - before_[span.first]; }

 private:
  struct ChunkPlace {
    Place place;
    size_t bytes = 0;
  };
  void add_user_chunks(int segment);

  const CollectiveArgs& args_;
  GroupRank at_;
  int users_, segments_;
  size_t element_;
  std::vector<ChunkPlace> chunks_;
  std::vector<size_t> before_ = {0};  // by chunk: the bytes of those before it
  size_t scratch_bytes_ = 0;
};

}  // namespace ringwood
