#include "collectives/cost/cost_sketch.h"

#include <algorithm>
#include <array>
#include <optional>

#include "collectives/cost/cost_built.h"
#include "collectives/cost/cost_chain.h"

namespace ringwood {
namespace {

// The number of steps that are counted.
constexpr size_t kCountedSteps = 1 << 18;
// The number of ranks whose work is counted, of each host and of all; at least these hosts, if
// steps allow.
constexpr size_t kMinRanksOfAHost = 4, kMaxRanksOfAHost = 64, kMaxRanks = 64;
constexpr size_t kMinHosts = 5;

// The work of a rank, or of a host: seconds of a core for posts and for bytes, of the memory, and
// of each direction of the network interface.
struct Busy {
  double posts = 0, bytes = 0, memory = 0, out = 0, in = 0;
  void add(const Busy& other, double times) {
    posts += other.posts * times;
    bytes += other.bytes * times;
    memory += other.memory * times;
    out += other.out * times;
    in += other.in * times;
  }
};

class Sketch {
  struct Sample {
    int rank;
    double weight;  // the number of ranks of its host that it represents
    double set = 0;
    BuiltRank built = {};
  };

 public:
  Sketch(const BuildRank& build, int n, const Load& load, const MachineModel& machine)
      : builder_(build, load), load_(load), machine_(machine), n_(n), prices_(load, machine, n) {
    if (load.agreement) agreement_ = prices_.agreement();
    ranks_of_.resize(prices_.hosts());
    for (int r = 0; r < n; ++r) ranks_of_[machine.host_of(r)].push_back(r);
  }

  CostBounds run() {
    count();
    Chains(builder_, prices_, load_, machine_, set_, agreement_.agreed).find(n_, bounds_);
    return bounds_;
  }

 private:
  double working_set(const BuiltRank& one) const {
    std::vector<std::pair<int, double>> sent;
    for (const Step& step : one.schedule.steps)
      if (step.kind == StepKind::send) sent.emplace_back(step.peer, one.bytes(step));
    return prices_.working_set(one.first_byte->back(), std::move(sent));
  }

  void count() {
    const std::vector<int> hosts = sampled_hosts();
    const size_t steps = builder_(0).schedule.steps.size() + 1;
    const size_t each =
        std::clamp(kCountedSteps / steps / kMinHosts, kMinRanksOfAHost, kMaxRanksOfAHost);
    size_t counted = 0, counted_ranks = 0;
    double sets = 0, ranks = 0;
    for (size_t i = 0; i < hosts.size(); ++i) {
      const int host = hosts[i];
      std::vector<Sample> samples = sampled_ranks(ranks_of_[host], each);
      double of_host = 0;
      for (Sample& one : samples) {
        one.built = builder_(one.rank);
        one.set = working_set(one.built);
        of_host += one.set * one.weight;
        counted += one.built.schedule.steps.size();
      }
      sets += of_host;
      ranks += static_cast<double>(ranks_of_[host].size());
      counted_ranks += samples.size();
      count_host(samples, of_host);
      if (counted > kCountedSteps || (i + 1 >= kMinHosts && counted_ranks >= kMaxRanks)) break;
    }
    set_ = sets / ranks;
  }

  void count_host(std::vector<Sample>& samples, double of_host) {
    Busy whole;
    for (Sample& one : samples) {
      prices_.set_rates(one.built.rates, one.rank, one.set, of_host);
      const Busy busy = busy_of(one.built);
      whole.add(busy, one.weight);
      grow(agreement_.agreeing + busy.posts + busy.bytes, busy.posts);
    }
    grow((whole.posts + whole.bytes) / machine_.cores, whole.posts / machine_.cores);
    for (const double seconds : {whole.memory, whole.out, whole.in}) grow(seconds, 0);
  }

  void grow(double seconds, double posts) {
    bounds_.resource = std::max(bounds_.resource, seconds);
    bounds_.posts = std::max(bounds_.posts, posts);
  }

  // The most informative first.
  std::vector<int> sampled_hosts() const {
    const auto smaller = [](const auto& a, const auto& b) { return a.size() < b.size(); };
    const auto [least, most] = std::minmax_element(ranks_of_.begin(), ranks_of_.end(), smaller);
    const size_t count = ranks_of_.size();
    std::vector<size_t> wanted = {0, static_cast<size_t>(most - ranks_of_.begin()),
                                  static_cast<size_t>(least - ranks_of_.begin()),
                                  static_cast<size_t>(machine_.host_of(n_ - 1)), count / 2};
    constexpr size_t kParts = 61;  // a prime: hosts are often grouped by powers of two
    for (size_t i = 1; i < kParts; ++i) wanted.push_back(i * count / kParts);
    std::vector<int> hosts;
    for (const size_t host : wanted)
      if (std::find(hosts.begin(), hosts.end(), static_cast<int>(host)) == hosts.end())
        hosts.push_back(static_cast<int>(host));
    return hosts;
  }

  static std::vector<Sample> sampled_ranks(const std::vector<int>& ranks, size_t most) {
    std::vector<Sample> samples;
    if (ranks.size() <= most) {
      for (const int rank : ranks) samples.push_back({rank, 1});
      return samples;
    }
    const size_t inner = most - 2, between = ranks.size() - 2;
    samples = {{ranks.front(), 1}, {ranks.back(), 1}};
    for (size_t i = 0; i < inner; ++i)
      samples.push_back({ranks[1 + i * between / inner],
                         static_cast<double>(between) / static_cast<double>(inner)});
    return samples;
  }

  Busy busy_of(const BuiltRank& one) const {
    const Schedule& s = one.schedule;
    const CostRank& rank = one.rates;
    std::array<std::optional<CostMessage>, 8> kinds;
    const double own_block = prices_.own_block(s.rank);
    Busy busy;
    busy.bytes = own_block * rank.copies.core;
    busy.memory = own_block * rank.copies.memory;
    for (const Step& step : s.steps) {
      const double bytes = one.bytes(step);
      if (bytes == 0) continue;
      if (step.peer < 0) {
        const PerByte& cost = step.kind == StepKind::copy ? rank.copies : rank.reduces;
        busy.bytes += bytes * cost.core;
        busy.memory += bytes * cost.memory;
        continue;
      }
      // Messages of one kind and size cost the same, except for their parts.
      const bool reduces = step.kind == StepKind::recv_reduce;
      const bool far = machine_.host_of(s.rank) != machine_.host_of(step.peer);
      auto& kind = kinds[4 * reduces + 2 * far + machine_.same_node(s.rank, step.peer)];
      if (!kind || kind->bytes != bytes) {
        kind = prices_.message(s.rank, step.peer);
        kind->bytes = bytes;
        kind->reduces = reduces;
        prices_.set_costs(*kind, rank, rank);
      }
      const CostMessage& m = *kind;
      const PerByte own = sends(step) ? m.out : m.in;
      busy.posts += m.post * parts_of(step, load_.collective, s.chunks);
      busy.bytes += bytes * own.core;
      busy.memory += bytes * own.memory;
      (sends(step) ? busy.out : busy.in) += bytes * m.wire;
    }
    return busy;
  }

  Builder builder_;
  const Load& load_;
  const MachineModel& machine_;
  const int n_;
  const Prices prices_;
  Prices::Agreement agreement_;
  std::vector<std::vector<int>> ranks_of_;  // by host
  double set_ = 0;                          // bytes; mean over the ranks
  CostBounds bounds_;
};

}  // namespace

CostBounds sketch_of(const BuildRank& build, int n, const Load& load, const MachineModel& machine) {
  return Sketch(build, n, load, machine).run();
}

}  // namespace ringwood
