// What the recorder (collectives/recorder) costs an operation: each case makes the calls that the
// driver makes for one all-reduce of two ranks.
//
//   bench_recorder
//
// Prints a line for each case: its name, and nanoseconds of an operation.
//   small         counted, one in kSampled recorded whole: what operations get that are predicted
//                 below kAlwaysSeconds. By which executing 8 B of two ranks in this thread takes
//                 longer for each rank: alone, its few instructions would wait for each other.
//   noticed       the calls alone: small, and seen to wait too short a moment to be kept
//   whole         the calls alone: recorded, its steps not
//   steps N       the calls alone: recorded with N steps
// bench/scale/recording sets them beside what the whole operation takes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/scale/room.h"
#include "collectives/plan/passes.h"
#include "collectives/recorder/recorder.h"
#include "collectives/recorder/track_recorder.h"
#include "transports/shm/shm.h"

namespace ringwood {
namespace {

using Nanoseconds = std::chrono::duration<double, std::nano>;
using Watch = std::chrono::steady_clock;

Plan plan_of(size_t bytes, double predicted_seconds) {
  const Schedule schedule = bench::all_reduce_row("direct").build({0, 2, 0, {}});
  return add_recording(*make_plan(schedule, bench::float_sum(bytes), "direct", 1),
                       predicted_seconds);
}

// As WorkQueue and its track do; `steps` are those of the plan, repeated.
void record(TrackRecorder& track, const Plan& plan, const Fingerprint& call, bool waits,
            int steps) {
  StepTimes* times = nullptr;
  if (is_recorded(plan.recorded, call.sequence)) [[unlikely]]
    times = track.begin(plan, call, clock_ns(), 0);
  if (waits) track.note_waiting(clock_ns(), plan, call, 1);
  if (track.on()) track.note_agreed(true);
  const auto own = static_cast<int>(plan.steps.size());
  for (int step = 0; times && step < steps; ++step) {
    times->posted(step % own);
    times->completed(step % own);
  }
  if (track.on()) track.end(RecordedEnd::done);
}

// A recorder, and the calls of the next operation.
class Records final {
 public:
  explicit Records(Plan plan) : plan_(std::move(plan)), call_(plan_.fingerprint) {}

  void next(bool waits, int steps) {
    call_.sequence = calls_->take(plan_.recorded.kind);
    record(track_, plan_, call_, waits, steps);
  }

 private:
  const std::shared_ptr<CallCounter> calls_ = std::make_shared<CallCounter>();
  Recorder recorder_{
      {.name = "bench", .session = "bench", .rank = 0, .size = 2, .hosts = {0, 0}, .ways = {}},
      calls_};
  TrackRecorder track_{recorder_, 0};
  Plan plan_;
  Fingerprint call_;
};

void print(const std::string& name, double ns) { std::printf("%-10s %9.2f\n", name.c_str(), ns); }

template <class Operation>
double batch(int operations, const Operation& operation) {
  const auto begin = Watch::now();
  for (int i = 0; i < operations; ++i) operation();
  return Nanoseconds(Watch::now() - begin).count() / operations;
}

// The calls alone: the best of batches.
void measure(const std::string& name, const Plan& plan, bool waits, int steps) {
  constexpr int kBatches = 25, kOperations = 100000;
  Records records(plan);
  double best = 1e9;
  for (int i = 0; i < kBatches; ++i)
    best = std::min(best, batch(kOperations, [&] { records.next(waits, steps); }));
  print(name, best);
}

// Both in turns, and the difference of the lower quartiles: what disturbs a batch only adds to it.
// Every batch has one operation that is recorded whole. Numbered is an operation in any case.
void measure_within() {
  constexpr int kBatches = 500, kOperations = kSampled, kRanks = 2;
  bench::Room room(kRanks, make_shm, "exchange", 8, Protocol::one_round);
  Records ranks[kRanks] = {Records(plan_of(8, 1e-6)), Records(plan_of(8, 1e-6))};
  std::atomic<uint64_t> numbers[kRanks] = {};
  std::vector<double> without, with;
  for (int i = 0; i < kBatches; ++i) {
    without.push_back(batch(kOperations, [&] {
      room.execute();
      for (auto& number : numbers) number.store(number + 1, std::memory_order_release);
    }));
    with.push_back(batch(kOperations, [&] {
      room.execute();
      for (Records& rank : ranks) rank.next(false, 0);
    }));
  }
  for (auto* times : {&without, &with}) std::ranges::sort(*times);
  print("small", (with[kBatches / 4] - without[kBatches / 4]) / kRanks);
}

}  // namespace
}  // namespace ringwood

int main() {
  using namespace ringwood;
  measure_within();
  measure("noticed", plan_of(8, 1e-6), true, 0);
  // Recorded, but a step would cost more than its share of this prediction.
  measure("whole", plan_of(1 << 20, kAlwaysSeconds), false, 0);
  for (const int steps : {4, 16})
    measure("steps " + std::to_string(steps), plan_of(1 << 26, 1), false, steps);
}
