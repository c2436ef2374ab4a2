// The executor against a sequential interpreter: random schedules, random interleavings, links that
// delay and reorder, and memory that peers read and answer in place.
#include <deque>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/random_programs.h"
#include "tests/support/stepped.h"
#include "tests/support/transports.h"
#include "transports/memory/arena.h"

namespace ringwood::testing {
namespace {

struct ExecutorCase {
  std::string transports;
  bool arena;  // where the buffers lie: peers can read and answer in place, or not
  int n;
  uint64_t seed;
};
class RandomSchedules : public OnTransportOf<ExecutorCase> {
 protected:
  std::vector<std::unique_ptr<Mesh>> meshes() const {
    const auto& [transports, arena, n, seed] = GetParam();
    const auto& seeded = traits_of(transports).seeded;
    if (seeded) return make_meshes(n, [&, seed = seed] { return seeded(seed); });
    return make_meshes(n, row_of(transports)->make);
  }
};
std::vector<ExecutorCase> executor_cases() {
  std::vector<ExecutorCase> all;
  for (int n : {2, 3, 5})
    for (uint64_t seed = 1; seed <= 8; ++seed)
      for (const TransportRow& row : transport_table()) {
        all.push_back({row.name, false, n, seed});
        if (row.shared_memory) all.push_back({row.name, true, n, seed});
      }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedules, ::testing::ValuesIn(executor_cases()),
                         [](const auto& info) {
                           return fmt::format("{}{}_n{}_seed{}", info.param.transports,
                                              info.param.arena ? "_arena" : "", info.param.n,
                                              info.param.seed);
                         });

// One rank's buffer during a test.
class Buffer {
 public:
  Buffer(const std::vector<int64_t>& from, bool arena) : arena_(arena), size_(from.size()) {
    const size_t bytes = std::max<size_t>(1, size_) * sizeof(int64_t);
    data_ =
        static_cast<int64_t*>(arena ? Arena::of_process()->allocate(bytes) : ::operator new(bytes));
    std::copy(from.begin(), from.end(), data_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { arena_ ? Arena::of_process()->release(data_) : ::operator delete(data_); }
  void* data() { return data_; }
  std::vector<int64_t> read() const { return {data_, data_ + size_}; }

 private:
  bool arena_;
  size_t size_;
  int64_t* data_;
};

TEST_P(RandomSchedules, GiveWhatTheInterpreterGives) {
  const auto [transports, arena, n, seed] = GetParam();
  Runner runner(meshes());
  std::mt19937 random(static_cast<unsigned>(seed * 1000 + n));
  uint64_t fused = 0;
  for (int k = 0; k < 40; ++k) {
    const size_t count = k % 4 == 0   ? random() % 4
                         : k % 4 == 1 ? 5000 + random() % 10000  // large enough for one pass
                                      : 1 + random() % 3000;
    const Program program = random_program(random, n, count, 1 + static_cast<int>(random() % 60));
    std::deque<Buffer> memory;
    std::vector<void*> buffers;
    for (int r = 0; r < n; ++r)
      buffers.push_back(memory.emplace_back(program.before[r], arena).data());
    ASSERT_TRUE(runner.run(program.schedules, sum_of(count), 1, buffers, random))
        << "no end, program " << k;
    for (int r = 0; r < n; ++r)
      ASSERT_EQ(memory[r].read(), program.after[r]) << "program " << k << " rank " << r;
  }
  for (const auto& e : runner.executors) fused += e->fused();
  EXPECT_EQ(fused > 0, arena) << "one pass is for what peers can answer in place";
}

}  // namespace
}  // namespace ringwood::testing
