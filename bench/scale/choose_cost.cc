// What choosing an algorithm costs in a large group, and how many bytes the choice sends between
// hosts: for bench/scale/targets. Prints a JSON object.
//
//   bench_choose_cost RANKS         hosts of 8 ranks
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/cost/cost_model.h"
#include "collectives/tuner/cost/placement.h"
#include "collectives/tuner/model_tuner.h"
#include "transports/base/options.h"

namespace ringwood {
namespace {

constexpr int kRanksOfAHost = 8, kMaxRanks = 16384;
constexpr size_t kLarge = size_t{64} << 20;  // from here on bytes between hosts are compared
constexpr Collective kCollectives[] = {Collective::all_gather, Collective::reduce_scatter,
                                       Collective::all_reduce, Collective::all_to_all};

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// The most so far.
double resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

ModelQuery query_of(Collective collective, size_t bytes, int n) {
  ModelQuery q;
  q.collective = collective;
  q.bytes = in_blocks(collective) ? std::max<size_t>(4, bytes / static_cast<size_t>(n)) : bytes;
  q.n = n;
  q.several_hosts = true;
  return q;
}

// Bytes that a host must send to the others.
double least(Collective collective, double bytes, double n, double k) {
  const double elsewhere = (n - k) / n * bytes;
  if (collective == Collective::all_reduce) return 2 * elsewhere;
  return collective == Collective::all_to_all ? k * elsewhere : elsewhere;
}

// Bytes that a host sends to the others: of all hosts, or of some of very many.
double sent(const ModelQuery& q, const TuningChoice& choice, const MachineModel& machine) {
  const AlgorithmRow& row = *find_algorithm(q.collective, choice.algorithm);
  const SharedPlacement placement = placement_of(machine, q.n);
  const int hosts = placement->hosts.count();
  std::vector<int> some = {0, 1, hosts / 2, hosts - 1};
  if (q.n <= 1024)
    for (int h = 2; h < hosts - 1; ++h)
      if (h != hosts / 2) some.push_back(h);
  Load load{q.collective, q.bytes, size_of(q.type)};
  double bytes = 0;
  for (const int h : some)
    for (const int rank : placement->hosts.ranks[h]) {
      const auto plans =
          plans_of({row.build(placement->where(rank))}, choice.segments, load, machine);
      for (const BoundStep& step : plans[0].steps)
        if (step.kind == StepKind::send && machine.host_of(step.peer) != h)
          bytes += static_cast<double>(step.bytes);
    }
  return bytes / static_cast<double>(some.size());
}

int run(int n) {
  MachineModel machine;
  machine.cores = kRanksOfAHost;
  for (int r = 0; r < n; ++r) machine.hosts.push_back(r / kRanksOfAHost);
  ModelTuner tuner(machine, Options{});
  const double before = resident_mib();
  std::vector<double> first, again;
  struct Chosen {
    ModelQuery query;
    size_t bytes;  // of the whole
    TuningChoice choice;
  };
  std::vector<Chosen> chosen;
  const auto choose = [&](Collective collective, size_t bytes, std::vector<double>& into) {
    const ModelQuery query = query_of(collective, bytes, n);
    const double begin = cpu_seconds();
    chosen.push_back({query, bytes, tuner.choose(query)});
    into.push_back((cpu_seconds() - begin) * 1e3);
  };
  for (const Collective c : kCollectives) choose(c, 64 << 10, first);
  for (const size_t mib : {size_t{1}, size_t{64}, size_t{256}, size_t{1024}})
    for (const Collective c : kCollectives) choose(c, mib << 20, again);
  const double mib = resident_mib() - before;
  std::vector<std::string> choices;
  for (const auto& [query, bytes, choice] : chosen) {
    if (bytes < kLarge) continue;
    const double times = sent(query, choice, machine) /
                         least(query.collective, static_cast<double>(bytes), n, kRanksOfAHost);
    choices.push_back(
        fmt::format(R"({{"collective":"{}","bytes":{},"algorithm":"{}","segments":{},)"
                    R"("times_least":{:.4f}}})",
                    to_string(query.collective), bytes, choice.algorithm, choice.segments, times));
  }
  fmt::print(R"({{"ranks":{},"first_ms":[{:.2f}],"new_size_ms":[{:.2f}],"mib":{:.1f},)"
             R"("choices":[{}]}})"
             "\n",
             n, fmt::join(first, ","), fmt::join(again, ","), mib, fmt::join(choices, ","));
  return 0;
}

}  // namespace
}  // namespace ringwood

int main(int count, char** words) {
  const int n = count == 2 ? std::atoi(words[1]) : 0;
  if (n < 16 || n % 8 != 0 || n > ringwood::kMaxRanks) {
    std::fprintf(stderr, "usage: bench_choose_cost RANKS, in hosts of 8\n");
    return 2;
  }
  return ringwood::run(n);
}
