#include "collectives/schedule/step_runs.h"

#include <algorithm>

namespace ringwood {

StepRuns::PackedStep StepRuns::packed(const Step& step) {
  return {static_cast<uint8_t>(step.kind), step.joined, step.peer, step.dst, step.src};
}

StepRuns::StepRuns(const std::vector<Step>& steps) : size_(static_cast<int32_t>(steps.size())) {
  // So many runs take as much memory as the steps.
  const size_t most = steps.size() * sizeof(PackedStep) / sizeof(Run);
  int32_t i = 0;
  while (i < size_ && append(i, steps[i], most)) ++i;
  if (i == size_) {
    runs_.shrink_to_fit();
    return;
  }
  runs_ = {};
  packed_.reserve(steps.size());
  for (const Step& step : steps) packed_.push_back(packed(step));
}

bool StepRuns::append(int32_t i, const Step& step, size_t most) {
  const auto distance = [](int from, int to) {
    return static_cast<uint32_t>(to) - static_cast<uint32_t>(from);
  };
  if (!runs_.empty()) {
    Run& run = runs_.back();
    const Step first = unpacked(run.first);
    if (i - run.begin == 1) {
      run.peer_by = distance(first.peer, step.peer);
      run.dst_by = distance(first.dst.first, step.dst.first);
      run.src_by = distance(first.src.first, step.src.first);
    }
    if (moved(first, run, i - run.begin) == step) return true;
    if (i - run.begin == 1) run.peer_by = run.dst_by = run.src_by = 0;
  }
  if (runs_.size() == most) return false;
  runs_.push_back({i, packed(step)});
  return true;
}

const StepRuns::Run& StepRuns::run_of(int32_t i) const {
  return *(std::upper_bound(runs_.begin(), runs_.end(), i,
                            [](int32_t at, const Run& run) { return at < run.begin; }) -
           1);
}

}  // namespace ringwood
