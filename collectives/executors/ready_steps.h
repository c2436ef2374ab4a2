// Which steps of a plan may run: those whose predecessors (graph.h) are done. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/plan/plan.h"

namespace ringwood {

class ReadySteps final {
 public:
  void start(const Plan& plan);
  size_t left() const { return left_; }  // steps not done
  bool waits(int32_t step) const { return pending_[step] > 0; }
  void complete(int32_t step);
  // A local step, or an empty one, that may run; -1: there is none now.
  int32_t take();
  // A rounding (wire_schedule.h), in the order in which they were ready; -1 likewise. One after
  // another leaves time for what the first is for to leave before the last is run.
  int32_t take_rounding();

 private:
  void add(int32_t step);

  const Plan* plan_ = nullptr;
  size_t left_ = 0;
  std::vector<int32_t> pending_;  // by step: predecessors not done
  std::vector<int32_t> ready_;
  std::vector<int32_t> roundings_;
  size_t rounded_ = 0;  // of them
};

}  // namespace ringwood
