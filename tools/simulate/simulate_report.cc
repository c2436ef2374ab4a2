#include "tools/simulate/simulate_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/counted.h"
#include "tools/prediction.h"

namespace ringwood::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kSlowestRanks = 5;
// Another row is worth a change from here on.
constexpr double kWorthwhile = 1.1;

std::string micros(double seconds) { return fmt::format("{:.1f}", seconds * 1e6); }

// With a mark where it is estimated, as `ringwood explain` has it.
std::string micros_of(const SimulatedRow& row, double seconds) {
  return (row.estimated ? "~" : "") + micros(seconds);
}

// The value below which this part of the ascending values is.
double percentile(const std::vector<double>& values, double part) {
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<size_t>(std::lround(part * last))];
}

std::vector<int> slowest_ranks(const Outcome& outcome) {
  std::vector<int> ranks(outcome.finish.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const size_t count = std::min(kSlowestRanks, ranks.size());
  std::partial_sort(
      ranks.begin(), ranks.begin() + static_cast<ptrdiff_t>(count), ranks.end(), [&](int a, int b) {
        return outcome.finish[a] != outcome.finish[b] ? outcome.finish[a] > outcome.finish[b]
                                                      : a < b;
      });
  ranks.resize(count);
  return ranks;
}

std::string row_line(const SimulateOptions& options, const SimulatedRow& row) {
  std::string line = fmt::format("{} {:>12} {:<22} {:>8} {:>11.0f}", row.chosen ? '*' : ' ',
                                 options.bytes, row.name(), row.segments, row.messages);
  if (!row.why_not.empty()) return line + "  " + row.why_not + "\n";
  const auto times = [&](double seconds) {
    const Bandwidth b = bandwidth_of(options, seconds);
    return fmt::format(" {:>12} {:>8.2f} {:>8.2f}", micros_of(row, seconds), b.algorithm, b.bus);
  };
  line += times(row.healthy.seconds);
  if (row.faulty) line += times(row.faulty->seconds) + fmt::format(" {:>6}", factor_of(row));
  if (options.seeds > 1)
    for (const double part : {0.1, 0.5, 0.9})
      line += fmt::format(" {:>12}", micros(percentile(row.by_seed, part)));
  return line + fmt::format("  {}\n", to_string(row.limit()));
}

// What is less exact than the rest.
std::string accuracy(const std::vector<SimulatedRow>& rows) {
  std::vector<std::string> of_one_host, extended, estimated;
  for (const SimulatedRow& row : rows) {
    if (row.one_host) of_one_host.push_back(row.name());
    if (!row.extended_from.empty())
      extended.push_back(
          fmt::format("{} (of {} hosts)", row.name(), fmt::join(row.extended_from, ", ")));
    if (row.estimated) estimated.push_back(row.name());
  }
  std::string text;
  if (!of_one_host.empty())
    text +=
        fmt::format("# {}: one host, simulated, stands for all\n", fmt::join(of_one_host, ", "));
  if (!extended.empty())
    text += fmt::format("# {}: extended from smaller groups, in which every message is simulated\n",
                        fmt::join(extended, ", "));
  if (!estimated.empty())
    text += fmt::format("# {}: estimated, as ringwood explain does (~); --all simulates them\n",
                        fmt::join(estimated, ", "));
  return text;
}

std::string details(const SimulateOptions& options, const SimulatedRow& row) {
  const Network network(options.machine, options.query.n, options.shape, options.faults);
  const Outcome& outcome = row.outcome();
  if (outcome.finish.empty()) return "";  // a prediction of the choice
  std::string text = fmt::format("# slowest ranks of {}:", row.name());
  for (const int rank : slowest_ranks(outcome))
    text += fmt::format(" rank{} {} us,", rank, micros(outcome.finish[rank]));
  text.back() = '\n';
  text += "# busiest links:";
  for (const LinkUse& use : outcome.links)
    text += fmt::format(" {} {:.0f} %,", network.name(use.link), use.busy / outcome.seconds * 100);
  if (outcome.links.empty()) text += " none,";
  text.back() = '\n';
  return text;
}

Json details_json(const SimulateOptions& options, const SimulatedRow& row) {
  const Network network(options.machine, options.query.n, options.shape, options.faults);
  const Outcome& outcome = row.outcome();
  Json ranks = Json::array(), links = Json::array();
  for (const int rank : slowest_ranks(outcome))
    ranks.push_back({{"rank", rank}, {"time_us", outcome.finish[rank] * 1e6}});
  for (const LinkUse& use : outcome.links)
    links.push_back({{"link", network.name(use.link)},
                     {"busy_us", use.busy * 1e6},
                     {"busy_part", use.busy / outcome.seconds}});
  return {{"algorithm", row.name()}, {"slowest_ranks", ranks}, {"busiest_links", links}};
}

Json row_json(const SimulateOptions& options, const SimulatedRow& row) {
  Json json = {{"algorithm", row.algorithm}, {"wire", to_string(row.wire)},
               {"segments", row.segments},   {"chosen", row.chosen},
               {"messages", row.messages},   {"one_host_for_all", row.one_host},
               {"estimated", row.estimated}, {"extended_from_hosts", row.extended_from},
               {"why_not", row.why_not}};
  if (!row.why_not.empty()) return json;
  const auto add = [&](const std::string& suffix, const Outcome& outcome) {
    const double seconds = outcome.seconds;
    const Bandwidth b = bandwidth_of(options, seconds);
    json["time_us" + suffix] = seconds * 1e6;
    json["algbw_gbs" + suffix] = b.algorithm;
    json["busbw_gbs" + suffix] = b.bus;
    json["limit" + suffix] = to_string(outcome.busiest.limit(seconds));
  };
  add("", row.healthy);
  if (row.faulty) add("_with_faults", *row.faulty);
  if (options.seeds > 1)
    for (const int part : {10, 50, 90})
      json[fmt::format("p{}_us", part)] = percentile(row.by_seed, part / 100.0) * 1e6;
  return json;
}

}  // namespace

