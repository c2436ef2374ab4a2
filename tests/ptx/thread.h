// Threads, blocks and launches of the machine: its state.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/ptx/memory.h"
#include "tests/ptx/module.h"

namespace ringwood::ptx {

struct BlockLaunch {
  std::string kernel;
  std::span<const std::byte> parameters;  // as the kernel declares them, with their padding
  int block = 0, blocks = 1, threads = 32;
  uint32_t dynamic_shared = 0;
  int device = 0;
  uint32_t first_thread = 0;  // id
  Clock clock;                // what all of it knows at the beginning
};

struct Block;

struct Frame {
  const Function* function = nullptr;
  uint32_t pc = 0;
  size_t slots = 0, bytes = 0, local = 0;  // where its own begin
};

struct Thread {
  static constexpr size_t kNotRunnable = ~size_t{0};
  Agent agent;
  bool done = false;
  int index = 0;  // in its block
  Block* block = nullptr;
  std::vector<Frame> frames;
  std::vector<uint64_t> slots;
  std::vector<uint8_t> bytes;  // parameters and results of calls
  LocalMemory local;
  uint64_t barrier = 0;            // that it waits at
  size_t runnable = kNotRunnable;  // its place in the scheduler's queue
  size_t queue = 0;

  const Instruction& last() const { return frames.back().function->code[frames.back().pc - 1]; }
  uint64_t* frame_slots() { return slots.data() + frames.back().slots; }
};

struct Block {
  // Who waits at a barrier. `wanted`: threads; 0: all that are left, or of a warp's mask.
  struct Waiting {
    uint64_t barrier = 0, wanted = 0, arrived = 0, votes = 0;
  };
  int number = 0;  // never used twice
  int index = 0, blocks = 1, size = 0;
  int left = 0;  // threads
  uint64_t shared = 0, parameters = 0;
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<Waiting> waiting;
};

// Which thread goes on. Some of each seed are slow, or all threads of some devices: they get 4 to
// 32 times fewer turns, as many as the seed says, however many threads there are. Threads that poll
// and find nothing new get fewer turns too, since they would take most of the time.
class Scheduler {
 public:
  explicit Scheduler(uint64_t seed) {
    Random random(seed);
    slow_ = static_cast<uint32_t>(random.next());
    const uint32_t slowness = 4u << random.below(4);
    devices_ = random.below(2) == 0;
    shares_ = {kWhole, kWhole / slowness, kWhole / kPolling, kWhole / kPolling / slowness};
  }
  bool empty() const {
    return std::ranges::all_of(queues_, [](const auto& one) { return one.empty(); });
  }
  void add(Thread& thread) {
    thread.queue = (is_slow(thread) ? 1 : 0) + (thread.agent.polls > kPolls ? 2 : 0);
    std::vector<Thread*>& queue = queues_[thread.queue];
    thread.runnable = queue.size();
    queue.push_back(&thread);
  }
  void remove(Thread& thread) {
    std::vector<Thread*>& queue = queues_[thread.queue];
    queue.back()->runnable = thread.runnable;
    queue[thread.runnable] = queue.back();
    queue.pop_back();
    thread.runnable = Thread::kNotRunnable;
  }
  // After its turn.
  void put_back(Thread& thread) {
    if ((thread.agent.polls > kPolls) == (thread.queue >= 2)) return;
    remove(thread);
    add(thread);
  }
  Thread& choose(Random& random) const {
    uint32_t all = 0;
    for (size_t i = 0; i < 4; ++i) all += share(i);
    uint32_t draw = random.below(all);
    size_t at = 0;
    while (draw >= share(at)) draw -= share(at++);
    return *queues_[at][draw / shares_[at]];
  }

 private:
  static constexpr uint32_t kPolls = 8, kPolling = 32, kWhole = 1024;
  uint32_t share(size_t i) const { return static_cast<uint32_t>(queues_[i].size()) * shares_[i]; }
  bool is_slow(const Thread& thread) const {
    const uint32_t who =
        devices_ ? static_cast<uint32_t>(thread.agent.place.device) : thread.agent.id;
    return ((who + 1) * 2654435761u ^ slow_) % 31 < 10;
  }
  uint32_t slow_ = 0;
  bool devices_ = false;
  std::array<uint32_t, 4> shares_{};
  std::array<std::vector<Thread*>, 4> queues_;  // slow ones: 1 and 3, that poll: 2 and 3
};

}  // namespace ringwood::ptx
