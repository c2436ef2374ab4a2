// Messages of several blocks in shared memory, joined by way of the scratch or block by block: what
// sets ProtocolLimits::bundled_bytes_in_memory.
//
//   bench_joined_blocks [ROUNDS]
//
// Two ranks, a thread each, send each other every other chunk of a private buffer. Prints a row for
// each size of a block: us of an operation, joined : separate, for each number of blocks. The best
// of interleaved rounds; a core for each rank is wanted.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "collectives/executors/plan_runner.h"
#include "collectives/plan/passes.h"
#include "tests/support/meshes.h"
#include "transports/shm/shm.h"

namespace ringwood {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBlocks[] = {16, 64, 256, 512, 1024, 2048, 4096};
constexpr size_t kBytes[] = {256, 512, 1024, 2048, 4096};
constexpr size_t kAnyBytes = size_t{1} << 40;

// Rank 0's blocks are the even chunks, rank 1's the odd ones.
Schedule swap_blocks(int rank, int blocks) {
  Schedule s{rank, 2, 2 * blocks, {}, {}};
  std::vector<Span> mine, theirs;
  for (int b = 0; b < blocks; ++b) {
    mine.push_back({2 * b + rank});
    theirs.push_back({2 * b + 1 - rank});
  }
  s.send_joined(1 - rank, mine);
  s.recv_joined(1 - rank, theirs);
  return s;
}

std::shared_ptr<Plan> plan_of(int rank, int blocks, size_t bytes, bool joined) {
  CollectiveArgs args;
  args.collective = Collective::all_reduce;
  args.type = DataType::float32;
  args.count = 2 * static_cast<size_t>(blocks) * bytes / sizeof(float);
  ProtocolLimits limits;
  limits.bundled = joined ? kAnyBytes : 0;
  limits.bundled_in_memory = 2;
  return make_plan(swap_blocks(rank, blocks), args, "swap", 1, Protocol::queued, {}, nullptr,
                   limits);
}

class Pair {
 public:
  Pair() : meshes_(testing::make_meshes(2, make_shm)) {
    for (const auto& mesh : meshes_) runners_.push_back(std::make_unique<PlanRunner>(*mesh));
  }

  // Us of an operation; both ranks run the same number of them.
  double run(int blocks, size_t bytes, bool joined, int times) {
    std::shared_ptr<Plan> plans[2];
    for (int r = 0; r < 2; ++r) plans[r] = plan_of(r, blocks, bytes, joined);
    const uint64_t first = sequence_;
    sequence_ += static_cast<uint64_t>(times);
    double us = 0;
    std::thread other([&] { repeat(1, *plans[1], first, times); });
    us = repeat(0, *plans[0], first, times);
    other.join();
    return us;
  }

 private:
  double repeat(int rank, const Plan& plan, uint64_t first, int times) {
    std::vector<float> data(plan.key.args.count + 1);
    void* buffer = data.data();
    PlanRunner& runner = *runners_[rank];
    Clock::time_point begin = Clock::now();
    for (int i = 0; i < times; ++i) {
      if (i == times / 4) begin = Clock::now();  // those before warm the caches
      Fingerprint fingerprint = plan.fingerprint;
      fingerprint.sequence = first + static_cast<uint64_t>(i);
      runner.start({&plan, fingerprint, {&buffer, 1}, {}, {}, false});
      for (bool progressed = false; !runner.idle();)
        if (!runner.step(progressed)) std::abort();
    }
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    const int counted = times - times / 4;
    return took.count() / counted;
  }

  std::vector<std::unique_ptr<Mesh>> meshes_;
  std::vector<std::unique_ptr<PlanRunner>> runners_;
  uint64_t sequence_ = 0;
};

int run(int rounds) {
  Pair pair;
  fmt::print("{:>6}", "bytes");
  for (const int blocks : kBlocks) fmt::print("{:>24}", fmt::format("{} blocks", blocks));
  fmt::print("\n");
  for (const size_t bytes : kBytes) {
    fmt::print("{:>6}", bytes);
    for (const int blocks : kBlocks) {
      const double moved = static_cast<double>(blocks) * (static_cast<double>(bytes) + 512);
      const int times = std::clamp(static_cast<int>(4e7 / moved), 20, 2000);
      double best[2] = {1e9, 1e9};
      for (int round = 0; round < rounds; ++round)
        for (const bool joined : {false, true})
          best[joined] = std::min(best[joined], pair.run(blocks, bytes, joined, times));
      fmt::print("{:>24}",
                 fmt::format("{:.1f} : {:.1f} {:.2f}", best[1], best[0], best[1] / best[0]));
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
  return 0;
}

}  // namespace
}  // namespace ringwood

int main(int count, char** words) { return ringwood::run(count > 1 ? std::atoi(words[1]) : 5); }
