#include "tools/matrix/matrix.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/tuner/machine/group_model.h"
#include "collectives/tuner/machine/machine_model.h"
#include "collectives/tuner/machine/probe_results.h"
#include "tools/gather.h"
#include "tools/matrix/probe_rounds.h"
#include "tools/matrix/solve.h"
#include "transports/base/clock.h"
#include "transports/base/host.h"
#include "transports/base/options.h"

namespace ringwood::tools {
namespace {

constexpr int kConfirmations = 3;

// The ranks that measure: of each rail, by host.
struct Places {
  std::vector<std::string> hosts;
  std::vector<int> ranks;  // of each host
  std::vector<std::string> cores;
  std::vector<std::string> rails;
  std::vector<std::vector<int>> leaders;  // by rail and host
  std::vector<std::string> notes;
};

// Hosts of one name get a number each, as network namespaces of one machine need.
void tell_apart(std::vector<std::string>& names) {
  std::map<std::string, int> times, given;
  for (const std::string& name : names) ++times[name];
  for (std::string& name : names)
    if (times[name] > 1) name += fmt::format("#{}", given[name]++);
}

// The k-th rail of a host is that of its k-th rank with another rail than the ranks before it. All
// hosts have equally many, or only the first one counts.
void add_rails(Places& places, const std::vector<std::vector<std::pair<int, std::string>>>& of,
               size_t wanted) {
  const auto [least, most] =
      std::ranges::minmax_element(of, {}, [](const auto& h) { return h.size(); });
  const size_t rails = least->size() == most->size() ? most->size() : 1;
  const auto name = [&](auto host) { return places.hosts[static_cast<size_t>(host - of.begin())]; };
  if (least->size() != most->size())
    places.notes.push_back(fmt::format(
        "one rail of each host was measured: {} has ranks on {} rails, {} on {}; start as many "
        "ranks on each host as it has rails",
        name(most), most->size(), name(least), least->size()));
  else if (rails < wanted)
    places.notes.push_back(fmt::format(
        "{} of {} rails were measured: {} has ranks on no more; start a rank on each host for "
        "each rail",
        rails, wanted, name(least)));
  for (size_t k = 0; k < rails; ++k) {
    std::set<std::string> names;
    auto& leaders = places.leaders.emplace_back();
    for (const auto& host : of) {
      leaders.push_back(host[k].first);
      names.insert(host[k].second);
    }
    // Hosts may call it differently.
    const bool one = names.size() == 1;
    places.rails.push_back(one ? *names.begin() : fmt::format("rail{}", k));
  }
}

Places find_places(Communicator& group, const MatrixOptions& options) {
  const std::string host = options.host.empty() ? host_name() : options.host;
  std::string token = fmt::format("{} {}", host_token(), Options::from_environment().host_id);
  if (options.by_rank) token = fmt::to_string(group.rank());
  const auto texts =
      gather_texts(group, fmt::format("{}\n{}\n{}\n{}", token, host, cores_token(), options.rail));
  Places places;
  std::map<std::string, size_t> known;
  std::vector<std::vector<std::pair<int, std::string>>> rails;
  for (size_t r = 0; r < texts.size(); ++r) {
    std::istringstream lines(texts[r]);
    std::string own_token, name, cores, rail;
    std::getline(std::getline(std::getline(std::getline(lines, own_token), name), cores), rail);
    const auto [it, first] = known.try_emplace(own_token, places.hosts.size());
    if (first) {
      places.hosts.push_back(name);
      places.ranks.push_back(0);
      places.cores.push_back(cores);
      rails.emplace_back();
    }
    ++places.ranks[it->second];
    auto& own = rails[it->second];
    const auto same = [&](const auto& other) { return other.second == rail; };
    if (std::ranges::none_of(own, same)) own.emplace_back(static_cast<int>(r), rail);
  }
  tell_apart(places.hosts);
  if (places.hosts.size() < 2)
    throw Error(
        ErrorCode::invalid_argument,
        "all ranks are on one host; a matrix needs two hosts or more: start a rank on each, "
        "for example with mpirun, srun or torchrun");
  add_rails(places, rails, options.rails);
  return places;
}

Table empty_table(size_t n) { return Table(n, std::vector<double>(n, 0)); }

// Measures over the rails of `places`.
class Measurement final {
 public:
  Measurement(Communicator& group, const MatrixOptions& options)
      : group_(group),
        options_(options),
        places_(find_places(group, options)),
        probe_(group, {options.repeats, options.transfer_s, options.max_bytes}, options.progress),
        rounds_(tournament(static_cast<int>(places_.hosts.size()))) {}

