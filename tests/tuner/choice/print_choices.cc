// Prints what is chosen for some hundred queries, with every bit of its predicted time: built for
// several processors by tests/python/test_processors.py, whose outputs must be equal. Hosts that
// are alike and not, dealt out in turn; a line for each query.
#include <cstdio>
#include <vector>

#include "collectives/kernels/reduce_kernels.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/choice/row_profiles.h"

namespace ringwood {

// The choice adds nothing up, so no kernels are built for it.
std::vector<KernelSet> kernel_sets() { return {}; }
const Kernels& plain_kernels() {
  static const Kernels none{};
  return none;
}

namespace {

std::vector<int> hosts(int n, int layout) {
  std::vector<int> places;
  for (int r = 0; r < n; ++r)
    places.push_back(layout == 0 ? r / 8 : layout == 1 ? (r + 3) / 8 : r % (n / 8));
  return places;
}

void print_choices(int n, int layout) {
  MachineModel machine;
  machine.cores = 6;
  machine.net.nic = 1.7e9;
  machine.hosts = hosts(n, layout);
  RowProfiles profiles(machine, n);
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
        Collective::all_to_all, Collective::broadcast, Collective::reduce})
    for (size_t bytes = 512; bytes <= size_t{64} << 20; bytes *= 4) {
      ModelQuery q;
      q.collective = collective;
      q.n = n;
      q.bytes = in_blocks(collective) ? std::max<size_t>(4, bytes / static_cast<size_t>(n)) : bytes;
      q.machine = &machine;
      q.tolerance = bytes % 3 == 2 ? 0.05 : 0;
      const TuningChoice choice = choose(q, {}, "", 0, &profiles);
      double seconds = 0;
      for (const Candidate& c : explain(q, {}, choice.algorithm, choice.segments, &profiles))
        if (c.chosen) seconds = c.seconds;
      std::printf("%s %zu n %d layout %d: %s/%d %s %a\n", to_string(collective), q.bytes, n, layout,
                  choice.algorithm.c_str(), choice.segments, to_string(choice.wire), seconds);
    }
}

}  // namespace
}  // namespace ringwood

int main() {
  for (const int n : {24, 64, 200})
    for (const int layout : {0, 1, 2}) ringwood::print_choices(n, layout);
}
