#include <cmath>

#include <fmt/format.h>

#include "tools/matrix/matrix_report.h"
#include "tools/matrix/solve.h"

namespace ringwood::tools {
namespace {

// In this unit; what was not measured is an empty cell.
HeatMap heat_map(const std::string& title, const std::vector<std::string>& names,
                 const Table& table, double one, const char* unit) {
  HeatMap map{title, names, names, table, unit, "", false};
  for (auto& row : map.values)
    for (double& value : row) value = value > 0 ? value / one : std::nan("");
  return map;
}

void add_rates(HtmlReport& report, const std::string& title, const std::vector<std::string>& names,
               const Table& table) {
  if (table.empty()) return;
  const double usual = median_rate(table);
  HeatMap map =
      heat_map(title, names, table, usual >= 1e9 ? 1e9 : 1e6, usual >= 1e9 ? "GB/s" : "MB/s");
  map.note = fmt::format("rows send to columns; median {}", print_rate(usual));
  report.add_heat_map(map);
}

void add_rails(const Matrix& matrix, HtmlReport& report) {
  const RailMatrix& rails = matrix.rail_by_rail;
  if (rails.all.empty()) return;
  std::vector<std::string> names;
  for (const HostMatrix& rail : matrix.rails) names.push_back(rail.rail);
  report.add_heading("Rail by rail");
  add_rates(report, "From a rail to a rail of another host, alone", names, rails.cross);
  add_rates(report, "A rail (row) while another one (column) is busy too", names, rails.pair);
  std::vector<ReportBar> bars;
  for (size_t i = 0; i < names.size(); ++i)
    bars.push_back(
        {names[i], rails.all[i] / 1e6,
         fmt::format("{}, alone {}", print_rate(rails.all[i]), print_rate(rails.cross[i][i]))});
  report.add_bars("All rails at once", bars);
}

}  // namespace

void add_to_report(const Matrix& matrix, HtmlReport& report) {
  const auto missing = not_measured(matrix);
  if (matrix.slow.empty() && missing.empty()) report.add_text("Nothing is slow.", Tone::good);
  for (const std::string& note : matrix.notes) report.add_text(note, Tone::bad);
  if (!missing.empty())
    report.add_text(fmt::format("Not measured, {} of them, the first one {}: {}.", missing.size(),
                                missing[0], kRemedy),
                    Tone::bad);
  for (const SlowPath& slow : matrix.slow)
    report.add_text("Slow: " + describe(matrix, slow), Tone::bad);
  for (const HostMatrix& rail : matrix.rails) {
    if (!rail.rail.empty()) report.add_heading(rail.rail);
    add_rates(report, "Rate of each pair alone", matrix.hosts, rail.alone);
    add_rates(report, "Rate of disjoint pairs at once, both directions", matrix.hosts, rail.pairs);
    add_rates(report, "Rate while all send to all", matrix.hosts, rail.all);
    HeatMap latency = heat_map("Latency, one way", matrix.hosts, rail.latency, 1e-6, "us");
    latency.low_is_good = true;
    report.add_heat_map(latency);
  }
  add_rails(matrix, report);
}

void write_html(const Matrix& matrix, const std::string& file) {
  size_t ranks = 0;
  for (const int of_host : matrix.ranks) ranks += static_cast<size_t>(of_host);
  HtmlReport report({"Every pair of hosts",
                     fmt::format("{} hosts, {} ranks", matrix.hosts.size(), ranks),
                     {{"transport", matrix.rails[0].transport},
                      {"measured in", print_time(matrix.seconds)},
                      {"version", "ringwood " RINGWOOD_VERSION}}});
  add_to_report(matrix, report);
  report.write(file);
}

}  // namespace ringwood::tools
