#include "tools/tune/ranges.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "collectives/tuner/choice/choose.h"

namespace ringwood::tools {
namespace {

// Half way between two sizes, as their ratio goes.
size_t middle(size_t a, size_t b) {
  return static_cast<size_t>(std::sqrt(static_cast<double>(a) * static_cast<double>(b)));
}

// From `from` towards `to`, as far as all sizes are `same`. Costs are those of size classes, eight
// for a doubling (size_class()), so smaller steps miss none.
size_t farthest(size_t from, size_t to, const std::function<bool(size_t)>& same) {
  constexpr size_t kSteps = 17;
  for (size_t at = from; at != to;) {
    const size_t step = std::max<size_t>(1, at / kSteps);
    const size_t next = to > at ? std::min(to, at + step) : std::max(to, at - std::min(at, step));
    if (!same(next)) return at;
    at = next;
  }
  return to;
}

TunedRange range_at(const TuneResult& r, const TunedRange& like) {
  TunedRange range = like;
  const Contender &choice = *r.choice(), &incumbent = *r.incumbent();
  range.from = range.to = r.bytes;
  if (&choice != &incumbent) {
    range.algorithm = choice.algorithm;
    range.segments = choice.segments;
    range.wire = choice.wire;
  }
  TunedPoint point;
  point.bytes = r.bytes;
  point.time = choice.time;
  point.default_algorithm = ringwood::name_of(incumbent.algorithm, incumbent.wire);
  point.default_segments = incumbent.segments;
  point.default_time = incumbent.time;
  point.repetitions = static_cast<int>(choice.times.size());
  range.points = {point};
  return range;
}

bool alike(const TunedRange& a, const TunedRange& b) {
  return a.algorithm == b.algorithm && a.segments == b.segments && a.wire == b.wire;
}

}  // namespace

const Contender* TuneResult::standard() const {
  const auto it = std::ranges::find_if(contenders, &Contender::is_default);
  return it == contenders.end() ? nullptr : &*it;
}

const Contender* TuneResult::incumbent() const {
  const Contender* const c = standard();
  return c && c->outcome == Outcome::racing && !c->times.empty() ? c : nullptr;
}

const Contender* TuneResult::choice() const {
  const Contender* const before = incumbent();
  const Contender* best = before;
  for (const Contender& c : contenders) {
    const bool counts = before && c.outcome == Outcome::racing &&
                        static_cast<int>(c.times.size()) >= kMinRepetitions;
    if (!counts || c.is_default || !clears(c.time, before->time, kMargin)) continue;
    if (best == before || c.time.median < best->time.median) best = &c;
  }
  return best;
}

std::vector<TunedRange> ranges_of(const std::vector<TuneResult>& results, const TunedRange& like,
                                  const std::function<std::string(size_t)>& default_at) {
  std::vector<const TuneResult*> measured;
  for (const TuneResult& r : results)
    if (r.incumbent()) measured.push_back(&r);
  std::vector<TunedRange> ranges;
  for (size_t i = 0; i < measured.size(); ++i) {
    const TuneResult& r = *measured[i];
    TunedRange range = range_at(r, like);
    if (r.choice() != r.incumbent()) {
      const std::string beaten = name_of(*r.incumbent());
      const size_t low = i > 0 ? middle(measured[i - 1]->bytes, r.bytes) + 1 : r.bytes * 3 / 4;
      const size_t high =
          i + 1 < measured.size() ? middle(r.bytes, measured[i + 1]->bytes) : r.bytes * 3 / 2;
      range.from = farthest(r.bytes, low, [&](size_t at) { return default_at(at) == beaten; });
      range.to = farthest(r.bytes, high, [&](size_t at) { return default_at(at) == beaten; });
    }
    if (!ranges.empty() && alike(ranges.back(), range) &&
        (range.algorithm.empty() || ranges.back().to + 1 == range.from)) {
      ranges.back().to = range.to;
      ranges.back().points.push_back(range.points.front());
    } else {
      ranges.push_back(std::move(range));
    }
  }
  return ranges;
}

std::vector<TunedRange> merged(const std::vector<TunedRange>& before,
                               const std::vector<TunedRange>& now) {
  const auto key = [](const TunedRange& r) {
    return std::tuple(r.collective, r.root, r.rounded, r.tolerance);
  };
  std::vector<TunedRange> all = now;
  for (const TunedRange& r : before)
    if (std::ranges::none_of(now, [&](const TunedRange& n) { return key(n) == key(r); }))
      all.push_back(r);
  std::ranges::stable_sort(all, {}, [&](const TunedRange& r) { return std::pair(key(r), r.from); });
  return all;
}

}  // namespace ringwood::tools
