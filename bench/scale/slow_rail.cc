// The ranks of bench/scale/slow_rail: sums of int32, one after the other, for a time. Every number
// of every result is checked. Rank 0 prints, for each sum, when it was complete and what it took:
// two numbers, in seconds.
//
//   bench_slow_rail BYTES SECONDS file:///STORE      with RANK and WORLD_SIZE in the environment
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/communicator.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// Sums up to here are exact, and differ from number to number and from call to call.
int32_t value(int rank, size_t i, uint32_t call) {
  return static_cast<int32_t>((i * 7919 + call * 31) % 1000003) * (rank + 1);
}

void run(size_t count, double time, const std::string& store) {
  const auto met = ringwood::rendezvous(store);
  const int rank = met.rank, size = met.size;
  auto group = ringwood::Communicator::create(met.store, rank, size);
  std::vector<int32_t> data(count);
  const auto begin = Clock::now();
  for (uint32_t call = 0;; ++call) {
    for (size_t i = 1; i < count; ++i) data[i] = value(rank, i, call);
    data[0] = rank == 0 && seconds(Clock::now() - begin) >= time;  // rank 0 says when to stop
    if (auto s = group->barrier()->wait(); !s) throw std::runtime_error(s.error().message());
    const auto called = Clock::now();
    auto sum =
        group->all_reduce(data.data(), count, ringwood::DataType::int32, ringwood::ReduceOp::sum);
    if (auto s = sum->wait(); !s) throw std::runtime_error(s.error().message());
    const auto now = Clock::now();
    for (size_t i = 1; i < count; ++i)
      if (data[i] != value(0, i, call) * size * (size + 1) / 2)
        throw std::runtime_error("call " + std::to_string(call) + ": a wrong sum");
    if (rank == 0) std::printf("%.6f %.6f\n", seconds(now - begin), seconds(now - called));
    if (rank == 0) std::fflush(stdout);
    if (data[0] != 0) return;
  }
}

}  // namespace

int main(int arguments, char** words) try {
  if (arguments != 4) throw std::runtime_error("BYTES SECONDS STORE");
  run(std::stoul(words[1]) / sizeof(int32_t), std::stod(words[2]), words[3]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "slow_rail: %s\n", error.what());
  return 1;
}
