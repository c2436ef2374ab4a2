#include "collectives/plan/footprint.h"

#include <algorithm>
#include <functional>

namespace ringwood {

void Footprint::add(Ranges& ranges, const void* data, size_t bytes) {
  if (bytes == 0) return;
  const auto* const begin = static_cast<const std::byte*>(data);
  ranges.push_back({begin, begin + bytes});
}

void Footprint::sort() {
  sort(read_);
  sort(written_);
  sorted_ = true;
}

void Footprint::sort(Ranges& ranges) {
  std::ranges::sort(ranges, std::less<>(), &Range::begin);
  size_t last = 0;
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin <= ranges[last].end)
      ranges[last].end = std::max(ranges[last].end, ranges[i].end);
    else
      ranges[++last] = ranges[i];
  }
  if (!ranges.empty()) ranges.resize(last + 1);
}

bool Footprint::overlap(const Ranges& a, const Ranges& b) {
  if (a.empty() || b.empty()) return false;
  if (a.back().end <= b.front().begin || b.back().end <= a.front().begin) return false;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    if (x->end <= y->begin)
      ++x;
    else if (y->end <= x->begin)
      ++y;
    else
      return true;
  }
  return false;
}

bool Footprint::conflicts(const Footprint& other) const {
  return overlap(written_, other.written_) || overlap(written_, other.read_) ||
         overlap(read_, other.written_);
}

}  // namespace ringwood
