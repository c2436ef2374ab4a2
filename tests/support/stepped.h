// Executors that one thread steps in a seeded order, so that a failure repeats.
//
// All ranks live in one thread: the set-up needs threads (it is collective), the runs do not.
#pragma once

#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "collectives/executors/plan_runner.h"
#include "collectives/plan/passes.h"
#include "tests/support/meshes.h"
#include "tests/support/random_programs.h"

namespace ringwood::testing {

inline CollectiveArgs sum_of(size_t count) {
  CollectiveArgs args;
  args.collective = Collective::all_reduce;
  args.type = DataType::int64;
  args.count = count;
  return args;
}

struct Runner {
  std::vector<std::unique_ptr<Mesh>> meshes;
  std::vector<std::unique_ptr<PlanRunner>> executors;
  uint64_t sequence = 0;
  bool slots = true;       // where the meshes have them
  std::vector<int> hosts;  // by rank; empty: the ranks share no memory
  bool crowded = false;    // those of a host take turns on its cores
  int early = 0;           // plans of the last run that began before the ranks agreed

  explicit Runner(std::vector<std::unique_ptr<Mesh>> made) : meshes(std::move(made)) {
    for (auto& mesh : meshes) executors.push_back(std::make_unique<PlanRunner>(*mesh));
  }
  Runner(int n, const LoopbackFaults& faults) : Runner(loopback_meshes(n, faults)) {}

  // Steps the executors in random order until all are idle. False: no end within a bound far above
  // what is needed.
  bool run(const std::vector<Schedule>& schedules, const CollectiveArgs& args, int segments,
           Memory& memory, std::mt19937& random) {
    const size_t n = schedules.size();
    std::vector<void*> buffers;
    for (size_t r = 0; r < n; ++r) buffers.push_back(memory[r].data());
    return run(schedules, args, segments, buffers, random);
  }
  bool run(const std::vector<Schedule>& schedules, const CollectiveArgs& args, int segments,
           const std::vector<void*>& buffers, std::mt19937& random,
           Protocol protocol = Protocol::queued) {
    const size_t n = schedules.size();
    std::vector<std::shared_ptr<Plan>> plans;
    early = 0;
    for (size_t r = 0; r < n; ++r) {
      plans.push_back(
          make_plan(schedules[r], args, "test", segments, protocol,
                    {WireFormat::exact, hosts, /*apart=*/hosts.empty(),
                     group_size(hosts, static_cast<int>(n), crowded ? 1 : static_cast<int>(n))}));
      early += is_early(*plans[r]) ? 1 : 0;
      if (slots && slots_to_all(*meshes[r])) *plans[r] = add_slots(std::move(*plans[r]));
    }
    for (size_t r = 0; r < n; ++r)
      executors[r]->start({plans[r].get(),
                           fingerprint_of(args, "test", segments, sequence),
                           {&buffers[r], 1},
                           {},
                           {},
                           false});
    ++sequence;
    const Deadline bound = patiently();
    const size_t slow = random() % (2 * n);  // this rank hardly moves, if there is such a rank
    while (!bound.passed()) {
      bool all = true;
      for (size_t k = 0; k < n; ++k) {
        const size_t r = random() % n;
        if (r == slow && random() % 100) continue;
        PlanRunner& e = *executors[r];
        bool progressed = false;
        if (e.idle()) continue;
        if (Status s = e.step(progressed); !s) throw std::runtime_error(s.error().message());
      }
      for (auto& e : executors) all &= e->idle();
      if (all) return true;
    }
    return false;
  }
};

}  // namespace ringwood::testing
