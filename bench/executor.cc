// What the engine room costs apart from the bytes: plans and their look-up, and the executor's own
// work.
//
//   bench_executor --benchmark_filter='execute/.*'
//
// `execute` steps all ranks' executors in turn in one thread, so that nothing is waited for:
// divided by the ranks it is what a rank's processor works for one operation, apart from moving
// bytes between cores.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/executors/plan_runner.h"
#include "collectives/plan/passes.h"
#include "collectives/runtime/plan_cache.h"
#include "tests/support/meshes.h"
#include "transports/loopback/loopback.h"
#include "transports/shm/shm.h"

namespace ringwood {
namespace {

CollectiveArgs float_sum(size_t bytes) {
  CollectiveArgs args;
  args.collective = Collective::all_reduce;
  args.type = DataType::float32;
  args.count = bytes / sizeof(float);
  return args;
}

const AlgorithmRow& all_reduce_row(const std::string& name) {
  return *find_algorithm(Collective::all_reduce, name);
}

// One group's ranks in this thread.
class Room {
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

struct Case {
  const char* transport;
  MakeTransport make;
  int n;
  const char* algorithm;
  size_t bytes;
  Protocol protocol;
};

void execute(benchmark::State& state, const Case& c) {
  Room room(c.n, c.make, c.algorithm, c.bytes, c.protocol);
  for (auto _ : state) room.execute();
  state.counters["per_rank"] = benchmark::Counter(
      c.n, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void find_plan(benchmark::State& state) {
  PlanCache cache(0, 8, MachineModel(), Options());
  const CollectiveArgs args = float_sum(4096);
  (void)cache.get(args, "direct", 1, false);
  for (auto _ : state) benchmark::DoNotOptimize(cache.get(args, "direct", 1, false));
}

void bind_plan(benchmark::State& state, const char* algorithm) {
  const int n = static_cast<int>(state.range(0));
  const CollectiveArgs args = float_sum(1 << 20);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        make_plan(all_reduce_row(algorithm).build({0, n, 0, {}}), args, algorithm, 1));
}

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) {
  using namespace ringwood;
  const auto loopback = [] { return make_loopback({}); };
  const Case cases[] = {
      {"shm", make_shm, 2, "exchange", 8, Protocol::one_round},
      {"shm", make_shm, 4, "one_shot", 8, Protocol::one_round},
      {"loopback", loopback, 2, "exchange", 8, Protocol::one_round},
      {"shm", make_shm, 2, "direct", 64, Protocol::queued},
      {"shm", make_shm, 4, "direct", 64, Protocol::queued},
      {"shm", make_shm, 8, "ring", 64, Protocol::queued},
      {"loopback", loopback, 2, "direct", 64, Protocol::queued},
      {"loopback", loopback, 8, "ring", 64, Protocol::queued},
  };
  for (const Case& c : cases)
    benchmark::RegisterBenchmark(
        fmt::format("execute/{}/{}/{} ranks/{} B", c.transport, c.algorithm, c.n, c.bytes).c_str(),
        [&c](benchmark::State& state) { execute(state, c); });
  benchmark::RegisterBenchmark("find_plan", find_plan);
  for (const char* algorithm : {"direct", "ring", "halving_doubling"})
    benchmark::RegisterBenchmark(fmt::format("bind_plan/{}", algorithm).c_str(),
                                 [algorithm](benchmark::State& s) { bind_plan(s, algorithm); })
        ->Arg(8)
        ->Arg(64);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
