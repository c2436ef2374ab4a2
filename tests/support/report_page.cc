// A page with everything that a report can have, on standard output: texts that try to be markup
// and scripts, gaps in the data, axes of each kind, few and many cells.
#include <cmath>
#include <cstdio>
#include <limits>

#include "tools/report/html_report.h"

using namespace ringwood::tools;

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

ReportPlot bandwidth() {
  ReportPlot plot{"bus bandwidth by size",
                  {"size", AxisUnit::bytes, 2},
                  {"GB/s", AxisUnit::number, 0},
                  {},
                  "dashed: predicted"};
  for (int line = 0; line < 4; ++line) {
    PlotSeries measured{"algorithm " + std::to_string(line), {}, {}, false, line};
    PlotSeries predicted{"predicted " + std::to_string(line), {}, {}, true, line};
    for (int e = 3; e <= 26; ++e) {
      const double size = std::pow(2.0, e), gbs = size / (2e-6 + size / (10e9 - 2e9 * line)) / 1e9;
      measured.x.push_back(size);
      measured.y.push_back(line == 1 && e == 12 ? kNone : gbs);
      if (e % 2 == 0) {
        predicted.x.push_back(size);
        predicted.y.push_back(gbs * 0.93);
      }
    }
    plot.series.push_back(measured);
    plot.series.push_back(predicted);
  }
  return plot;
}

ReportPlot latency() {
  PlotSeries series{"</script><script>document.title='hacked'</script>", {}, {}, false, -1};
  for (int e = 3; e <= 26; ++e) {
    series.x.push_back(std::pow(2.0, e));
    series.y.push_back(e == 3 ? 0 : 2 + series.x.back() / 1e4);
  }
  return {"time by size",
          {"size", AxisUnit::bytes, 2},
          {"time", AxisUnit::microseconds, 10},
          {series},
          ""};
}

HeatMap matrix(int hosts) {
  HeatMap map{"host by host", {}, {}, {}, "GB/s", "one slow pair", false};
  for (int r = 0; r < hosts; ++r) {
    map.row_names.push_back("host" + std::to_string(r));
    map.column_names.push_back("host" + std::to_string(r));
    map.values.emplace_back();
    for (int c = 0; c < hosts; ++c)
      map.values.back().push_back(r == c             ? kNone
                                  : r == 1 && c == 2 ? 3.1
                                                     : 11.5 + 0.1 * ((r * 7 + c * 3) % 9));
  }
  return map;
}

}  // namespace

int main() {
  HtmlReport report(
      {"All-reduce & <b>friends</b>",
       "8 ranks on 4 hosts",
       {{"hosts", "4 x Xeon \"Gold\""}, {"bytes", std::string("bad \xff\xfe utf-8")}}});
  report.add_heading("Bandwidth");
  report.add_text("All is well: 11.4 GB/s, 92 % of the port's rate.", Tone::good);
  report.add_text("host2 answers slowly <img src=http://127.0.0.1:9/a.png onerror=alert(1)>",
                  Tone::warning);
  report.add_plot(bandwidth());
  report.add_plot(latency());
  report.add_plot({"nothing", {"x"}, {"y"}, {{"empty", {}, {}, false, -1}}, ""});
  report.add_plot({"one point", {"x"}, {"y"}, {{"alone", {3}, {7}, false, -1}}, ""});
  report.add_heat_map(matrix(4));
  report.add_heat_map(matrix(40));
  report.add_bars("The ladder", {{"port", 12.5, ""}, {"verbs", 11.9, ""}, {"link", 10.2, "10.2"}});
  report.add_table({"size", "algorithm", "time"}, {{"8", "ring", "1.2"}, {"1024", "<i>", "2.5"}});
  return std::puts(report.text().c_str()) < 0;
}
