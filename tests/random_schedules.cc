// The executor against a sequential interpreter: random schedules, random interleavings, links that
// delay and reorder, and memory that peers read and answer in place.
#include <deque>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/stepped.h"
#include "transports/arena.h"
#include "transports/shm/shm.h"

namespace ringwood::testing {
namespace {

// Any program of messages and local steps, one global event after the other, is a valid set of
// schedules.
struct Program {
  std::vector<Schedule> schedules;
  Memory before, after;
};

struct Machine {
  int n, chunks, scratch;
  size_t count;
  std::vector<std::vector<std::vector<int64_t>>> at;  // rank, chunk, element

  void apply(int rank, Span dst, const std::vector<std::vector<int64_t>>& values, bool reduce) {
    for (int i = 0; i < dst.count; ++i)
      for (size_t e = 0; e < values[i].size(); ++e) {
        int64_t& x = at[rank][dst.first + i][e];
        x = reduce ? x + values[i][e] : values[i][e];
      }
  }
  std::vector<std::vector<int64_t>> read(int rank, Span src) const {
    return {at[rank].begin() + src.first, at[rank].begin() + src.first + src.count};
  }
};

// What the executor carries out in one pass (fusion.h): a span summed up at one rank and given
// back; before it, sometimes, another reader of what will be overwritten.
struct Exchange {
  int owner, first, width;
  std::vector<int> others;
};

Exchange random_exchange(std::mt19937& random, int n, int chunks) {
  Exchange e;
  e.owner = static_cast<int>(random() % n);
  e.first = static_cast<int>(random() % chunks);
  e.width = 1 + static_cast<int>(random() % (chunks - e.first));
  for (int r = 0; r < n; ++r)
    if (r != e.owner && (random() % 3 || e.others.empty())) e.others.push_back(r);
  return e;
}

Program random_program(std::mt19937& random, int n, size_t count, int events) {
  const auto pick = [&](int below) { return static_cast<int>(random() % below); };
  const int chunks = 1 + pick(5);
  Program program;
  Machine m{n, chunks, chunks, count, {}};
  for (int r = 0; r < n; ++r) {
    program.before.emplace_back();
    for (size_t e = 0; e < count; ++e)
      program.before[r].push_back(static_cast<int64_t>(random() % 1000));
    Schedule s;
    s.rank = r;
    s.n = n;
    s.chunks = chunks;
    m.at.emplace_back();
    for (int c = 0; c < chunks; ++c) {
      const Piece p = piece(count, chunks, c, 8);
      m.at[r].emplace_back(program.before[r].begin() + p.first,
                           program.before[r].begin() + p.first + p.count);
    }
    for (int c = 0; c < chunks; ++c) {
      s.add_scratch(c);
      m.at[r].emplace_back(m.at[r][c].size(), 0);
    }
    // Scratch begins undefined, so it is written before it is read.
    s.copy({chunks, chunks}, {0, chunks});
    for (int c = 0; c < chunks; ++c) m.at[r][chunks + c] = m.at[r][c];
    program.schedules.push_back(std::move(s));
  }
  const auto event = [&](int from, int to, Span dst, Span src, bool reduce) {
    if (from == to && dst == src) return;
    Schedule &a = program.schedules[from], &b = program.schedules[to];
    if (from == to) {
      reduce ? a.reduce(dst, src) : a.copy(dst, src);
    } else {
      a.send(to, src);
      reduce ? b.recv_reduce(from, dst) : b.recv(from, dst);
    }
    m.apply(to, dst, m.read(from, src), reduce);
  };
  for (int k = 0; k < events; ++k) {
    if (pick(4) == 0) {
      const Exchange e = random_exchange(random, n, chunks);
      const Span own{e.first, e.width}, aside{e.first + chunks, e.width};
      if (pick(2)) event(pick(n), pick(n), aside, own, pick(2));
      for (const int r : e.others) event(r, e.owner, own, own, true);
      if (pick(4) == 0) event(pick(n), pick(n), aside, own, pick(2));
      for (const int r : e.others) event(e.owner, r, own, own, false);
      continue;
    }
    const int first = pick(chunks), width = 1 + pick(chunks - first);
    const int dst = first + (pick(2) ? chunks : 0), src = first + (pick(2) ? chunks : 0);
    event(pick(n), pick(n), {dst, width}, {src, width}, pick(2));
  }
  for (int r = 0; r < n; ++r) {
    program.after.emplace_back();
    for (int c = 0; c < chunks; ++c)
      program.after[r].insert(program.after[r].end(), m.at[r][c].begin(), m.at[r][c].end());
  }
  return program;
}

struct ExecutorCase {
  const char* links;
  bool arena;  // where the buffers lie: peers can read and answer in place, or not
  int n;
  uint64_t seed;
};
class RandomSchedules : public ::testing::TestWithParam<ExecutorCase> {
 protected:
  std::vector<std::unique_ptr<Mesh>> meshes() const {
    if (GetParam().links == std::string("shm")) return make_meshes(GetParam().n, make_shm);
    LoopbackFaults faults;
    faults.seed = GetParam().seed;
    faults.delay = GetParam().seed % 2 ? 6 : 0;  // polls
    return loopback_meshes(GetParam().n, faults);
  }
};
std::vector<ExecutorCase> executor_cases() {
  std::vector<ExecutorCase> all;
  for (int n : {2, 3, 5})
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      all.push_back({"loopback", false, n, seed});
      all.push_back({"shm", false, n, seed});
      all.push_back({"shm", true, n, seed});
    }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedules, ::testing::ValuesIn(executor_cases()),
                         [](const auto& info) {
                           return fmt::format("{}{}_n{}_seed{}", info.param.links,
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
  const auto [links, arena, n, seed] = GetParam();
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
