// A set of bytes of a file, as ranges that neither overlap nor touch. Not thread safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace ringwood {

class Extents final {
 public:
  struct Extent {
    uint64_t begin = 0, end = 0;
    bool operator==(const Extent&) const = default;
  };

  void add(uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    auto next = stretches_.upper_bound(begin);
    if (next != stretches_.begin() && std::prev(next)->second >= begin) {
      --next;
      begin = next->first;
    }
    while (next != stretches_.end() && next->first <= end) {
      end = std::max(end, next->second);
      next = stretches_.erase(next);
    }
    stretches_[begin] = end;
  }

  void remove(uint64_t begin, uint64_t end) {
    for (const Extent& part : within(begin, end)) {
      const auto found = std::prev(stretches_.upper_bound(part.begin));
      const Extent whole{found->first, found->second};
      stretches_.erase(found);
      if (whole.begin < part.begin) stretches_[whole.begin] = part.begin;
      if (part.end < whole.end) stretches_[part.end] = whole.end;
    }
  }

  // The parts of [begin, end) that are in the set; gaps() returns those that are not. Ascending.
  std::vector<Extent> within(uint64_t begin, uint64_t end) const {
    std::vector<Extent> found;
    auto next = stretches_.upper_bound(begin);
    if (next != stretches_.begin()) --next;
    for (; next != stretches_.end() && next->first < end; ++next) {
      const Extent part{std::max(begin, next->first), std::min(end, next->second)};
      if (part.begin < part.end) found.push_back(part);
    }
    return found;
  }
  // The number of bytes of [begin, end) that are in the set.
  uint64_t overlap(uint64_t begin, uint64_t end) const {
    uint64_t bytes = 0;
    auto next = stretches_.upper_bound(begin);
    if (next != stretches_.begin()) --next;
    for (; next != stretches_.end() && next->first < end; ++next)
      if (next->second > begin) bytes += std::min(end, next->second) - std::max(begin, next->first);
    return bytes;
  }
  std::vector<Extent> gaps(uint64_t begin, uint64_t end) const {
    std::vector<Extent> found;
    for (const Extent& part : within(begin, end)) {
      if (begin < part.begin) found.push_back({begin, part.begin});
      begin = part.end;
    }
    if (begin < end) found.push_back({begin, end});
    return found;
  }

 private:
  std::map<uint64_t, uint64_t> stretches_;  // begin -> end
};

}  // namespace ringwood
