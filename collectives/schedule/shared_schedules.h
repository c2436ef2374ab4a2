// The schedules of all ranks of a group, each distinct list of steps stored once.
//
// In a ring, and in most algorithms of many steps, the schedule of rank r is that of rank 0 with
// some numbers rotated by r. So a list is stored as its first rank has it, its home, and another
// rank shares it if the same rules make the list's steps that rank's, number by number:
//   - its peers are the home's, or those plus, or minus, the distance of the two ranks, modulo n;
//   - its chunks likewise within each block of n chunks, by one rule for all of a block; a span
//     stays within its block;
//   - what is in no whole block of n (scratch, the output of reduce_scatter) is the home's;
//   - its scratch has the sizes of the home's chunks, or of those rotated by one rule.
// Which rules hold is found by comparison, step by step; a schedule that no stored list fits
// becomes a list of its own. What is read is therefore exactly what was added, whatever it was,
// right or wrong.
//
// All ranks of a list have one graph (graph.h) and one order of messages on links, because the
// rules rename chunks one to one, and peers one to one.
//
// Memory: that of the steps of each distinct list (step_runs.h), and 8 bytes for each rank. add()
// reads each step of the schedule, and of kCompared lists at most.
// Not thread safe while add() runs; else any thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "collectives/schedule/collective.h"
#include "collectives/schedule/schedule.h"
#include "collectives/schedule/step_runs.h"

namespace ringwood {

// One rule, or a set of those that hold.
using Rotations = uint8_t;
inline constexpr Rotations kNotRotated = 1, kForward = 2, kBackward = 4, kAnyRotation = 7;

// A list of steps as its home has it.
struct SharedList {
  int home = 0;  // a rank
  int n = 1, chunks = 0;
  int period = INT32_MAX;  // a block of n begins at each multiple
  Rotations of_peers = kAnyRotation, of_scratch = kAnyRotation;
  std::vector<Rotations> of_block;
  std::vector<int> scratch;
  StepRuns steps;

  // Precondition: chunk in 0 .. chunks-1.
  int block(int chunk) const { return chunk < period ? 0 : chunk / period; }
  // The block has n chunks.
  bool whole(int block) const { return int64_t{block} * period + n <= chunks; }
};

// One rank's schedule, stored in either way. A view: what it is of must outlive it.
class ScheduleView {
 public:
  explicit ScheduleView(const Schedule& schedule)
      : rank(schedule.rank), n(schedule.n), chunks(schedule.chunks), plain_(&schedule) {}
  ScheduleView(const SharedList& list, int its_rank)
      : rank(its_rank),
        n(list.n),
        chunks(list.chunks),
        list_(&list),
        forward_(list.n > 0 ? wrap(its_rank - list.home, list.n) : 0),
        backward_(forward_ == 0 ? 0 : list.n - forward_) {}

  const int rank, n, chunks;

  int32_t size() const {
    return plain_ ? static_cast<int32_t>(plain_->steps.size()) : list_->steps.size();
  }
  // By value: it may be stored nowhere.
  Step step(int32_t i) const {
    if (plain_) return plain_->steps[i];
    const Step step = list_->steps[i];
    return {step.kind, peer(step.peer), span(step.dst), span(step.src), step.joined};
  }
  int scratch_size() const {
    return static_cast<int>(plain_ ? plain_->scratch.size() : list_->scratch.size());
  }
  // The chunk whose size it has.
  int scratch(int i) const { return plain_ ? plain_->scratch[i] : like(list_->scratch[i]); }
  Schedule schedule() const;

 private:
  int distance(Rotations held) const {
    return held & kNotRotated ? 0 : held & kForward ? forward_ : backward_;
  }
  int peer(int of_home) const {
    if (of_home < 0 || of_home >= n) return of_home;
    const int moved = of_home + distance(list_->of_peers);
    return moved < n ? moved : moved - n;
  }
  Span span(Span of_home) const {
    if (of_home.count < 1 || of_home.first < 0 || of_home.first >= chunks) return of_home;
    const int block = list_->block(of_home.first);
    return {rotated(of_home.first, block, list_->of_block[block]), of_home.count};
  }
  int like(int of_home) const {
    if (of_home < 0 || of_home >= chunks) return of_home;
    const int block = list_->block(of_home);
    return rotated(of_home, block, list_->whole(block) ? list_->of_scratch : kNotRotated);
  }
  int rotated(int chunk, int block, Rotations held) const {
    const int at = chunk - block * list_->period, by = distance(held);
    if (at >= n || by == 0) return chunk;
    return at + by < n ? chunk + by : chunk + by - n;
  }

  const Schedule* plain_ = nullptr;
  const SharedList* list_ = nullptr;
  int forward_ = 0, backward_ = 0;  // what is added modulo n
};

class SharedSchedules {
 public:
  // The collective says where blocks begin, and nothing else.
  explicit SharedSchedules(Collective collective) : collective_(collective) {}

  // Of the next rank.
  void add(const Schedule& schedule);

  int size() const { return static_cast<int>(ranks_.size()); }
  ScheduleView operator[](int index) const {
    return {lists_[ranks_[index].list], ranks_[index].rank};
  }
  // Distinct lists are numbered from 0 on.
  int lists() const { return static_cast<int>(lists_.size()); }
  int list(int index) const { return ranks_[index].list; }
  // The index of the first schedule that has the list.
  int first_of(int list) const { return firsts_[list]; }

 private:
  static constexpr size_t kCompared = 8;
  struct Of {
    int rank;  // as the schedule says
    int list;
  };

  SharedList packed(const Schedule& schedule) const;

  Collective collective_;
  std::vector<Of> ranks_;
  std::vector<SharedList> lists_;
  std::vector<int> firsts_;                               // by list
  std::unordered_map<uint64_t, std::vector<int>> alike_;  // lists by kinds and lengths
};

}  // namespace ringwood
