// How much longer than the best candidate the chosen one takes, where every rank is simulated
// (collectives/simulate), and how long the choice takes:
//
//   bench_regret --ranks 64,256 --bytes 1024,65536 --collectives all_reduce,broadcast
//
// A line for each case: collective, ranks, bytes (of a block where there are blocks), the chosen
// row and what it takes, the best one and what that takes, their ratio, and the milliseconds of a
// core of choose(), the first time and the second. Hosts of 8 ranks and 8 cores, default
// parameters, or other bytes/s of a host (--nic). Candidates are the rows of the table, each in one
// segment and in those that the choice considers. One whose busiest resource has more to do than
// the chosen one takes cannot be the best; it is not simulated, nor is one of more than
// kMaxMessages.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "collectives/tuner/choice/built_rows.h"
#include "collectives/tuner/choice/choose.h"
#include "tools/simulation/events.h"
#include "transports/base/error.h"

namespace ringwood {
namespace {

constexpr int kRanksOfAHost = 8;

struct Case {
  Collective collective = Collective::all_reduce;
  size_t bytes = 0;  // of the whole buffer, or of n blocks
  int n = 0;
};

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Comparison {
 public:
  Comparison(const Case& one, double nic) : n_(one.n), profiles_(machine(one.n, nic), one.n) {
    machine_ = machine(n_, nic);
    query_.collective = one.collective;
    query_.bytes = one.bytes;
    query_.n = n_;
    query_.machine = &machine_;
    if (in_blocks(one.collective))
      query_.bytes = std::max<size_t>(4, one.bytes / static_cast<size_t>(n_));
  }

  // What every rank takes, simulated.
  double seconds(const TuningChoice& choice) {
    const AlgorithmRow& row = *find_algorithm(query_.collective, choice.algorithm);
    const auto where = [&](int rank) {
      return Where{rank, n_, 0, {machine_.hosts, &hosts_->hosts}, {}};
    };
    TrafficRequest request;
    request.build = [&](int rank) { return row.build(where(rank)); };
    request.n = n_;
    request.segments = choice.segments;
    request.load = {query_.collective, query_.bytes, size_of(query_.type)};
    request.load.agreement = true;
    request.load.out_of_place = true;
    request.load.one_round = choice.segments == 1 && in_one_round(row);
    const Network network(machine_, n_, {}, {});
    return run_events(bind_traffic(request, machine_, network), machine_, network).seconds;
  }

  void run() {
    const double begin = cpu_seconds();
    const TuningChoice chosen = choose(query_, {}, "", 0, &profiles_);
    const double first = cpu_seconds() - begin;
    choose(query_, {}, "", 0, &profiles_);
    const double again = cpu_seconds() - begin - first;
    const double its = seconds(chosen);
    double least = its;
    TuningChoice best = chosen;
    for (const TuningChoice& other : candidates(its)) {
      if (other == chosen) continue;
      double time = 0;
      try {
        time = seconds(other);
      } catch (const Error&) {
        continue;  // too many messages
      }
      if (time < least) std::tie(least, best) = std::pair(time, other);
    }
    fmt::print("{:<15} {:>6} {:>11} {:>25} {:>12.1f} {:>25} {:>12.1f} {:>6.3f} {:>7.2f} {:>7.2f}\n",
               to_string(query_.collective), n_, query_.bytes, name_of(chosen), its * 1e6,
               name_of(best), least * 1e6, its / least, first * 1e3, again * 1e3);
    std::fflush(stdout);
  }

 private:
  static MachineModel machine(int n, double nic) {
    MachineModel f;
    f.cores = kRanksOfAHost;
    f.net.nic = nic;
    for (int r = 0; r < n; ++r) f.hosts.push_back(r / kRanksOfAHost);
    return f;
  }
  static std::string name_of(const TuningChoice& choice) {
    return fmt::format("{}/{}", choice.algorithm, choice.segments);
  }

  bool in_one_round(const AlgorithmRow& row) const {
    if (!small_for_one_round(machine_.limits, query_.collective, query_.bytes, n_,
                             all_apart(machine_.hosts, n_, machine_.loopback)))
      return false;
    for (int r = 0; r < n_; ++r)
      if (!fits_one_round(after_agreement(row.build(hosts_->where(r)), query_.collective)))
        return false;
    return true;
  }

  // All that could take less than that.
  std::vector<TuningChoice> candidates(double seconds) {
    std::vector<std::pair<double, TuningChoice>> found;
    CandidateQuery query;
    query.collective = query_.collective;
    query.bytes = query_.bytes;
    query.n = n_;
    const RowBuilder builder(query, machine_, profiles_);
    for (const AlgorithmRow& row : algorithm_table()) {
      if (row.collective != query_.collective) continue;
      const auto built = builder.build(row, WireFormat::exact);
      if (!built || !built->why_not.empty() || built->bounds.resource > seconds) continue;
      for (const int count : built->segments)
        found.push_back({built->bounds.estimate(count), {row.name, count, WireFormat::exact}});
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<TuningChoice> all;
    for (auto& [estimate, choice] : found) all.push_back(std::move(choice));
    return all;
  }

  const int n_;
  MachineModel machine_;
  RowProfiles profiles_;
  SharedPlacement hosts_ = placement_of(machine(n_, 1e9), n_);
  ModelQuery query_;
};

int run(const std::map<std::string, std::string>& options) {
  const auto option = [&](const std::string& name, const std::string& otherwise) {
    const auto found = options.find(name);
    return parts_of(found == options.end() ? otherwise : found->second);
  };
  for (const std::string& ranks : option("--ranks", "64"))
    for (const std::string& collective :
         option("--collectives", "all_reduce,all_gather,reduce_scatter,all_to_all,broadcast"))
      for (const std::string& bytes :
           option("--bytes", "1024,4096,16384,65536,262144,1048576,4194304,16777216,67108864"))
        Comparison({parse_collective(collective), std::stoull(bytes), std::stoi(ranks)},
                   std::stod(option("--nic", "1.25e9").front()))
            .run();
  return 0;
}

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) {
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  try {
    return ringwood::run(options);
  } catch (const ringwood::Error& error) {
    std::fprintf(stderr, "regret: %s\n", error.what());
    return 1;
  }
}