  Matrix all() {
    const auto begin = Clock::now();
    Matrix matrix;
    matrix.hosts = places_.hosts;
    matrix.ranks = places_.ranks;
    matrix.sharing = hosts_sharing(places_.cores);
    matrix.notes = places_.notes;
    for (size_t rail = 0; rail < places_.rails.size(); ++rail) {
      HostMatrix& one = matrix.rails.emplace_back(hosts_over(rail));
      const auto slow = confirm(rail, one.alone.empty() ? one.pairs : one.alone);
      matrix.slow.insert(matrix.slow.end(), slow.begin(), slow.end());
    }
    if (places_.rails.size() > 1) judge_rails(matrix);
    std::ranges::stable_sort(matrix.slow, {},
                             [](const SlowPath& s) { return s.rate / s.expected; });
    matrix.machine = gather_texts(group_, announced_parameters(Options::from_environment()))[0];
    matrix.seconds = seconds_since(begin);
    return matrix;
  }

 private:
  int leader(size_t rail, int host) const {
    return places_.leaders[rail][static_cast<size_t>(host)];
  }
  std::string named(const std::string& what, size_t rail) const {
    return places_.rails.size() > 1 ? fmt::format("{}, {}", places_.rails[rail], what) : what;
  }
  using Pairs = std::vector<std::vector<std::pair<int, int>>>;

  // The values of rounds of these directed pairs of hosts, as a table.
  void measure(Table& table, size_t rail, const Pairs& rounds, const std::string& what,
               bool latency) {
    std::vector<std::vector<Flow>> flows;
    for (const auto& round : rounds) {
      auto& of_round = flows.emplace_back();
      for (const auto& [a, b] : round) of_round.push_back({leader(rail, a), leader(rail, b)});
    }
    const FlowValues values = latency ? probe_.latencies(named(what, rail), flows)
                                      : probe_.rates(named(what, rail), flows);
    for (size_t r = 0; r < rounds.size(); ++r) {
      for (size_t i = 0; i < rounds[r].size(); ++i) {
        const auto [a, b] = rounds[r][i];
        table[static_cast<size_t>(a)][static_cast<size_t>(b)] = values[r][i];
        if (latency) table[static_cast<size_t>(b)][static_cast<size_t>(a)] = values[r][i];
      }
    }
  }

  HostMatrix hosts_over(size_t rail) {
    const size_t n = places_.hosts.size();
    const bool alone = options_.alone && n <= static_cast<size_t>(options_.most_alone);
    HostMatrix matrix;
    if (places_.rails.size() > 1) matrix.rail = places_.rails[rail];
    matrix.transport = transport(rail);
    matrix.latency = empty_table(n);
    Pairs one_by_one, directed, both;
    for (const auto& round : rounds_) {
      auto& ways = both.emplace_back();
      for (const auto& [a, b] : round) {
        one_by_one.push_back({{a, b}});
        directed.push_back({{a, b}});
        directed.push_back({{b, a}});
        ways.insert(ways.end(), {{a, b}, {b, a}});
      }
    }
    measure(matrix.latency, rail, alone ? one_by_one : rounds_, "latency", true);
    if (alone) {
      matrix.alone = empty_table(n);
      measure(matrix.alone, rail, directed, "each pair alone", false);
    }
    if (options_.pairs || !alone) {
      matrix.pairs = empty_table(n);
      measure(matrix.pairs, rail, both, "disjoint pairs at once", false);
    }
    if (options_.all) matrix.all = all_at_once(rail);
    return matrix;
  }

  Table all_at_once(size_t rail) {
    const size_t n = places_.hosts.size();
    std::vector<Flow> flows;
    for (size_t shift = 1; shift < n; ++shift)
      for (size_t a = 0; a < n; ++a)
        flows.push_back({places_.leaders[rail][a], places_.leaders[rail][(a + shift) % n]});
    const auto rates = probe_.rates_at_once(named("all pairs at once", rail), flows);
    Table table = empty_table(n);
    size_t at = 0;
    for (size_t shift = 1; shift < n; ++shift)
      for (size_t a = 0; a < n; ++a) table[a][(a + shift) % n] = rates[at++];
    return table;
  }

  // Of these paths, and where nothing was measured, though something was elsewhere: beside nothing
  // else. The better rate counts.
  void measure_again(size_t rail, Table& table, const std::vector<SlowPath>& slow) {
    Pairs rounds;
    const bool some = median_rate(table) > 0;
    for (int a = 0; a < static_cast<int>(table.size()); ++a) {
      for (int b = 0; b < static_cast<int>(table.size()); ++b) {
        const bool suspect = std::ranges::any_of(slow, [&](const SlowPath& path) {
          return (path.from < 0 || path.from == a) && (path.to < 0 || path.to == b);
        });
        const double rate = table[static_cast<size_t>(a)][static_cast<size_t>(b)];
        if (a != b && (suspect || (some && rate <= 0))) rounds.push_back({{a, b}});
      }
    }
    if (rounds.empty()) return;
    Table again = empty_table(table.size());
    measure(again, rail, rounds, "slow ones again", false);
    for (size_t a = 0; a < table.size(); ++a)
      for (size_t b = 0; b < table.size(); ++b) table[a][b] = std::max(table[a][b], again[a][b]);
  }

