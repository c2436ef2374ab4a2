#include "tools/perf/soak/soak_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "tools/counted.h"
#include "tools/perf/perf_environment.h"
#include "transports/base/host.h"

namespace ringwood::tools {
namespace {

// On a terminal the head has scrolled away after so many lines.
constexpr int kLinesBetweenHeads = 20;

constexpr const char* kCsvHead =
    "date,at_s,collective,ranks,bytes,count,dtype,op,root,operations,time_us_p50,time_us_p99,time_"
    "us_worst,busbw_gbs,wrong,skew_us_p50,last_rank,slowest_rank,worst_so_far_us,worst_so_far_at_s,"
    "counters,algorithm,segments,transports";

std::vector<TableColumn> columns() {
  return {
      {"at", "(h:m:s)", 9, 0},   {"collective", "", -14, 3, "  "},
      {"size", "(B)", 11, 0},    {"type", "", 9, 15},
      {"redop", "", 6, 16},      {"root", "", 5, 19},
      {"operations", "", 11, 5}, {"p50", "(us)", 9, 0},
      {"p99", "(us)", 9, 1},     {"worst", "(us)", 9, 0},
      {"busbw", "(GB/s)", 8, 2}, {"#wrong", "", 6, 0},
      {"skew", "(us)", 8, 9},    {"last", "rank", 5, 10},
      {"slowest", "rank", 7, 8}, {"so far", "(us)", 9, 0},
      {"when", "(h:m:s)", 9, 4}, {"algorithm", "", -22, 7, "  "},
      {"segments", "", 8, 18},   {"transports", "", -10, 11, "  "},
  };
}

// What a line shows of an interval, and of all of them.
struct Line {
  const Row& call;
  const Histogram &times, &skews;
  double at_s;
  std::optional<int64_t> wrong;
  int last_rank, slowest_rank;
  double worst_s, worst_at_s;  // so far
};

std::vector<std::string> cells_of(const Line& line) {
  const double p50 = line.times.percentile_s(50) * 1e6;
  const Row& call = line.call;
  return {print_duration(line.at_s),
          call.collective,
          fmt::to_string(call.bytes),
          call.dtype,
          call.op,
          fmt::to_string(call.root),
          fmt::to_string(line.times.count()),
          micros(p50),
          micros(line.times.percentile_s(99) * 1e6),
          micros(line.times.longest_s() * 1e6),
          fmt::format("{:.2f}", call.bus_gbs_at(p50)),
          line.wrong ? fmt::to_string(*line.wrong) : "N/A",
          micros(line.skews.percentile_s(50) * 1e6),
          fmt::to_string(line.last_rank),
          fmt::to_string(line.slowest_rank),
          micros(line.worst_s * 1e6),
          print_duration(line.worst_at_s),
          call.algorithm,
          fmt::to_string(call.segments),
          call.transports};
}

bool same_call(const Row& a, const Row& b) {
  return a.collective == b.collective && a.bytes == b.bytes && a.dtype == b.dtype && a.op == b.op &&
         a.root == b.root;
}

int most_often(const std::map<int, int>& intervals) {
  const auto most =
      std::ranges::max_element(intervals, {}, [](const auto& one) { return one.second; });
  return most == intervals.end() ? -1 : most->first;
}

// "host/tcp/RetransSegs=+2;..."
std::string counters_text(const std::vector<HostCounters>& hosts) {
  std::vector<std::string> all;
  for (const HostCounters& host : hosts)
    for (const auto& [device, counters] : host.risen)
      for (const auto& [counter, rise] : counters)
        all.push_back(fmt::format("{}/{}/{}=+{}", host.host, device, counter, rise));
  return fmt::format("{}", fmt::join(all, ";"));
}

}  // namespace

std::string print_duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

SoakReport::SoakReport(const ReportOptions& options, int ranks, const std::string& remarks,
                       int tables, double interval_s)
    : ranks_(ranks),
      csv_("--csv", options.csv),
      json_("--json", options.json),
      table_(csv_.is_standard_output() || json_.is_standard_output() ? stderr : stdout),
      lines_(table_, columns()),
      terminal_(::isatty(::fileno(table_)) == 1),
      started_(date_now()) {
  fmt::print(table_, "# {}{}\n# from {}, {}, a line every {:g} s; Ctrl-C ends it with the totals\n",
             head_of_report(ranks), remarks, started_,
             tables == 0 ? "until stopped" : "the table " + counted(tables, "time"), interval_s);
  if (const std::string left = lines_.left_out(); !left.empty()) fmt::print(table_, "# {}\n", left);
  lines_.write_head();
  std::fflush(table_);
  if (csv_) fmt::print(csv_.stream(), "{}\n", kCsvHead);
}

void SoakReport::remark(const std::string& text) {
  fmt::print(table_, "# {}\n", text);
  std::fflush(table_);
}

void SoakReport::add(const SoakInterval& interval) {
  auto total = std::ranges::find_if(
      totals_, [&](const Total& one) { return same_call(one.call, interval.call); });
  if (total == totals_.end())
    total = totals_.insert(total, Total{interval.call, {}, {}, {}, {}, {}, 0, 0});
  if (interval.times.longest_s() > total->times.longest_s()) total->worst_at_s = interval.ended_s;
  total->call = interval.call;  // a link may have a fallback now
  total->times.add(interval.times);
  total->skews.add(interval.skews);
  ++total->last[interval.last_rank];
  ++total->slowest[interval.slowest_rank];
  ++total->intervals;
  if (interval.wrong) total->wrong = total->wrong.value_or(0) + *interval.wrong;
  if (terminal_ && intervals_ > 0 && intervals_ % kLinesBetweenHeads == 0) lines_.write_head();
  ++intervals_;
  lines_.write_row(' ', cells_of({interval.call, interval.times, interval.skews, interval.ended_s,
                                  interval.wrong, interval.last_rank, interval.slowest_rank,
                                  total->times.longest_s(), total->worst_at_s}));
  for (const HostCounters& host : interval.hosts)
    for (const std::string& risen : lines_of(host.risen))
      fmt::print(table_, "# {} Counters of {}: {}\n", print_duration(interval.ended_s), host.host,
                 risen);
  std::fflush(table_);
  if (csv_) write_csv(interval, *total);
}

void SoakReport::write_csv(const SoakInterval& interval, const Total& total) {
  const Row& call = interval.call;
  const double p50 = interval.times.percentile_s(50) * 1e6;
  fmt::print(csv_.stream(),
             "{},{:.3f},{},{},{},{},{},{},{},{},{:.4f},{:.4f},{:.4f},{:.6g},{},{:.4f},{},{},{:.4f},"
             "{:.3f},{},{},{},{}\n",
             date_now(), interval.ended_s, call.collective, call.ranks, call.bytes, call.count,
             call.dtype, call.op, call.root, interval.times.count(), p50,
             interval.times.percentile_s(99) * 1e6, interval.times.longest_s() * 1e6,
             call.bus_gbs_at(p50), interval.wrong ? fmt::to_string(*interval.wrong) : "",
             interval.skews.percentile_s(50) * 1e6, interval.last_rank, interval.slowest_rank,
             total.times.longest_s() * 1e6, total.worst_at_s, counters_text(interval.hosts),
             call.algorithm, call.segments, call.transports);
  std::fflush(csv_.stream());
}

void SoakReport::write_totals(const SoakEnd& end) {
  int64_t operations = 0, wrong = 0;
  bool checked = false;
  for (const Total& total : totals_) {
    operations += total.times.count();
    wrong += total.wrong.value_or(0);
    checked |= total.wrong.has_value();
  }
  fmt::print(table_, "# {} after {}: {}, {}\n", end.stopped ? "Stopped" : "Ended",
             print_duration(end.seconds), counted(intervals_, "interval"),
             counted(operations, "operation"));
  for (const Total& total : totals_)
    lines_.write_row('#', cells_of({total.call, total.times, total.skews, end.seconds, total.wrong,
                                    most_often(total.last), most_often(total.slowest),
                                    total.times.longest_s(), total.worst_at_s}));
  fmt::print(table_, "# Out of bounds values : {}\n",
             checked ? fmt::format("{} {}", wrong, wrong == 0 ? "OK" : "FAILED") : "not checked");
  for (const std::string& line : lines_of(end.hosts)) fmt::print(table_, "# {}\n", line);
  std::fflush(table_);
}

void SoakReport::write_json(const SoakEnd& end) {
  nlohmann::ordered_json all = {{"version", RINGWOOD_VERSION},
                                {"host", host_name()},
                                {"environment", environment_json(ranks_)},
                                {"started", started_},
                                {"seconds", end.seconds},
                                {"stopped", end.stopped},
                                {"intervals", intervals_},
                                {"hosts", json_of(end.hosts)},
                                {"failed", end.failed},
                                {"totals", nlohmann::ordered_json::array()}};
  for (const Total& total : totals_) {
    const Row& call = total.call;
    const double p50 = total.times.percentile_s(50) * 1e6;
    nlohmann::ordered_json row = {{"collective", call.collective},
                                  {"ranks", call.ranks},
                                  {"bytes", call.bytes},
                                  {"count", call.count},
                                  {"dtype", call.dtype},
                                  {"op", call.op},
                                  {"root", call.root},
                                  {"intervals", total.intervals},
                                  {"operations", total.times.count()},
                                  {"time_us_p50", p50},
                                  {"time_us_p99", total.times.percentile_s(99) * 1e6},
                                  {"time_us_worst", total.times.longest_s() * 1e6},
                                  {"worst_at_s", total.worst_at_s},
                                  {"busbw_gbs", nullptr},
                                  {"wrong", nullptr},
                                  {"skew_us_p50", total.skews.percentile_s(50) * 1e6},
                                  {"last_rank", most_often(total.last)},
                                  {"slowest_rank", most_often(total.slowest)},
                                  {"algorithm", call.algorithm},
                                  {"segments", call.segments},
                                  {"transports", call.transports}};
    if (call.bytes > 0) row["busbw_gbs"] = call.bus_gbs_at(p50);
    if (total.wrong) row["wrong"] = *total.wrong;
    all["totals"].push_back(std::move(row));
  }
  fmt::print(json_.stream(), "{}\n",
             all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  std::fflush(json_.stream());
}

void SoakReport::end(const SoakEnd& end) {
  write_totals(end);
  if (json_) write_json(end);
}

}  // namespace ringwood::tools