std::string factor_of(const SimulatedRow& row) {
  if (row.healthy.seconds <= 0) return "-";
  return fmt::format("{:.2f}", row.outcome().seconds / row.healthy.seconds);
}

std::string advice(const SimulateOptions& options, const std::vector<SimulatedRow>& rows) {
  const SimulatedRow* const best = best_of(rows, false);
  if (!best) return "nothing was simulated";
  if (options.query.n == 1) return "a single rank sends nothing";
  const SimulatedRow& now = *taken_of(rows);
  const auto versus = [](const SimulatedRow& other, double seconds, double now_seconds) {
    return fmt::format("{} takes {} us, {:.2f} times less", other.name(), micros(seconds),
                       now_seconds / seconds);
  };
  const std::string none_faster =
      rows.size() > 1 ? fmt::format("; no other row is {:.0f} % faster", (kWorthwhile - 1) * 100)
                      : "";
  if (!options.faults.any()) {
    const double mine = now.healthy.seconds, least = best->healthy.seconds;
    const std::string said = fmt::format("{} takes {} us", now.name(), micros(mine));
    if (mine < least * kWorthwhile) return said + none_faster;
    return fmt::format("{}; switch to another row: {}", said, versus(*best, least, mine));
  }
  const SimulatedRow& other = *best_of(rows, true);
  const double before = now.healthy.seconds, after = now.faulty->seconds;
  const double least = other.faulty->seconds;
  constexpr double kSlower = 1.005;
  const std::string said =
      after < before * kSlower
          ? fmt::format("the faults do not slow {} down: {} us instead of {}", now.name(),
                        micros(after), micros(before))
          : fmt::format("the faults cost {} a factor of {:.2f} ({} us instead of {})", now.name(),
                        after / before, micros(after), micros(before));
  if (after < least * kWorthwhile) return said + none_faster;
  return said + "; switch to another row: " + versus(other, least, after);
}

// Of the first one.
int ranks_of_an_island(const SimulateOptions& options) {
  int ranks = 0;
  for (int r = 0; r < options.query.n; ++r) {
    const MachineModel& machine = options.machine;
    ranks += machine.host_of(r) == machine.host_of(0) && machine.same_node(0, r);
  }
  return ranks;
}

std::string network_line(const SimulateOptions& options) {
  const NetworkShape& shape = options.shape;
  std::string line = fmt::format("{} of {:.4g} GB/s a host, {}", counted(shape.rails, "rail"),
                                 options.machine.net.nic / shape.rails / 1e9,
                                 shape.use == RailUse::striped ? "striped" : "one for each rank");
  if (shape.uplinks > 0)
    line += fmt::format(", leaves of {} with {} for each rail", counted(shape.leaf, "host"),
                        counted(shape.uplinks, "uplink"));
  if (shape.pod > 0)
    line += fmt::format(", pods of {} with {} for each rail", counted(shape.pod, "leaf", "leaves"),
                        counted(shape.pod_uplinks, "uplink"));
  if (shape.queue_pairs > 1 && !shape.adaptive)
    line += fmt::format(", {} queue pairs", shape.queue_pairs);
  if (shape.uplinks > 0)
    line += shape.adaptive ? ", routed adaptively" : fmt::format(", seed {}", shape.seed);
  else
    line += ", a core without limits";
  if (shape.pair > 0)
    line += fmt::format(", {:.4g} GB/s from a host to another one",
                        options.machine.net.nic * shape.pair / 1e9);
  if (options.machine.has_devices())
    line += fmt::format(", GPUs with {:.4g} GB/s to each other in islands of {}",
                        options.machine.device.rate / 1e9,
                        counted(ranks_of_an_island(options), "rank"));
  return line;
}

