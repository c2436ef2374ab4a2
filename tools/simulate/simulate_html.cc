#include "tools/simulate/simulate_html.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/kernels/types.h"
#include "tools/counted.h"
#include "tools/matrix/matrix_report.h"
#include "tools/perf/perf_environment.h"
#include "tools/simulate/simulate_choice.h"
#include "tools/simulate/simulate_like.h"
#include "tools/simulate/simulate_report.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

constexpr size_t kMaxSizes = 64;  // of those that were measured, that are simulated

std::vector<EarlierResults> read_all(const std::vector<std::string>& compare, int ranks) {
  std::vector<EarlierResults> all;
  for (const std::string& what : compare)
    for (EarlierResults& one : read_earlier_results(what, ranks, "plain"))
      all.push_back(std::move(one));
  return all;
}

// "all_reduce 64 MiB"
std::string call_of(const SimulateOptions& options) {
  RecordedCall call;
  call.collective = options.query.collective;
  call.bytes = options.bytes;
  return name_of(call);
}

void add_bars(HtmlReport& report, const ScalePoint& point,
              const std::vector<EarlierResults>& measured) {
  std::vector<ReportBar> bars;
  for (const EarlierResults& one : measured)
    for (size_t i = 0; i < one.bytes.size(); ++i)
      if (one.bytes[i] == static_cast<double>(point.options.bytes))
        bars.push_back({fmt::format("{}, measured", one.name), one.time_us[i],
                        print_time(one.time_us[i] / 1e6)});
  for (const SimulatedRow& row : point.rows) {
    if (!row.why_not.empty()) continue;
    const std::string name = row.name() + (row.chosen ? ", the choice" : "");
    bars.push_back({name, row.healthy.seconds * 1e6, print_time(row.healthy.seconds)});
    if (row.faulty)
      bars.push_back({row.name() + ", with the faults", row.faulty->seconds * 1e6,
                      print_time(row.faulty->seconds)});
  }
  report.add_bars(fmt::format("Time of {} on {}", call_of(point.options),
                              counted(point.options.query.n, "rank")),
                  bars);
}

// What the group's choice takes at each size that was measured, beside what was measured.
void add_sizes(HtmlReport& report, const SimulateOptions& options,
               const std::vector<EarlierResults>& measured, const Progress& progress) {
  std::set<size_t> sizes;
  for (const EarlierResults& one : measured)
    for (const double bytes : one.bytes)
      if (bytes >= 1 && bytes < 1e15 && sizes.size() < kMaxSizes)
        sizes.insert(static_cast<size_t>(bytes));
  if (sizes.empty()) return;
  PlotSeries healthy{"predicted", {}, {}, true, 0},
      faulty{"predicted, with faults", {}, {}, true, 1};
  for (const size_t bytes : sizes) {
    const SimulateOptions one =
        with_call(options, options.query.collective, options.query.type, bytes);
    std::vector<SimulatedRow> rows = rows_of(one);
    if (rows.empty()) continue;
    rows.resize(1);
    simulate(one, rows, progress);
    if (!rows.front().why_not.empty()) continue;
    healthy.x.push_back(static_cast<double>(bytes));
    healthy.y.push_back(rows.front().healthy.seconds * 1e6);
    faulty.x.push_back(static_cast<double>(bytes));
    faulty.y.push_back(rows.front().outcome().seconds * 1e6);
  }
  ReportPlot plot{"Time by size",
                  {"size", AxisUnit::bytes, 2},
                  {"time of one operation", AxisUnit::microseconds, 10},
                  {healthy},
                  "Dashed: predicted, of the choice at each size. Lines: measured, the median. A "
                  "click on a name hides its line."};
  if (options.faults.any()) plot.series.push_back(faulty);
  int colour = 2;
  for (const EarlierResults& one : measured)
    plot.series.push_back({one.name, one.bytes, one.time_us, false, colour++});
  report.add_plot(plot);
}

// Over the ranks, a line for each row.
void add_scale(HtmlReport& report, const std::vector<ScalePoint>& points) {
  std::vector<PlotSeries> times, rates;
  for (const ScalePoint& point : points)
    for (const SimulatedRow& row : point.rows) {
      if (!row.why_not.empty()) continue;
      auto line = std::ranges::find(times, row.name(), &PlotSeries::name);
      if (line == times.end()) {
        times.push_back({row.name(), {}, {}, false, -1});
        rates.push_back(times.back());
        line = std::prev(times.end());
      }
      PlotSeries& rate = rates[static_cast<size_t>(line - times.begin())];
      line->x.push_back(point.options.query.n);
      rate.x.push_back(point.options.query.n);
      line->y.push_back(row.outcome().seconds * 1e6);
      rate.y.push_back(bandwidth_of(point.options, row.outcome().seconds).bus);
    }
  const PlotAxis ranks{"ranks", AxisUnit::number, 2};
  const char* note = points.front().options.faults.any() ? "With the faults." : "";
  report.add_plot({"Bus bandwidth by ranks", ranks, {"GB/s"}, rates, note});
  report.add_plot({"Time by ranks", ranks, {"time", AxisUnit::microseconds, 10}, times, note});
}

