// How long small calls of high priority take beside one large call whose memory has to be copied or
// scaled first: two ranks of this host, each a thread with a progress thread of its own, and a core
// for both, as `ringwood perf` pins its ranks.
//
//   bench_high_priority [MIB] [ROUNDS] [TRANSPORT]    of the large call (256), how often (5), over
//                                                     what (shm)
//
// For each large call: the longest and the median time of a small one while the large one was under
// way, from when both ranks had called it; the large one's own time; and what a core takes to copy
// its bytes.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/kernels/types.h"
#include "transports/base/options.h"

namespace ringwood {
namespace {

using Seconds = std::chrono::duration<double>;
double now() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Times {
  double large = 0;
  std::vector<double> called, done;  // small ones
};

constexpr int kRanks = 2;

struct Room {
  explicit Room(size_t count) : in(count * kRanks, 1), out(count * kRanks, 0) {}
  std::vector<float> in, out;
};

using Large = std::function<OperationPtr(Communicator&, Room&, size_t count)>;

// Whether the large one is still under way is the same on both ranks: a small sum says so.
void round(Communicator& group, const Large& large, Room& room, size_t count, Times& times) {
  CallOptions high;
  high.priority = Priority::high;
  high.synchronous = true;
  float more[2] = {0, 0};
  for (int i = 0; i < 20; ++i)
    if (!group.all_reduce(more, 2, DataType::float32, ReduceOp::sum, high)->wait()) std::exit(1);
  const double begin = now();
  const OperationPtr operation = large(group, room, count);
  do {
    more[0] = operation->done() ? 0 : 1;
    more[1] = 0;
    times.called.push_back(now());
    if (!group.all_reduce(more, 2, DataType::float32, ReduceOp::sum, high)->wait()) std::exit(1);
    times.done.push_back(now());
  } while (more[0] > 0);
  if (!operation->wait()) std::exit(1);
  times.large += now() - begin;
}

// Threads that this one starts stay there, too.
void pin_to(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(core) % std::thread::hardware_concurrency(), &one);
  (void)sched_setaffinity(0, sizeof one, &one);
}

void measure(const std::string& name, const Large& large, size_t bytes, int rounds,
             const std::string& transport) {
  const size_t count = bytes / sizeof(float) / kRanks;
  const auto store = memory_store();
  Times times[kRanks];
  std::vector<std::thread> ranks;
  for (int r = 0; r < kRanks; ++r)
    ranks.emplace_back([&, r] {
      pin_to(r);
      Options options;
      options.status = false;
      options.transports = {transport};
      const auto group = Communicator::create(store, r, kRanks, options, "bench");
      Room room(count);
      for (int i = 0; i < rounds; ++i) round(*group, large, room, count, times[r]);
    });
  for (auto& rank : ranks) rank.join();
  std::vector<double> small;
  for (size_t i = 0; i < times[0].called.size(); ++i)
    small.push_back(std::max(times[0].done[i], times[1].done[i]) -
                    std::max(times[0].called[i], times[1].called[i]));
  std::ranges::sort(small);
  std::printf("%-32s %7zu %12.3f %12.3f %12.3f %12.1f %9zu\n", name.c_str(), bytes >> 20,
              small.back() * 1e3, small[small.size() * 99 / 100] * 1e3,
              small[small.size() / 2] * 1e3, times[0].large / rounds * 1e3, small.size());
}

double copy_ms(size_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes);
  const double begin = now();
  std::memcpy(to.data(), from.data(), bytes);
  return (now() - begin) * 1e3;
}

void run(size_t bytes, int rounds, const std::string& transport) {
  std::printf("# a core copies %zu MiB in %.1f ms\n", bytes >> 20, copy_ms(bytes));
  std::printf("# %-30s %7s %12s %12s %12s %12s %9s\n", "beside", "MiB", "longest(ms)", "p99(ms)",
              "median(ms)", "large(ms)", "calls");
  const auto all_gather = [](Communicator& c, Room& room, size_t count) {
    return c.all_gather(room.in.data(), room.out.data(), count, DataType::float32);
  };
  const auto premultiplied = [](Communicator& c, Room& room, size_t count) {
    CallOptions call;
    call.factor = 0.5;
    return c.reduce_scatter(room.in.data(), room.out.data(), count, DataType::float32,
                            ReduceOp::premul_sum, call);
  };
  const auto in_place = [](Communicator& c, Room& room, size_t count) {
    CallOptions call;
    call.factor = 0.5;
    return c.all_reduce(room.in.data(), count * kRanks, DataType::float32, ReduceOp::premul_sum,
                        call);
  };
  const auto sum = [](Communicator& c, Room& room, size_t count) {
    return c.all_reduce(room.in.data(), count * kRanks, DataType::float32, ReduceOp::sum);
  };
  const auto exchange = [](Communicator& c, Room& room, size_t count) {
    return c.all_to_all(room.in.data(), room.out.data(), count / kRanks, DataType::float32);
  };
  measure("all_gather, out of place", all_gather, bytes, rounds, transport);
  measure("reduce_scatter of PREMUL_SUM", premultiplied, bytes, rounds, transport);
  measure("all_reduce of PREMUL_SUM", in_place, bytes, rounds, transport);
  measure("all_reduce", sum, bytes, rounds, transport);
  measure("all_to_all", exchange, bytes, rounds, transport);
}

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) {
  const size_t mib = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  const std::string transport = argc > 3 ? argv[3] : "shm";
  if (mib == 0 || rounds < 1) {
    std::fputs("bench_high_priority [MIB] [ROUNDS] [TRANSPORT]: numbers from 1 on\n", stderr);
    return 2;
  }
  ringwood::run(mib << 20, rounds, transport);
}
