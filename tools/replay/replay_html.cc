#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/kernels/types.h"
#include "tools/matrix/matrix_report.h"
#include "tools/perf/perf_environment.h"
#include "tools/replay/replay_report.h"

namespace ringwood::tools {
namespace {

constexpr size_t kMaxBars = 8;

std::string cell(double seconds) { return std::isnan(seconds) ? "-" : print_time(seconds); }

void add_totals(HtmlReport& page, const ReplayReport& report) {
  std::vector<ReportBar> calls, runs;
  for (const ReplayColumn& column : report.columns) {
    calls.push_back({column.name, column.calls, print_time(column.calls)});
    runs.push_back({column.name, column.run, print_time(column.run)});
  }
  page.add_bars("All calls", calls);
  if (report.pauses) page.add_bars("The whole run, with the pauses in which ranks computed", runs);
}

// Each call in its order, so that one that stands out is seen.
void add_calls(HtmlReport& page, const ReplayReport& report) {
  ReportPlot plot{"Time of each call",
                  {"call", AxisUnit::number, 0},
                  {"time", AxisUnit::microseconds, 10},
                  {},
                  "In the order of the run. Dashed: predicted by the cost model. A click on a name "
                  "hides its line."};
  for (const ReplayColumn& column : report.columns) {
    PlotSeries& line =
        plot.series.emplace_back(PlotSeries{column.name, {}, {}, column.name == "predicted", -1});
    for (size_t i = 0; i < column.each.size(); ++i) {
      line.x.push_back(static_cast<double>(i + 1));
      line.y.push_back(column.each[i] * 1e6);
    }
  }
  page.add_plot(plot);
}

// One line of a plot: of a collective, from one column. Calls of one size have their mean.
PlotSeries series_of(const ReplayReport& report, const ReplayColumn& column, Collective collective,
                     int colour) {
  std::map<double, std::pair<double, int>> sizes;
  for (size_t kind = 0; kind < report.run->kinds.size(); ++kind) {
    const auto& [call, count] = report.run->kinds[kind];
    if (call.collective != collective || std::isnan(column.kinds[kind])) continue;
    auto& [sum, calls] = sizes[static_cast<double>(call.bytes)];
    sum += column.sums[kind];
    calls += count;
  }
  PlotSeries line{column.name, {}, {}, column.name == "predicted", colour};
  for (const auto& [bytes, all] : sizes) {
    line.x.push_back(bytes);
    line.y.push_back(all.first / all.second * 1e6);
  }
  return line;
}

void add_plot(HtmlReport& page, const ReplayReport& report, Collective collective,
              const std::vector<EarlierResults>& earlier) {
  ReportPlot plot{fmt::format("Time of {} by size", to_string(collective)),
                  {"size", AxisUnit::bytes, 2},
                  {"mean time of a call", AxisUnit::microseconds, 10},
                  {},
                  "Dashed: predicted by the cost model. A click on a name hides its line."};
  int colour = 0;
  for (const ReplayColumn& column : report.columns) {
    PlotSeries line = series_of(report, column, collective, colour++);
    if (!line.x.empty()) plot.series.push_back(std::move(line));
  }
  for (const EarlierResults& one : earlier)
    if (one.of.collective == to_string(collective))
      plot.series.push_back({one.name, one.bytes, one.time_us, false, colour++});
  // One size alone is told by the table.
  if (std::ranges::any_of(plot.series, [](const PlotSeries& line) { return line.x.size() > 1; }))
    page.add_plot(plot);
}

// The kinds that cost most: each column a bar.
void add_kinds(HtmlReport& page, const ReplayReport& report) {
  std::vector<size_t> order = by_cost(report);
  order.resize(std::min(order.size(), kMaxBars));
  std::vector<ReportBar> bars;
  for (const size_t kind : order)
    for (const ReplayColumn& column : report.columns)
      bars.push_back({fmt::format("{}, {}", name_of(report.run->kinds[kind].call), column.name),
                      column.sums[kind], print_time(column.sums[kind])});
  page.add_bars("What costs most, all calls of a kind together", bars);
}

void add_rows(HtmlReport& page, const ReplayReport& report) {
  std::vector<std::string> header{"call", "type", "recorded as", "replayed as", "count"};
  for (const ReplayColumn& column : report.columns) {
    header.push_back(column.name);
    header.push_back("sum");
  }
  if (report.wrong) header.emplace_back("wrong");
  std::vector<std::vector<std::string>> rows;
  for (const size_t kind : by_cost(report)) {
    const auto& [call, count] = report.run->kinds[kind];
    auto& row = rows.emplace_back();
    row = {name_of(call), moves_data(call.collective) ? to_string(call.type) : "-",
           fmt::format("{} / {}", call.algorithm, call.segments),
           fmt::format("{} / {}", report.algorithms[kind], report.segments[kind]),
           fmt::to_string(count)};
    for (const ReplayColumn& column : report.columns) {
      row.push_back(cell(column.kinds[kind]));
      row.push_back(cell(column.sums[kind]));
    }
    if (report.wrong) row.push_back(fmt::to_string((*report.wrong)[kind]));
  }
  page.add_heading("Kinds of calls");
  page.add_table(header, rows);
}

}  // namespace

HtmlReport html_of(const ReplayReport& report, Facts facts,
                   const std::vector<EarlierResults>& earlier) {
  const RecordedRun& run = *report.run;
  Facts all{{"trace", run.source}, {"group", run.group}, {"replayed on", report.place}};
  if (!report.faults.empty())
    all.emplace_back("faults", fmt::format("{}", fmt::join(report.faults, ", ")));
  all.insert(all.end(), facts.begin(), facts.end());
  all.insert(all.end(), {{"date", date_now()},
                         {"version", "ringwood " RINGWOOD_VERSION},
                         {"command", fmt::format("{}", fmt::join(command_line(), " "))}});
  HtmlReport page(
      {report.command == "perf" ? "A recorded run, run again" : "A recorded run, simulated",
       fmt::format("{} calls of {} ranks", run.calls.size(), run.ranks), std::move(all)});
  std::string verdict = verdict_of(report);
  verdict.front() = 'A';
  page.add_text(verdict + ".");
  for (const auto* notes : {&run.notes, &report.notes})
    for (const std::string& note : *notes) page.add_text(note, Tone::warning);
  add_totals(page, report);
  add_calls(page, report);
  std::vector<Collective> drawn;
  for (const auto& [call, count] : run.kinds)
    if (moves_data(call.collective) && std::ranges::count(drawn, call.collective) == 0) {
      drawn.push_back(call.collective);
      add_plot(page, report, call.collective, earlier);
    }
  add_kinds(page, report);
  add_rows(page, report);
  return page;
}

}  // namespace ringwood::tools