void add_rows(HtmlReport& report, const ScalePoint& point) {
  const bool faults = point.options.faults.any();
  std::vector<std::string> header{"algorithm", "segments", "messages", "time", "bus GB/s"};
  if (faults) header.insert(header.end(), {"with faults", "factor"});
  header.insert(header.end(), {"limit", "remark"});
  std::vector<std::vector<std::string>> rows;
  for (const SimulatedRow& row : point.rows) {
    auto& cells = rows.emplace_back();
    const bool known = row.why_not.empty();
    cells = {
        row.name(), fmt::to_string(row.segments), fmt::format("{:.0f}", row.messages),
        known ? print_time(row.healthy.seconds) : "-",
        known ? fmt::format("{:.4g}", bandwidth_of(point.options, row.healthy.seconds).bus) : "-"};
    if (faults)
      cells.insert(cells.end(),
                   {known ? print_time(row.outcome().seconds) : "-", known ? factor_of(row) : "-"});
    cells.emplace_back(known ? to_string(row.limit()) : "-");
    const char* const how = row.estimated                ? "estimated"
                            : row.one_host               ? "one host stands for all"
                            : !row.extended_from.empty() ? "extended from smaller groups"
                                                         : "";
    cells.push_back(!known        ? row.why_not
                    : !row.chosen ? how
                    : *how        ? fmt::format("the choice; {}", how)
                                  : "the choice");
  }
  report.add_table(header, rows);
}

// The links that the choice keeps busiest.
void add_links(HtmlReport& report, const ScalePoint& point) {
  const SimulatedRow* row = taken_of(point.rows);
  if (!row || row->outcome().links.empty()) return;
  const SimulateOptions& o = point.options;
  const Network network(o.machine, o.query.n, o.shape, o.faults);
  std::vector<ReportBar> bars;
  for (const LinkUse& use : row->outcome().links) {
    const double part = use.busy / row->outcome().seconds * 100;
    bars.push_back({network.name(use.link), part, fmt::format("{:.0f} %", part)});
  }
  report.add_bars(fmt::format("Busiest links of {}, part of its time", row->name()), bars);
}

void add_like(HtmlReport& report, const std::string& file) {
  if (file.empty()) return;
  report.add_heading("The cluster as it was measured");
  add_to_report(read_like_matrix(file), report);
}

Facts facts_of(const SimulatePage& page, const SimulateOptions& options) {
  Facts facts{{"network", network_line(options)}, {"parameters", page.parameters}};
  if (!page.like.empty()) facts.emplace_back("like", page.like);
  return facts;
}

}  // namespace

void require_page(const SimulatePage& page) {
  if (page.file.empty()) {
    if (!page.compare.empty())
      refuse("--compare shows measured results in the page of --html; give both");
    return;
  }
  const auto folder = std::filesystem::absolute(page.file).parent_path();
  if (::access(folder.c_str(), W_OK) != 0)
    refuse(fmt::format("--html: {} is not a folder that can be written to", folder.string()));
  read_all(page.compare, kAnyRanks);  // so that another file is told before anything is simulated
}

void write_html(const SimulatePage& page, const std::vector<ScalePoint>& points,
                const Progress& progress) {
  const ScalePoint& last = points.back();
  const SimulateOptions& options = last.options;
  std::vector<EarlierResults> measured = read_all(page.compare, options.query.n);
  std::erase_if(measured, [&](const EarlierResults& one) {
    return one.of.collective != to_string(options.query.collective);
  });
  Facts facts = facts_of(page, options);
  if (options.faults.any())
    facts.emplace_back("faults", fmt::format("{}", fmt::join(options.fault_texts, ", ")));
  facts.insert(facts.end(), {{"type", to_string(options.query.type)},
                             {"date", date_now()},
                             {"version", "ringwood " RINGWOOD_VERSION},
                             {"command", fmt::format("{}", fmt::join(command_line(), " "))}});
  HtmlReport report(
      {call_of(options) + ", simulated",
       fmt::format("{} on {}", counted(options.query.n, "rank"), counted(options.hosts, "host")),
       std::move(facts)});
  std::string verdict = advice(options, last.rows);
  verdict.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(verdict.front())));
  report.add_text(verdict + ".");
  if (!page.compare.empty() && measured.empty())
    report.add_text(
        fmt::format("No file of --compare has {}.", to_string(options.query.collective)),
        Tone::warning);
  add_bars(report, last, measured);
  if (points.size() > 1) add_scale(report, points);
  add_sizes(report, options, measured, progress);
  add_rows(report, last);
  add_links(report, last);
  add_like(report, page.like);
  report.write(page.file);
}

void write_html(const SimulatePage& page, const SimulateOptions& options,
                const ReplayReport& replay) {
  HtmlReport report =
      html_of(replay, facts_of(page, options), read_all(page.compare, options.query.n));
  add_like(report, page.like);
  report.write(page.file);
}

}  // namespace ringwood::tools