const SimulatedRow* best_of(const std::vector<SimulatedRow>& rows, bool with_faults) {
  const SimulatedRow* best = nullptr;
  const auto seconds = [&](const SimulatedRow& row) {
    return with_faults ? row.outcome().seconds : row.healthy.seconds;
  };
  for (const SimulatedRow& row : rows)
    if (row.why_not.empty() && (!best || seconds(row) < seconds(*best))) best = &row;
  return best;
}

const SimulatedRow* taken_of(const std::vector<SimulatedRow>& rows) {
  for (const SimulatedRow& row : rows)
    if (row.chosen && row.why_not.empty()) return &row;
  return best_of(rows, true);
}

Bandwidth bandwidth_of(const SimulateOptions& options, double seconds) {
  if (seconds <= 0) return {};
  const double rate = static_cast<double>(options.bytes) / seconds / 1e9;
  return {rate, rate * traits_of(options.query.collective).bus_factor(options.query.n)};
}

std::string print_table(const SimulateOptions& options, const std::vector<SimulatedRow>& rows) {
  const ModelQuery& q = options.query;
  std::string text = fmt::format(
      "# ringwood {} simulate: {} of {} bytes, {}, {} on {}, {}\n"
      "# network: {}\n",
      RINGWOOD_VERSION, to_string(q.collective), options.bytes, to_string(q.type),
      counted(q.n, "rank"), counted(options.hosts, "host"), cores_of(options.machine),
      network_line(options));
  if (options.faults.any())
    text += fmt::format("# faults: {}\n", fmt::join(options.fault_texts, ", "));
  const std::string times = fmt::format(" {:>12} {:>8} {:>8}", "time", "algbw", "busbw");
  text += fmt::format("# {:>12} {:<22} {:>8} {:>11}{}", "size", "algorithm", "segments", "messages",
                      times);
  if (options.faults.any()) text += times + fmt::format(" {:>6}", "factor");
  if (options.seeds > 1) text += fmt::format(" {:>12} {:>12} {:>12}", "p10", "p50", "p90");
  text += "  limit";
  const std::string units = fmt::format(" {:>12} {:>8} {:>8}", "(us)", "(GB/s)", "(GB/s)");
  text += fmt::format("\n# {:>12} {:<22} {:>8} {:>11}{}", "(B)", "", "", "", units);
  if (options.faults.any()) text += units + fmt::format(" {:>6}", "");
  if (options.seeds > 1) text += fmt::format(" {:>12} {:>12} {:>12}", "(us)", "(us)", "(us)");
  text += "\n";
  for (const SimulatedRow& row : rows) text += row_line(options, row);
  text += "# " + advice(options, rows) + "\n" + accuracy(rows);
  if (const SimulatedRow* row = taken_of(rows)) text += details(options, *row);
  return text;
}

std::string print_json(const SimulateOptions& options, const std::vector<SimulatedRow>& rows) {
  const ModelQuery& q = options.query;
  Json json = {{"version", RINGWOOD_VERSION},
               {"collective", to_string(q.collective)},
               {"bytes", options.bytes},
               {"dtype", to_string(q.type)},
               {"ranks", q.n},
               {"hosts", options.hosts},
               {"network", network_line(options)},
               {"faults", options.fault_texts},
               {"seeds", options.seeds},
               {"rows", Json::array()}};
  for (const SimulatedRow& row : rows) json["rows"].push_back(row_json(options, row));
  const auto name = [&](bool with_faults) {
    const SimulatedRow* const best = best_of(rows, with_faults);
    return best ? Json(best->name()) : Json(nullptr);
  };
  json["best"] = name(false);
  if (options.faults.any()) json["best_with_faults"] = name(true);
  json["advice"] = advice(options, rows);
  if (const SimulatedRow* row = taken_of(rows)) json["details"] = details_json(options, *row);
  return json.dump(2);
}

}  // namespace ringwood::tools
