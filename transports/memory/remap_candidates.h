// Counts how often buffers are used, to decide which to remap (remap.h). Not thread safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace ringwood {

class RemapCandidates final {
 public:
  // A buffer that is not remapped is used once more. Returns true, at the third time, if it is to
  // be remapped now. After each remapping four times as many uses are needed, since it did not
  // last.
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
