// How long rank 0's control thread is delayed while the choices in use are weighed anew.
//
//   bench_weighing [RANKS] [CLASSES]    on hosts of 8 (256), sizes in use (27)
//
// Rank 0 of a group whose links only count. A measurement finds a slow host; from then on every
// handler of the control thread is called once a millisecond, until the change is proposed and
// prepared. Prints the longest call of each, and what the weighing took.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/planner/group_planner.h"
#include "collectives/tuner/model_tuner.h"
#include "collectives/tuner/watch/path_monitor.h"
#include "tests/tuner/watch/counting_link.h"
#include "transports/base/clock.h"
#include "transports/base/wait_set.h"
#include "transports/channels.h"

namespace ringwood {
namespace {

constexpr int kRanksOfAHost = 8;
const LinkTraffic kTraffic{1000, 1 << 20, 0.1};

class Longest {
 public:
  template <class Call>
  auto operator()(const char* name, Call call) {
    const auto begin = Clock::now();
    auto result = call();
    double& longest = all_[name];
    longest = std::max(longest, seconds_since(begin));
    return result;
  }
  void print() const {
    for (const auto& [name, seconds] : all_) std::printf("%-24s %12.3f\n", name, seconds * 1e3);
  }

 private:
  std::map<const char*, double> all_;
};

void run(int n, int classes) {
  MachineModel machine;
  machine.cores = kRanksOfAHost;
  machine.net.nic = 1e9;
  Mesh mesh;
  mesh.size = n;
  mesh.several_hosts = true;
  mesh.ranks_on_this_host = kRanksOfAHost;
  mesh.announcement = print(machine);
  mesh.peers.resize(static_cast<size_t>(n));
  for (int r = 0; r < n; ++r) {
    mesh.host_numbers.push_back(r / kRanksOfAHost);
    if (r > 0)
      mesh.peers[static_cast<size_t>(r)].link[kCollectiveChannel] =
          std::make_unique<testing::CountingLink>(kTraffic);
  }
  machine.hosts = mesh.host_numbers;
  GroupPlanner planner(0, n, std::make_shared<ModelTuner>(machine, Options{}));
  const auto made = Clock::now();
  for (int i = 0; i < classes; ++i)
    (void)planner.get(
        {{Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, size_t{2} << i, {}}, {}});
  std::printf("# %d ranks on %d hosts, %d sizes of all_reduce; their plans took %.1f ms\n", n,
              n / kRanksOfAHost, classes, seconds_since(made) * 1e3);
  PathMonitor monitor{Options()};
  monitor.use(mesh, [&] { return planner.in_use(); });
  (void)monitor.look();
  NetworkParameters slow = machine.net;
  slow.exceptions = {{1, 0.25, "slow"}};
  Longest longest;
  Proposal change;
  monitor.reported({0, kRanksOfAHost, 1e8, 1e9});
  const auto begin = Clock::now();
  // As the driver finds it, not the control thread.
  monitor.found(slow);
  while (monitor.weighs()) {
    (void)longest("look", [&] { return monitor.look(); });
    (void)longest("reported", [&] { return monitor.reported({0, 8, 1e8, 1e9}), 0; });
    change = longest("next_change", [&] { return monitor.next_change(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const double weighed = seconds_since(begin);
  const std::string parameters = change.parameters.empty() ? print(machine) : change.parameters;
  (void)longest("prepare", [&] { return planner.prepare(1, parameters), 0; });
  (void)longest("abandon", [&] { return planner.abandon(1), 0; });
  std::printf("# weighed in %.1f ms: %s\n", weighed * 1e3,
              change.parameters.empty() ? "nothing is to change" : "a change");
  std::printf("# %-22s %12s\n", "handler", "longest(ms)");
  longest.print();
}

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 256;
  const int classes = argc > 2 ? std::atoi(argv[2]) : 27;
  if (n < 2 * ringwood::kRanksOfAHost || n % ringwood::kRanksOfAHost != 0 || classes < 1 ||
      classes > 27) {
    std::fputs("bench_weighing [RANKS] [CLASSES]: ranks of 2 hosts of 8 and more; 1 to 27\n",
               stderr);
    return 2;
  }
  ringwood::run(n, classes);
}