  // What looks slow is measured again; what was an interruption then goes.
  std::vector<SlowPath> confirm(size_t rail, Table& table) {
    const std::string name = places_.rails.size() > 1 ? places_.rails[rail] : "";
    auto slow = find_slow(table, options_.slow, name);
    for (int turn = 0; turn < kConfirmations; ++turn) {
      measure_again(rail, table, slow);
      slow = find_slow(table, options_.slow, name);
      if (slow.empty()) break;
    }
    return slow;
  }

  // Likewise for rails at all hosts, and for all rails at once.
  void judge_rails(Matrix& matrix) {
    matrix.rail_by_rail = rails();
    auto slow = find_slow_rails(matrix, options_.slow);
    for (int turn = 0; turn < kConfirmations && !slow.empty(); ++turn) {
      for (const SlowPath& path : slow) {
        const auto at = std::ranges::find(matrix.rails, path.rail, &HostMatrix::rail);
        if (path.kind == SlowPath::Kind::rail)
          measure_again(static_cast<size_t>(at - matrix.rails.begin()),
                        at->alone.empty() ? at->pairs : at->alone, {path});
      }
      if (std::ranges::count(slow, SlowPath::Kind::together, &SlowPath::kind) > 0) {
        // Rails that share a cable share it differently each time: the best of each would be of no
        // one time, and more than the cable has.
        auto again = of_rails(every_rail(), "all rails again");
        auto& all = matrix.rail_by_rail.all;
        if (std::reduce(again.begin(), again.end()) > std::reduce(all.begin(), all.end()))
          all = std::move(again);
      }
      slow = find_slow_rails(matrix, options_.slow);
    }
    matrix.slow.insert(matrix.slow.end(), slow.begin(), slow.end());
  }

  // Between the pairs of the first round, both directions; medians.
  std::vector<double> of_rails(const std::vector<std::pair<size_t, size_t>>& busy,
                               const std::string& what) {
    std::vector<std::vector<Flow>> rounds(1);
    for (const auto& [from, to] : busy)
      for (const auto& [a, b] : rounds_[0])
        rounds[0].insert(rounds[0].end(),
                         {{leader(from, a), leader(to, b)}, {leader(from, b), leader(to, a)}});
    const FlowValues values = probe_.rates(what, rounds);
    std::vector<double> medians;
    const size_t each = 2 * rounds_[0].size();
    for (size_t i = 0; i < busy.size(); ++i) {
      const auto first = values[0].begin() + static_cast<ptrdiff_t>(i * each);
      medians.push_back(median_rate({{first, first + static_cast<ptrdiff_t>(each)}}));
    }
    return medians;
  }

  std::vector<std::pair<size_t, size_t>> every_rail() const {
    std::vector<std::pair<size_t, size_t>> every;
    for (size_t i = 0; i < places_.rails.size(); ++i) every.emplace_back(i, i);
    return every;
  }

  RailMatrix rails() {
    const size_t n = places_.rails.size();
    RailMatrix matrix{empty_table(n), empty_table(n), {}};
    const auto every = every_rail();
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        const auto names = fmt::format("{} -> {}", places_.rails[i], places_.rails[j]);
        matrix.cross[i][j] = of_rails({{i, j}}, names)[0];
      }
      matrix.pair[i][i] = matrix.cross[i][i];
    }
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i + 1; j < n; ++j) {
        const auto both = of_rails({every[i], every[j]},
                                   fmt::format("{} and {}", places_.rails[i], places_.rails[j]));
        matrix.pair[i][j] = both[0];
        matrix.pair[j][i] = both[1];
      }
    }
    matrix.all = of_rails(every, "all rails");
    return matrix;
  }

  // Of all pairs of hosts.
  std::string transport(size_t rail) {
    const std::vector<int>& leaders = places_.leaders[rail];
    std::set<std::string> mine, all;
    if (std::ranges::count(leaders, group_.rank()) > 0)
      for (const int other : leaders)
        if (other != group_.rank()) mine.insert(group_.transport_to(other));
    for (const std::string& text : gather_texts(group_, fmt::format("{}", fmt::join(mine, "+")))) {
      std::istringstream words(text);
      for (std::string word; std::getline(words, word, '+');) all.insert(word);
    }
    return fmt::format("{}", fmt::join(all, "+"));
  }

  Communicator& group_;
  const MatrixOptions& options_;
  const Places places_;
  ProbeRounds probe_;
  const Pairs rounds_;
};

}  // namespace

Matrix measure_matrix(Communicator& group, const MatrixOptions& options) {
  return Measurement(group, options).all();
}

}  // namespace ringwood::tools
