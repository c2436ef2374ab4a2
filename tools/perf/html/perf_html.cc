#include "tools/perf/html/perf_html.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tools/counted.h"
#include "tools/perf/html/perf_compare.h"
#include "tools/perf/html/perf_html_facts.h"
#include "tools/perf/html/perf_html_verdicts.h"
#include "tools/perf/html/perf_sweeps.h"
#include "tools/perf/perf_environment.h"
#include "tools/report/html_report.h"
#include "transports/base/host.h"

namespace ringwood::tools {
namespace {

std::string percent(const std::optional<double>& value) {
  return value ? fmt::format("{:.0f}", *value) : "-";
}

template <class Value>
PlotSeries series(std::string name, const std::vector<const Row*>& rows, Value value,
                  bool dashed = false, int colour = -1) {
  PlotSeries made{std::move(name), {}, {}, dashed, colour};
  for (const Row* row : rows) {
    made.x.push_back(static_cast<double>(row->bytes));
    made.y.push_back(value(*row));
  }
  return made;
}

double or_nan(const std::optional<double>& value) { return value.value_or(NAN); }

// One row of each size: where algorithms are compared they share the limit.
std::vector<const Row*> one_of_each_size(const std::vector<const Row*>& rows) {
  std::map<size_t, const Row*> sizes;
  for (const Row* row : rows) sizes.try_emplace(row->bytes, row);
  std::vector<const Row*> some;
  for (const auto& [size, row] : sizes) some.push_back(row);
  return some;
}

using Earlier = std::vector<EarlierResults>;

bool any_predicted(const std::vector<const Row*>& rows) {
  return std::ranges::any_of(rows, [](const Row* r) { return r->predicted_us.has_value(); });
}

// "ring up to 64 KiB, then double_tree"
std::string names_of(const std::vector<const Row*>& rows) {
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool last = i + 1 == rows.size();
    if (!last && rows[i + 1]->algorithm == rows[i]->algorithm) continue;
    text += (text.empty() ? "" : ", then ") + rows[i]->algorithm;
    if (!last) text += " up to " + size_text(static_cast<double>(rows[i]->bytes));
  }
  return text;
}

// Measured, and predicted in the same colour. Of several algorithms, first and thick what the
// communicator chooses; predictions of the others show at a click.
template <class Value>
std::vector<PlotSeries> measured(const Sweep& sweep, bool bandwidth, Value value) {
  std::vector<PlotSeries> all;
  const auto add = [&](const std::string& name, const std::vector<const Row*>& rows, int colour,
                       bool strong, bool prediction_hidden) {
    all.push_back(series(
        name, rows,
        [&](const Row& r) { return value(r, bandwidth ? r.times.best_us : r.times.median_us); },
        false, colour));
    all.back().strong = strong;
    if (!any_predicted(rows)) return;
    all.push_back(series(
        sweep.compared ? name + ", predicted" : "predicted", rows,
        [&](const Row& r) { return value(r, or_nan(r.predicted_us)); }, true, colour));
    all.back().hidden = prediction_hidden;
  };
  const std::vector<const Row*> chosen = sweep.chosen();
  if (!chosen.empty()) add("the choice", chosen, 0, true, false);
  int line = chosen.empty() ? 0 : 1;
  for (const auto& [name, rows] : sweep.lines())
    add(name, rows, line++ % kColours, false, !chosen.empty());
  return all;
}

// The limit, and what others have reached, beside what was measured. `value` turns a time of a row
// into what is drawn.
template <class Value>
std::vector<PlotSeries> beside_others(const Sweep& sweep, const Earlier& earlier, bool bandwidth,
                                      Value value) {
  std::vector<PlotSeries> all = measured(sweep, bandwidth, value);
  int colour = static_cast<int>(sweep.lines().size() + (sweep.chosen().empty() ? 0 : 1));
  const auto some = one_of_each_size(sweep.rows);
  if (std::ranges::any_of(some, [](const Row* r) { return r->limit_us.has_value(); })) {
    all.push_back(series(
        "physical limit", some, [&](const Row& r) { return value(r, or_nan(r.limit_us)); }, true,
        kGrey));
    all.back().off_scale = true;
  }
  const auto least = static_cast<double>(some.front()->bytes);
  const auto most = static_cast<double>(some.back()->bytes);
  for (const EarlierResults& one : earlier) {
    if (!matches(one.of, sweep.of)) continue;
    PlotSeries& line = all.emplace_back(PlotSeries{one.name, {}, {}, true, colour++ % kColours});
    for (size_t i = 0; i < one.bytes.size(); ++i) {
      if (one.bytes[i] < least || one.bytes[i] > most) continue;
      line.x.push_back(one.bytes[i]);
      line.y.push_back(bandwidth ? one.busbw_gbs[i] : one.time_us[i]);
    }
  }
  return all;
}

// What --compare names, and nothing of it is shown.
void add_unmatched(HtmlReport& report, const std::vector<Sweep>& sweeps, const Earlier& earlier) {
  std::map<std::string, bool> shown;
  for (const EarlierResults& one : earlier)
    shown[one.name] |=
        std::ranges::any_of(sweeps, [&](const Sweep& sweep) { return matches(one.of, sweep.of); });
  for (const auto& [name, is_shown] : shown)
    if (!is_shown)
      report.add_text(
          fmt::format("{} has none of the collectives, types and operations of this run.", name),
          Tone::warning);
}

void add_plots(HtmlReport& report, const Sweep& sweep, const Earlier& earlier) {
  const PlotAxis sizes{"size", AxisUnit::bytes, 2};
  const std::vector<const Row*> chosen = sweep.chosen();
  report.add_plot(
      {"Bus bandwidth by size",
       sizes,
       {"bus bandwidth, GB/s", AxisUnit::number, 0},
       beside_others(sweep, earlier, true,
                     [](const Row& r, double us) { return r.bus_gbs_at(us); }),
       std::string("Of the best batch. Dashed: predicted by the cost model in the same colour, and "
                   "what memory and links allow, which leaves the plot where it is above three "
                   "times the rest. A click on a name hides or shows its line.") +
           (chosen.empty() ? "" : " The choice: " + names_of(chosen) + ".")});
  std::vector<PlotSeries> times =
      beside_others(sweep, earlier, false, [](const Row&, double us) { return us; });
  if (!sweep.compared)
    times.push_back(series(
        "99 of 100 are below", sweep.rows, [](const Row& r) { return r.times.spread.p99_us; }, true,
        1));
  report.add_plot({"Time by size",
                   sizes,
                   {"time of one operation", AxisUnit::microseconds, 10},
                   std::move(times),
                   "Median of the batches, of the slowest rank."});
}

// Who was slow, and who came late. Of the first line alone, if there are several.
void add_ranks(HtmlReport& report, const Sweep& sweep) {
  std::vector<const Row*> rows;
  const auto lines = sweep.lines();
  for (const Row* row : lines.front().second)
    if (row->times.rank_us.size() > 1) rows.push_back(row);
  if (rows.empty()) return;
  const double error_us = rows.front()->times.spread.clock_error_us;
  report.add_plot(
      {"Arrival skew by size",
       {"size", AxisUnit::bytes, 2},
       {"from the first rank's arrival to the last one's", AxisUnit::microseconds, 10},
       {series("median", rows, [](const Row& r) { return r.times.spread.skew_p50_us; }),
        series(
            "99 of 100 are below", rows, [](const Row& r) { return r.times.spread.skew_p99_us; },
            true)},
       error_us > 0 ? fmt::format("Between hosts, clocks are known to {:.3g} µs.", error_us) : ""});
  HeatMap map{"Time of each rank, beside the mean of all",
              {},
              {},
              {},
              "%",
              "The mean of the batches. A rank that is late makes the others wait, and has itself "
              "the shortest time.",
              true};
  for (size_t rank = 0; rank < rows.front()->times.rank_us.size(); ++rank)
    map.column_names.push_back(fmt::format("rank {}", rank));
  for (const Row* row : rows) {
    const auto& ranks = row->times.rank_us;
    double mean = 0;
    for (const double us : ranks) mean += us / static_cast<double>(ranks.size());
    map.row_names.push_back(size_text(static_cast<double>(row->bytes)));
    auto& values = map.values.emplace_back();
    for (const double us : ranks) values.push_back(us / mean * 100);
  }
  report.add_heat_map(map);
}

void add_table(HtmlReport& report, const Sweep& sweep) {
  std::vector<std::vector<std::string>> rows;
  for (const Row* r : sweep.rows) {
    const Spread& s = r->times.spread;
    rows.push_back({size_text(static_cast<double>(r->bytes)), micros(r->times.best_us),
                    micros(r->times.median_us), micros(s.p99_us),
                    fmt::format("{:.4g}", r->busbw_gbs),
                    r->predicted_us ? micros(*r->predicted_us) : "-", percent(r->limit_percent()),
                    fmt::format("{:.3g}", r->cpu_s_per_gb()), micros(s.skew_p50_us),
                    fmt::to_string(s.last_rank), fmt::to_string(r->slowest_rank()),
                    r->wrong ? fmt::to_string(*r->wrong) : "-", r->algorithm,
                    fmt::to_string(r->segments), r->transports});
  }
  report.add_table(
      {"size", "best µs", "median µs", "p99 µs", "bus GB/s", "predicted µs", "% of limit",
       "CPU s/GB", "skew µs", "last", "slowest", "wrong", "algorithm", "segments", "transports"},
      rows);
}

HtmlReport::Head head_of(const PerfOptions& perf, const std::vector<Row>& rows,
                         const RunFacts& facts, int ranks) {
  std::set<std::string> transports, collectives, hosts;
  for (const Row& row : rows) {
    transports.insert(row.transports);
    collectives.insert(row.collective);
  }
  for (const HostCounters& one : facts.hosts) hosts.insert(one.host);
  const std::string several = collectives.size() > 3
                                  ? fmt::format("{} collectives", collectives.size())
                                  : fmt::format("{}", fmt::join(collectives, ", "));
  const std::string place = fmt::format("{} on {}", counted(ranks, "rank"),
                                        counted(std::max<size_t>(1, facts.hosts.size()), "host"));
  return {several,
          place,
          {{"date", date_now()},
           {"hosts", fmt::format("{}", fmt::join(hosts, ", "))},
           {"processor",
            fmt::format("{}, {} cores", processor_name(), ::sysconf(_SC_NPROCESSORS_ONLN))},
           {"load of the last minute", load_average()},
           {"transports", fmt::format("{}", fmt::join(transports, ", "))},
           {"buffers", perf.memory == BufferKind::ordinary ? "private"
                       : perf.memory == BufferKind::device ? "memory of CUDA devices"
                                                           : "shared by a host's ranks"},
           {"measured", perf.trial.touch ? "each operation with its input written and output read"
                                         : "operations one after another"},
           {"ringwood", RINGWOOD_VERSION},
           {"command", fmt::format("{}", fmt::join(command_line(), " "))}}};
}

RunShape shape_of(const PerfOptions& perf, const RunFacts& facts) {
  const bool shared = perf.memory == BufferKind::shared || perf.memory == BufferKind::remapped;
  return {static_cast<int>(facts.hosts.size()), perf.trial.touch, shared, perf.transports};
}

}  // namespace

void write_html(const PerfOptions& perf, const std::vector<Row>& rows, const RunFacts& facts,
                int ranks) {
  Earlier earlier;
  for (const std::string& what : perf.report.compare)
    for (EarlierResults& one :
         read_earlier_results(what, ranks, perf.trial.touch ? "touched" : "plain"))
      earlier.push_back(std::move(one));
  HtmlReport report(head_of(perf, rows, facts, ranks));
  add_verdicts(report, rows, facts, findings_of(rows, earlier, shape_of(perf, facts)),
               nothing_found(rows, earlier));
  const std::vector<Sweep> sweeps = sweeps_of(rows);
  add_unmatched(report, sweeps, earlier);
  for (const Sweep& sweep : sweeps) {
    report.add_heading(sweep.name);
    if (sweep.rows.front()->bytes > 0) {
      add_plots(report, sweep, earlier);
      add_ranks(report, sweep);
    }
    add_table(report, sweep);
  }
  add_counters(report, facts);
  add_limits(report, facts);
  if (!perf.report.matrix.empty()) add_matrix(report, read_matrix(perf.report.matrix));
  report.write(*perf.report.html);
}

}  // namespace ringwood::tools
