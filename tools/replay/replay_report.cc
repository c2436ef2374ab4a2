#include "tools/replay/replay_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/kernels/types.h"
#include "tools/matrix/matrix_report.h"

namespace ringwood::tools {
namespace {

using Json = nlohmann::ordered_json;

double middle_of(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string cell(double seconds) { return std::isnan(seconds) ? "-" : print_time(seconds); }

Json micros_or_null(double seconds) {
  return std::isnan(seconds) ? Json(nullptr) : Json(seconds * 1e6);
}

// "with faults" -> "with_faults"
std::string key_of(const ReplayColumn& column) {
  std::string key = column.name;
  std::ranges::replace(key, ' ', '_');
  return key;
}

std::string type_of(const RecordedCall& call) {
  if (!moves_data(call.collective)) return "-";
  return reduces(call.collective) ? fmt::format("{} {}", to_string(call.type), to_string(call.op))
                                  : to_string(call.type);
}

std::string row_of(const ReplayReport& report, size_t kind) {
  const auto& [call, count] = report.run->kinds[kind];
  std::string line = fmt::format("  {:>12} {:<15} {:<16} {:<22} {:>8} {:>6}", call.bytes,
                                 to_string(call.collective), type_of(call), report.algorithms[kind],
                                 report.segments[kind], count);
  for (const ReplayColumn& column : report.columns)
    line += fmt::format(" {:>12} {:>12}", cell(column.kinds[kind]), cell(column.sums[kind]));
  line += fmt::format(" {:>7.2f}", report.columns.back().sums[kind] /
                                       std::max(report.columns.front().sums[kind], 1e-12));
  if (report.wrong) line += fmt::format(" {:>6}", (*report.wrong)[kind]);
  return line + (report.why_not[kind].empty() ? "" : "  " + report.why_not[kind]) + "\n";
}

std::string total_of(const ReplayReport& report, const char* what,
                     double (*value)(const ReplayColumn&)) {
  std::string line = fmt::format("# {:<84}", what);
  for (const ReplayColumn& column : report.columns)
    line += fmt::format(" {:>12} {:>12}", "", cell(value(column)));
  const double first = value(report.columns.front());
  return line +
         (first > 0 ? fmt::format(" {:>7.2f}\n", value(report.columns.back()) / first) : "\n");
}

}  // namespace

ReplayColumn column_of(const RecordedRun& run, std::string name,
                       const std::vector<double>& seconds) {
  ReplayColumn column{std::move(name), {}, std::vector<double>(run.kinds.size()), seconds, 0, 0};
  std::vector<std::vector<double>> by_kind(run.kinds.size());
  for (size_t i = 0; i < seconds.size(); ++i) {
    const size_t kind = run.calls[i];
    if (std::isnan(seconds[i]))
      column.each[i] = run.times[i].seconds;
    else
      by_kind[kind].push_back(seconds[i]);
    column.sums[kind] += column.each[i];
  }
  for (std::vector<double>& values : by_kind) column.kinds.push_back(middle_of(std::move(values)));
  column.calls = std::accumulate(column.sums.begin(), column.sums.end(), 0.0);
  column.run = run_seconds(run.times, column.each);
  return column;
}

ReplayColumn recorded_column(const RecordedRun& run) {
  std::vector<double> seconds;
  for (const CallTime& time : run.times) seconds.push_back(time.seconds);
  return column_of(run, "recorded", seconds);
}

std::vector<size_t> by_cost(const ReplayReport& report) {
  std::vector<size_t> order(report.run->kinds.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>{},
                           [&](size_t kind) { return report.columns.front().sums[kind]; });
  return order;
}

std::string verdict_of(const ReplayReport& report) {
  const bool faults = !report.faults.empty();
  const ReplayColumn &recorded = report.columns.front(), &last = report.columns.back();
  const ReplayColumn& now = faults ? report.columns[report.columns.size() - 2] : last;
  size_t most = 0;
  const auto change = [&](size_t kind) { return now.sums[kind] - recorded.sums[kind]; };
  for (size_t kind = 1; kind < report.run->kinds.size(); ++kind)
    if (std::abs(change(kind)) > std::abs(change(most))) most = kind;
  std::string text = fmt::format(
      "all calls took {} recorded, {} {}: {:.2f} times as long; most of the difference is in "
      "{}, {} {}",
      print_time(recorded.calls), print_time(now.calls), now.name,
      now.calls / std::max(recorded.calls, 1e-12), name_of(report.run->kinds[most].call),
      print_time(std::abs(change(most))), change(most) > 0 ? "more" : "less");
  if (faults)
    text +=
        fmt::format("; the faults make the whole run {:.2f} times as long, {} instead of {}",
                    last.run / std::max(now.run, 1e-12), print_time(last.run), print_time(now.run));
  return text;
}

std::string print_table(const ReplayReport& report) {
  const RecordedRun& run = *report.run;
  std::string text = fmt::format(
      "# ringwood {} {} --replay {}: {} calls of group {} of {} ranks, replayed on {}\n",
      RINGWOOD_VERSION, report.command, run.source, run.calls.size(), run.group, run.ranks,
      report.place);
  for (const auto* notes : {&run.notes, &report.notes})
    for (const std::string& note : *notes) text += "# " + note + "\n";
  if (!report.faults.empty()) text += fmt::format("# faults: {}\n", fmt::join(report.faults, ", "));
  text += fmt::format("# {:>12} {:<15} {:<16} {:<22} {:>8} {:>6}", "size (B)", "collective", "type",
                      "algorithm", "segments", "count");
  for (const ReplayColumn& column : report.columns)
    text += fmt::format(" {:>12} {:>12}", column.name, "sum");
  text += fmt::format(" {:>7}{}\n", "factor", report.wrong ? " #wrong" : "");
  for (const size_t kind : by_cost(report)) text += row_of(report, kind);
  text += total_of(report, "all calls", [](const ReplayColumn& c) { return c.calls; });
  if (report.pauses) {
    text += total_of(report, "pauses, in which ranks computed",
                     [](const ReplayColumn& c) { return std::max(0.0, c.run - c.calls); });
    text += total_of(report, "the whole run", [](const ReplayColumn& c) { return c.run; });
  }
  return text + "# " + verdict_of(report) + "\n";
}

std::string print_json(const ReplayReport& report) {
  const RecordedRun& run = *report.run;
  Json json = {{"version", RINGWOOD_VERSION}, {"replay", run.source},  {"group", run.group},
               {"recorded_ranks", run.ranks}, {"place", report.place}, {"calls", run.calls.size()},
               {"faults", report.faults},     {"notes", run.notes},    {"rows", Json::array()},
               {"totals", Json::object()}};
  for (const std::string& note : report.notes) json["notes"].push_back(note);
  for (size_t kind = 0; kind < run.kinds.size(); ++kind) {
    const auto& [call, count] = run.kinds[kind];
    Json row = {{"collective", to_string(call.collective)},
                {"bytes", call.bytes},
                {"dtype", moves_data(call.collective) ? to_string(call.type) : "none"},
                {"op", reduces(call.collective) ? to_string(call.op) : "none"},
                {"root", has_root(call.collective) ? call.root : -1},
                {"count", count},
                {"recorded_algorithm", call.algorithm},
                {"recorded_segments", call.segments},
                {"algorithm", report.algorithms[kind]},
                {"segments", report.segments[kind]},
                {"why_not", report.why_not[kind]}};
    for (const ReplayColumn& column : report.columns) {
      row[key_of(column) + "_us"] = micros_or_null(column.kinds[kind]);
      row[key_of(column) + "_sum_us"] = column.sums[kind] * 1e6;
    }
    if (report.wrong) row["wrong"] = (*report.wrong)[kind];
    json["rows"].push_back(std::move(row));
  }
  for (const ReplayColumn& column : report.columns)
    json["totals"][key_of(column)] = {{"calls_us", column.calls * 1e6},
                                      {"pauses_us", std::max(0.0, column.run - column.calls) * 1e6},
                                      {"run_us", column.run * 1e6}};
  json["verdict"] = verdict_of(report);
  return json.dump(2);
}

}  // namespace ringwood::tools
