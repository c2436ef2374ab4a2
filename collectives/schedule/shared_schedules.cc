#include "collectives/schedule/shared_schedules.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ringwood {
namespace {

// Which rules turn the home's list into another rank's. What is found is the list's once all of
// the schedule fits: rules that are dropped were not needed by the ranks before.
class Comparison {
 public:
  Comparison(const SharedList& list, const Schedule& other)
      : list_(list),
        other_(other),
        peers_(list.of_peers),
        scratch_(list.of_scratch),
        blocks_(list.of_block) {}

  bool fits() {
    const int n = list_.n;
    if (other_.n != n || other_.chunks != list_.chunks || other_.rank < 0 || other_.rank >= n ||
        list_.home < 0 || list_.home >= n || std::ssize(other_.steps) != list_.steps.size() ||
        other_.scratch.size() != list_.scratch.size())
      return false;
    forward_ = wrap(other_.rank - list_.home, n);
    for (int32_t i = 0; i < list_.steps.size(); ++i)
      if (!step_fits(list_.steps[i], other_.steps[i])) return false;
    for (size_t i = 0; i < other_.scratch.size(); ++i)
      if (!scratch_fits(list_.scratch[i], other_.scratch[i])) return false;
    return true;
  }

  void keep(SharedList& list) {
    list.of_peers = peers_;
    list.of_scratch = scratch_;
    list.of_block = std::move(blocks_);
  }

 private:
  bool step_fits(const Step& a, const Step& b) {
    return a.kind == b.kind && a.joined == b.joined && peer_fits(a.peer, b.peer) &&
           span_fits(a.dst, b.dst) && span_fits(a.src, b.src);
  }

  bool peer_fits(int a, int b) {
    if (a < 0 || a >= list_.n) return a == b;
    peers_ &= rules(a, b);
    return peers_ != 0;
  }

  bool scratch_fits(int a, int b) {
    const auto [block, start] = whole_block(a);
    if (block < 0) return a == b;
    scratch_ &= rules(a - start, b - start);
    return scratch_ != 0;
  }

  bool span_fits(Span a, Span b) {
    if (a.count != b.count) return false;
    if (a.count < 1) return a.first == b.first;
    const auto [block, start] = whole_block(a.first);
    const int at = a.first - start;
    if (block < 0 || at + int64_t{a.count} > list_.n) return a.first == b.first && leave(a);
    Rotations& held = blocks_[block];
    held &= rules(at, b.first - int64_t{start});
    // In the other's block as well.
    if (b.first - int64_t{start} + b.count > list_.n) held &= kNotRotated;
    return held != 0;
  }

  // The span is not in one block: those that it touches keep their numbers.
  bool leave(Span span) {
    const int64_t end = std::min<int64_t>(int64_t{span.first} + span.count, list_.chunks);
    if (span.count == 1) return true;
    for (int64_t block = std::max(span.first, 0) / list_.period; block * list_.period < end;
         ++block) {
      blocks_[block] &= kNotRotated;
      if (blocks_[block] == 0) return false;
    }
    return true;
  }

  // By which `a`, in 0 .. n-1, becomes b.
  Rotations rules(int64_t a, int64_t b) const {
    const int64_t n = list_.n, up = a + forward_, down = a - forward_;
    return (a == b ? kNotRotated : 0) | (b == (up < n ? up : up - n) ? kForward : 0) |
           (b == (down < 0 ? down + n : down) ? kBackward : 0);
  }

  // The number of a chunk's block and its first chunk; -1: the chunk is in no whole block.
  std::pair<int, int> whole_block(int chunk) const {
    if (chunk < 0 || chunk >= list_.chunks) return {-1, 0};
    const int block = list_.block(chunk), start = block * list_.period;
    return {chunk - start < list_.n && list_.whole(block) ? block : -1, start};
  }

  const SharedList& list_;
  const Schedule& other_;
  int forward_ = 0;
  Rotations peers_, scratch_;
  std::vector<Rotations> blocks_;
};

uint64_t shape_of(const Schedule& s) {
  uint64_t hash = s.steps.size();
  const auto mix = [&](int64_t value) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
  };
  for (const Step& step : s.steps)
    mix(static_cast<int64_t>(step.kind) * 2 + (step.joined ? 1 : 0) + step.dst.count * int64_t{16} +
        step.src.count * (int64_t{1} << 34));
  return hash;
}

}  // namespace

Schedule ScheduleView::schedule() const {
  if (plain_) return *plain_;
  Schedule result{rank, n, chunks, {}, {}};
  for (int i = 0; i < scratch_size(); ++i) result.scratch.push_back(scratch(i));
  result.steps.reserve(size());
  for (int32_t i = 0; i < size(); ++i) result.steps.push_back(step(i));
  return result;
}

SharedList SharedSchedules::packed(const Schedule& s) const {
  SharedList list;
  list.home = s.rank;
  list.n = s.n;
  list.chunks = s.chunks;
  list.scratch = s.scratch;
  list.steps = StepRuns(s.steps);
  const bool output = traits_of(collective_).chunks == Chunks::inputs_and_output;
  const int64_t period = int64_t{s.n} + (output ? 1 : 0);
  const int64_t blocks = s.n < 2 ? 1 : (s.chunks + period - 1) / period;
  // Of so many blocks nearly all are unused.
  const bool rotates = s.n > 1 && blocks <= static_cast<int64_t>(s.steps.size()) + 1;
  if (rotates) list.period = static_cast<int>(period);
  list.of_block.assign(rotates ? std::max<int64_t>(blocks, 1) : 1,
                       rotates ? kAnyRotation : kNotRotated);
  return list;
}

void SharedSchedules::add(const Schedule& schedule) {
  std::vector<int>& alike = alike_[shape_of(schedule)];
  // The last ones first: ranks that are alike are near each other.
  for (size_t i = 0; i < std::min(alike.size(), kCompared); ++i) {
    const int list = alike[alike.size() - 1 - i];
    Comparison comparison(lists_[list], schedule);
    if (!comparison.fits()) continue;
    comparison.keep(lists_[list]);
    ranks_.push_back({schedule.rank, list});
    return;
  }
  alike.push_back(lists());
  ranks_.push_back({schedule.rank, lists()});
  firsts_.push_back(size() - 1);
  lists_.push_back(packed(schedule));
}

}  // namespace ringwood
