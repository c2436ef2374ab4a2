// Which buffers are used so often that they are to be remapped (remap.h). One thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace ringwood {

class RemapCandidates final {
 public:
  // A buffer that is not remapped is used once more. True, at the third time: it is to be remapped
  // now; and then ever more reluctantly, since what was remapped does not last there.
  bool due(uintptr_t begin, size_t bytes) {
    if (candidates_.size() >= kMaxCandidates) candidates_.clear();
    Candidate& candidate = candidates_[{begin, bytes}];
    if (++candidate.seen < candidate.needed) return false;
    candidate.seen = 0;
    candidate.needed = std::min(candidate.needed * 4, kMaxNeeded);
    return true;
  }

 private:
  static constexpr unsigned kMaxNeeded = 768;
  static constexpr size_t kMaxCandidates = 4096;
  struct Candidate {
    unsigned seen = 0, needed = 3;
  };
  std::map<std::pair<uintptr_t, size_t>, Candidate> candidates_;
};

}  // namespace ringwood
