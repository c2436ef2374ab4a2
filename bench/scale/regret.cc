// How much longer than the best candidate the chosen one takes, where every rank is simulated
// (collectives/simulate), and how long the choice takes:
//
//   bench_regret --ranks 64,256 --bytes 1024,65536 --collectives all_reduce,broadcast
//                --networks tcp,slow-host
//
// A line for each case: network, collective, ranks, bytes (of a block where there are blocks), the
// chosen row and what it takes, the best one and what that takes, their ratio, and the milliseconds
// of a core of choose(), the first time and the second. Hosts of 8 ranks and 8 cores, default
// parameters, and one of kNetworks. Candidates are the rows of the table, each in one segment and
// in those that the choice considers. One whose busiest resource has more to do than the chosen one
// takes cannot be the best; it is not simulated, nor is one of more than kMaxMessages.
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

// What lies between the hosts, as the choice knows it and as it is simulated.
struct Between {
  MachineModel machine;
  NetworkShape shape;
  Faults faults;
};

// A port of 10 Gbit/s and sockets, the default.
void use_tcp(Between&) {}
// 400 Gbit/s of InfiniBand or RoCE.
void use_rdma(Between& b) {
  use_rdma_prior(b.machine);
  b.machine.net.nic = 50e9;
}
// One of the hosts at half its rate, which the group has measured.
void use_slow_host(Between& b) { b.machine.net.exceptions = {{1, 0.5, "slow", -1}}; }
// Leaf switches of 4 hosts with 2 uplinks each; latency between them.
void use_leaves(Between& b) {
  constexpr int kHosts = 4, kUplinks = 2;
  NetworkParameters& net = b.machine.net;
  net.far = {10e-6, net.nic * kUplinks / kHosts, 1};
  for (int h = 0; h < host_count(b.machine); ++h) net.leaves.push_back(h / kHosts);
  b.shape.leaf = kHosts;
  b.shape.uplinks = kUplinks;
}

constexpr struct {
  const char* name;
  void (*use)(Between&);
} kNetworks[] = {
    {"tcp", use_tcp}, {"rdma", use_rdma}, {"slow-host", use_slow_host}, {"leaves", use_leaves}};

// As `ringwood simulate` has it: what makes a host or a path slow is simulated.
Between simulated(const Between& known) {
  Between b = known;
  NetworkParameters& net = b.machine.net;
  for (const HostException& one : net.exceptions)
    b.faults.ports.push_back({one.host, one.rail, one.rate, PortWay::both});
  net.exceptions.clear();
  if (net.far) net.far->rate = net.nic;
  return b;
}

struct Case {
  Collective collective = Collective::all_reduce;
  size_t bytes = 0;  // of the whole buffer, or of n blocks
  int n = 0;
  std::string network;
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
  explicit Comparison(const Case& one)
      : name_(one.network),
        n_(one.n),
        known_(between(one)),
        simulated_(simulated(known_)),
        profiles_(machine_, n_),
        hosts_(placement_of(machine_, n_)) {
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
    const MachineModel& machine = simulated_.machine;
    const Network network(machine, n_, simulated_.shape, simulated_.faults);
    EventsRequest events;
    events.faults = &simulated_.faults;
    return run_events(bind_traffic(request, machine), machine, network, events).seconds;
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
    fmt::print(
        "{:<9} {:<15} {:>6} {:>11} {:>25} {:>12.1f} {:>25} {:>12.1f} {:>6.3f} {:>7.2f} {:>7.2f}\n",
        name_, to_string(query_.collective), n_, query_.bytes, name_of(chosen), its * 1e6,
        name_of(best), least * 1e6, its / least, first * 1e3, again * 1e3);
    std::fflush(stdout);
  }

 private:
  static Between between(const Case& one) {
    Between b;
    b.machine.cores = kRanksOfAHost;
    for (int r = 0; r < one.n; ++r) b.machine.hosts.push_back(r / kRanksOfAHost);
    for (const auto& network : kNetworks) {
      if (network.name != one.network) continue;
      network.use(b);
      return b;
    }
    throw Error(ErrorCode::invalid_argument, "--networks: no network " + one.network);
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
      auto built = builder.build(row, WireFormat::exact);
      if (!built || !built->why_not.empty() || builder.least(*built) > seconds) continue;
      builder.bind(*built);
      if (built->bounds.resource > seconds) continue;
      for (const int count : built->segments)
        found.push_back({built->bounds.estimate(count), {row.name, count, WireFormat::exact}});
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<TuningChoice> all;
    for (auto& [estimate, choice] : found) all.push_back(std::move(choice));
    return all;
  }

  const std::string name_;
  const int n_;
  const Between known_, simulated_;
  const MachineModel& machine_ = known_.machine;
  RowProfiles profiles_;
  const SharedPlacement hosts_;
  ModelQuery query_;
};

int run(const std::map<std::string, std::string>& options) {
  const auto option = [&](const std::string& name, const std::string& otherwise) {
    const auto found = options.find(name);
    return parts_of(found == options.end() ? otherwise : found->second);
  };
  for (const std::string& network : option("--networks", "tcp"))
    for (const std::string& ranks : option("--ranks", "64"))
      for (const std::string& collective :
           option("--collectives", "all_reduce,all_gather,reduce_scatter,all_to_all,broadcast"))
        for (const std::string& bytes :
             option("--bytes", "1024,4096,16384,65536,262144,1048576,4194304,16777216,67108864"))
          Comparison({parse_collective(collective), std::stoull(bytes), std::stoi(ranks), network})
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
