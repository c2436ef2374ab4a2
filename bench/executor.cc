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

#include "bench/scale/room.h"
#include "collectives/planner/group_planner.h"
#include "collectives/tuner/model_tuner.h"
#include "transports/loopback/loopback.h"
#include "transports/shm/shm.h"

namespace ringwood {
namespace {

using bench::all_reduce_row;
using bench::float_sum;
using bench::Room;

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
  GroupPlanner cache(0, 8, std::make_shared<ModelTuner>(MachineModel(), Options{}));
  const CollectiveArgs args = float_sum(4096);
  (void)cache.get({args, {"direct", 1}});
  for (auto _ : state) benchmark::DoNotOptimize(cache.get({args, {"direct", 1}}));
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
