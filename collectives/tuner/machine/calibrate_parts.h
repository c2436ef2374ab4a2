// What the parts of a host's calibration (calibrate.h) share.
#pragma once

#include <sched.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "collectives/tuner/machine/machine_model.h"
#include "transports/base/clock.h"

namespace ringwood {

// Binds the calling thread to one processor for the time of a scope.
class Pinned {
 public:
  explicit Pinned(int cpu) {
    CPU_ZERO(&before_);
    restore_ = ::sched_getaffinity(0, sizeof before_, &before_) == 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    restore_ = ::sched_setaffinity(0, sizeof one, &one) == 0 && restore_;
  }
  ~Pinned() {
    if (restore_) ::sched_setaffinity(0, sizeof before_, &before_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_;
  bool restore_;
};

// Two threads on two processors do the same work at the same time, round by round. Returns the
// seconds of the best round, or infinity where none was finished within the budget.
double best_together(int first_cpu, int second_cpu, int rounds, Duration budget,
                     const std::function<void(int who)>& work);

// Measures between two cores of a memory node, and between two nodes where there are several. Sets
// yield, latency, handed, both_ways, exchanged, node_latency and node_handed. `data`: `size`
// bytes, 384 KiB at least. False where the two threads were hardly ever awake at the same time, on
// a busy machine.
bool measure_pairs(MachineModel& machine, const std::vector<int>& cpus, std::byte* data,
                   size_t size, const Deadline& deadline);

}  // namespace ringwood
