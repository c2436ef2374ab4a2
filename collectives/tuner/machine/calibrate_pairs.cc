// Measurements between two cores: a yield, the time a cache line takes, and bytes handed over.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

#include "collectives/kernels/reduce.h"
#include "collectives/tuner/machine/calibrate_parts.h"
#include "transports/base/numa.h"
#include "transports/base/thread.h"

namespace ringwood {
namespace {

using std::chrono::milliseconds;
// Ranks are processes: a yield to another process takes this many times longer than one between
// threads, which share their memory (4 ranks on 2 cores: 2.2 us instead of 1.4).
constexpr double kProcesses = 1.6;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct alignas(64) Flag {
  std::atomic<uint32_t> value{0};
};
constexpr uint32_t kEnd = ~uint32_t{0};  // of a flag: its thread has left the measurement

// False where the flag's thread has ended, or does not reach `phase` before the deadline.
bool comes_to(const Flag& flag, uint32_t phase, bool yields, const Deadline& deadline) {
  uint32_t seen;
  for (int spins = 0; (seen = flag.value.load(std::memory_order_acquire)) < phase; ++spins) {
    // A partner that has lost its processor would not reply for milliseconds.
    if (!yields && spins < 20000) continue;
    ::sched_yield();
    if (deadline.passed()) return false;
  }
  return seen != kEnd;
}

// Two threads take turns on two processors (or on one, yielding). Returns the seconds of the best
// round, or infinity where none was finished in time. Each calls the work in its turn, with 0 for
// the first and 1 for the second.
double best_round(int first_cpu, int second_cpu, int rounds, Duration budget,
                  const std::function<void(int)>& work) {
  const Deadline deadline = Deadline::after(budget);
  Flag turn, reply;
  const auto wait = [&](const Flag& flag, uint32_t round) {
    return comes_to(flag, round, first_cpu == second_cpu, deadline);
  };
  std::thread second = start_thread("rw-calibrate", [&] {
    const Pinned pinned(second_cpu);
    for (uint32_t round = 1; wait(turn, round); ++round) {
      work(1);
      reply.value.store(round, std::memory_order_release);
    }
  });
  const Pinned pinned(first_cpu);
  double best = kInfinite;
  for (int round = 1; round <= rounds && !deadline.passed(); ++round) {
    const auto begin = Clock::now();
    work(0);
    turn.value.store(static_cast<uint32_t>(round), std::memory_order_release);
    if (!wait(reply, static_cast<uint32_t>(round))) break;
    if (round > 1) best = std::min(best, seconds_since(begin));
  }
  turn.value.store(kEnd, std::memory_order_release);
  second.join();
  return best;
}

// Each thread writes its own data, then reads the other's. Returns the seconds of the best round,
// or infinity. `data`: six times `bytes`.
double best_exchange(int first, int second, std::byte* data, size_t bytes,
                     const Deadline& deadline) {
  const auto part = [=](int number) { return data + static_cast<size_t>(number) * bytes; };
  Flag written[2];
  uint32_t rounds[2] = {0, 0};
  return best_together(first, second, 300, milliseconds(3), [&](int who) {
    std::memcpy(part(who), part(2 + who), bytes);
    written[who].value.store(++rounds[who], std::memory_order_release);
    comes_to(written[1 - who], rounds[who], false, deadline);
    std::memcpy(part(4 + who), part(1 - who), bytes);
  });
}

// Bytes/s of data read in place where the other core writes it anew each time: each core adds the
// other's block to its own sum, and then the sum to the block that the other reads. Computed from
// the time beyond that of the same two additions within a core, of which one runs at `added`
// bytes/s. 0: not measured.
double read_anew(int first, int second, std::byte* data, size_t bytes, double added) {
  const auto part = [=](int number) { return data + static_cast<size_t>(number) * bytes; };
  const auto add = [bytes](std::byte* dst, const std::byte* src) {
    reduce(dst, src, bytes / sizeof(float), DataType::float32, ReduceOp::sum);
  };
  const double seconds = best_together(first, second, 60, milliseconds(3), [&](int who) {
    add(part(2 + who), part(1 - who));
    add(part(who), part(2 + who));
  });
  const auto count = static_cast<double>(bytes);
  return std::min(added, count / std::max(1e-9, seconds - count / added));
}

struct Pair {
  double latency = 0, handed = 0, exchanged = 0, exchanged_small = 0;
};

// False where the two threads were hardly ever awake at the same time, on a busy machine.
bool measure_pair(Pair& pair, int first, int second, double yield, std::byte* data,
                  const Deadline& deadline) {
  const auto nothing = [](int) {};
  // Where a core is busy, every thread that is to run on it costs milliseconds more.
  if (deadline.passed()) return false;
  // A reading of the clock is part of every round and of no message.
  const auto clock = Clock::now();
  for (int i = 0; i < 100; ++i) (void)Clock::now();
  const double reading = seconds_since(clock) / 101;
  const double there_and_back = best_round(first, second, 4000, milliseconds(6), nothing);
  if (deadline.passed() || there_and_back == kInfinite) return false;
  constexpr size_t kBytes = 64 << 10;
  std::byte *shared = data, *mine = data + kBytes, *yours = data + 2 * kBytes;
  const double handing = best_round(first, second, 600, milliseconds(8), [=](int who) {
    who == 0 ? std::memcpy(shared, mine, kBytes) : std::memcpy(yours, shared, kBytes);
  });
  // Two cores are faster than two turns on one; otherwise they did not run at the same time.
  const double round = std::max(2e-9, there_and_back - reading);
  if (handing == kInfinite || round > yield) return false;
  pair = {round / 2, 2 * kBytes / std::max(1e-9, handing - round - reading)};
  // The lines of a message after the first arrive one line's latency later (cost_prices.cc).
  const auto exchanged = [&](size_t bytes, double before) {
    const double seconds = best_exchange(first, second, data, bytes, deadline);
    return 2 * static_cast<double>(bytes) / std::max(1e-9, seconds - before);
  };
  pair.exchanged = exchanged(kBytes, round + reading);
  pair.exchanged_small = exchanged(Exchanged::kSmall, round + round / 2 + reading);
  return pair.exchanged > 0 && pair.exchanged_small > 0;
}

}  // namespace

double best_together(int first_cpu, int second_cpu, int rounds, Duration budget,
                     const std::function<void(int)>& work) {
  const Deadline deadline = Deadline::after(budget);
  Flag flags[2];
  const auto meet = [&](int who, uint32_t phase) {
    flags[who].value.store(phase, std::memory_order_release);
    return comes_to(flags[1 - who], phase, false, deadline);
  };
  double best = kInfinite;
  const auto run = [&](int who) {
    const Pinned pinned(who == 0 ? first_cpu : second_cpu);
    uint32_t phase = 0;
    for (int round = 0; round < rounds && !deadline.passed() && meet(who, ++phase); ++round) {
      const auto begin = Clock::now();
      work(who);
      if (!meet(who, ++phase)) break;
      if (who == 0 && round > 0) best = std::min(best, seconds_since(begin));
    }
    flags[who].value.store(kEnd, std::memory_order_release);
  };
  std::thread second = start_thread("rw-calibrate", [&] { run(1); });
  run(0);
  second.join();
  return best;
}

bool measure_pairs(MachineModel& machine, const std::vector<int>& cpus, std::byte* data,
                   size_t size, const Deadline& deadline) {
  const double turns = best_round(cpus[0], cpus[0], 400, milliseconds(3), [](int) {});
  if (turns < kInfinite) machine.yield = kProcesses * turns / 2;
  if (cpus.size() < 2) return turns < kInfinite;
  Pair near;
  if (!measure_pair(near, cpus[0], cpus[1], machine.yield, data, deadline)) return false;
  machine.latency = machine.node_latency = near.latency;
  machine.handed = machine.node_handed = std::min(near.handed, machine.copy.l2);
  machine.both_ways = std::clamp(near.exchanged / machine.handed, 1e-3, 1.0);
  Exchanged exchanged;
  exchanged.small = std::min(near.exchanged_small, machine.handed);
  // Sets that together are half of an L2 and a quarter of the L3.
  const auto anew = [&](double bytes, double added) {
    const auto block = static_cast<size_t>(std::min<double>(size, bytes) / 4) & ~size_t{63};
    return read_anew(cpus[0], cpus[1], data, block, added);
  };
  exchanged.l2 = anew(machine.l2_bytes / 2, machine.reduce.l2);
  exchanged.l3 = anew(machine.l3_bytes / 4, machine.reduce.l3);
  if (exchanged.l2 < 1 || exchanged.l3 < 1) return false;
  machine.exchanged = exchanged;
  const std::vector<int> nodes = numa_nodes(cpus);
  const auto other = std::find_if(nodes.begin(), nodes.end(), [&](int n) { return n != nodes[0]; });
  if (other == nodes.end()) return true;
  Pair far;
  const int there = cpus[static_cast<size_t>(other - nodes.begin())];
  if (!measure_pair(far, cpus[0], there, machine.yield, data, deadline)) return false;
  machine.node_latency = far.latency;
  machine.node_handed = std::min(far.handed, machine.copy.l2);
  return true;
}

}  // namespace ringwood
