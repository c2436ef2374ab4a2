// All ranks of one group in this thread: their executors are stepped in turn, so that nothing is
// waited for.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/executors/plan_runner.h"
#include "collectives/plan/passes.h"
#include "tests/support/meshes.h"

namespace ringwood::bench {

inline CollectiveArgs float_sum(size_t bytes) {
  CollectiveArgs args;
  args.collective = Collective::all_reduce;
  args.type = DataType::float32;
  args.count = bytes / sizeof(float);
  return args;
}

inline const AlgorithmRow& all_reduce_row(const std::string& name) {
  return *find_algorithm(Collective::all_reduce, name);
}

class Room final {
 public:
  Room(int n, const MakeTransport& transport, const std::string& algorithm, size_t bytes,
       Protocol protocol)
      : meshes_(testing::make_meshes(n, transport)), args_(float_sum(bytes)) {
    for (int r = 0; r < n; ++r) {
      executors_.push_back(std::make_unique<PlanRunner>(*meshes_[r]));
      plans_.push_back(
          make_plan(all_reduce_row(algorithm).build({r, n, 0, {}}), args_, algorithm, 1, protocol));
      if (slots_to_all(*meshes_[r])) *plans_[r] = add_slots(std::move(*plans_[r]));
      data_.emplace_back(args_.count + 1);
    }
  }

  const Plan& plan(int rank) const { return *plans_[static_cast<size_t>(rank)]; }

  // One operation, on all ranks.
  void execute() {
    for (size_t r = 0; r < executors_.size(); ++r) {
      Fingerprint fingerprint = plans_[r]->fingerprint;
      fingerprint.sequence = sequence_;
      buffers_[r] = data_[r].data();
      executors_[r]->start({plans_[r].get(), fingerprint, {&buffers_[r], 1}, {}, {}, false});
    }
    ++sequence_;
    for (bool all = false; !all;) {
      all = true;
      for (auto& executor : executors_) {
        bool progressed = false;
        if (!executor->idle() && !executor->step(progressed)) std::abort();
        all = all && executor->idle();
      }
    }
  }

 private:
  std::vector<std::unique_ptr<Mesh>> meshes_;
  CollectiveArgs args_;
  std::vector<std::unique_ptr<PlanRunner>> executors_;
  std::vector<std::shared_ptr<Plan>> plans_;
  std::vector<std::vector<float>> data_;
  void* buffers_[64] = {};
  uint64_t sequence_ = 0;
};

}  // namespace ringwood::bench
