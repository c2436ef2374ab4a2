// Times of any number of operations in little memory: their percentiles, within 1.2 %.
//
// A time is counted in one of 64 steps of each power of two; the longest is kept exactly. Thread
// safety: none.
#pragma once

#include <cstdint>
#include <map>

namespace ringwood::tools {

class Histogram final {
 public:
  void add(double seconds);
  void add(const Histogram& other);

  int64_t count() const { return count_; }
  double longest_s() const { return longest_s_; }
  // The least time that so many percent do not exceed, rounded up to its step; 0 where there is
  // none.
  double percentile_s(double percent) const;

 private:
  std::map<int, int64_t> steps_;  // operations by step
  int64_t count_ = 0;
  double longest_s_ = 0;
};

}  // namespace ringwood::tools
