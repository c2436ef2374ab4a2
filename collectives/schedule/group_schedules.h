// The schedules of all ranks, by rank: those of a vector, or each distinct list once.
//
// A view, which costs as much as two pointers: what it is of must outlive it, and must not change.
// Both kinds are read alike, so what walks steps is written once. Any thread.
#pragma once

#include <vector>

#include "collectives/schedule/schedule.h"
#include "collectives/schedule/shared_schedules.h"

namespace ringwood {

class GroupSchedules {
 public:
  GroupSchedules() = default;  // of no ranks
  GroupSchedules(const std::vector<Schedule>& all) : plain_(&all) {}
  GroupSchedules(const SharedSchedules& all) : shared_(&all) {}

  int size() const {
    return plain_ ? static_cast<int>(plain_->size()) : shared_ ? shared_->size() : 0;
  }
  bool empty() const { return size() == 0; }
  ScheduleView operator[](int rank) const {
    return plain_ ? ScheduleView((*plain_)[rank]) : (*shared_)[rank];
  }

  // Lists are numbered from 0 on, by the first of the ranks that have them. Those of a vector are
  // not compared: each is a list of its own.
  int lists() const { return plain_ ? size() : shared_ ? shared_->lists() : 0; }
  int list(int rank) const { return plain_ ? rank : shared_->list(rank); }
  int first_of(int list) const { return plain_ ? list : shared_->first_of(list); }

 private:
  const std::vector<Schedule>* plain_ = nullptr;
  const SharedSchedules* shared_ = nullptr;
};

}  // namespace ringwood
