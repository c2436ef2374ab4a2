#include "tools/perf/perf_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/counted.h"
#include "tools/perf/perf_environment.h"
#include "transports/base/error.h"
#include "transports/base/host.h"

namespace ringwood::tools {
namespace {

constexpr const char* kCsvHead =
    "collective,ranks,bytes,count,dtype,op,time_us_best,time_us_median,algbw_gbs,busbw_gbs,cpu_"
    "percent,wrong,algorithm,segments,transports,time_us_p50,time_us_p99,samples,slowest_rank,"
    "skew_us_p50,skew_us_p99,last_rank,last_rank_us,clock_error_us,predicted_us,limit_us,"
    "limit_percent,cpu_s_per_gb,root,rank_us";

std::string or_nothing(const std::optional<double>& value) {
  return value ? fmt::format("{:.6g}", *value) : "";
}

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

std::string csv_line(const Row& r) {
  const Spread& s = r.times.spread;
  return fmt::format(
      "{},{},{},{},{},{},{:.4f},{:.4f},{:.6g},{:.6g},{:.1f},{},{},{},{},{:.4f},{:.4f},{},{},{:.4f},"
      "{:.4f},{},{:.4f},{:.4f},{},{},{},{:.6g},{},{:.4f}\n",
      r.collective, r.ranks, r.bytes, r.count, r.dtype, r.op, r.times.best_us, r.times.median_us,
      r.algbw_gbs, r.busbw_gbs, r.times.cpu_percent, r.wrong ? fmt::to_string(*r.wrong) : "",
      r.algorithm, r.segments, r.transports, s.p50_us, s.p99_us, s.samples, r.slowest_rank(),
      s.skew_p50_us, s.skew_p99_us, s.last_rank, s.last_rank_us, s.clock_error_us,
      or_nothing(r.predicted_us), or_nothing(r.limit_us), or_nothing(r.limit_percent()),
      r.cpu_s_per_gb(), r.root, fmt::join(r.times.rank_us, ";"));
}

nlohmann::ordered_json json_row(const Row& r) {
  const Spread& s = r.times.spread;
  nlohmann::ordered_json row = {{"collective", r.collective},
                                {"ranks", r.ranks},
                                {"bytes", r.bytes},
                                {"count", r.count},
                                {"dtype", r.dtype},
                                {"op", r.op},
                                {"time_us_best", r.times.best_us},
                                {"time_us_median", r.times.median_us},
                                {"algbw_gbs", r.algbw_gbs},
                                {"busbw_gbs", r.busbw_gbs},
                                {"cpu_percent", r.times.cpu_percent},
                                {"wrong", nullptr},
                                {"algorithm", r.algorithm},
                                {"segments", r.segments},
                                {"transports", r.transports},
                                {"time_us_p50", s.p50_us},
                                {"time_us_p99", s.p99_us},
                                {"samples", s.samples},
                                {"slowest_rank", r.slowest_rank()},
                                {"skew_us_p50", s.skew_p50_us},
                                {"skew_us_p99", s.skew_p99_us},
                                {"last_rank", s.last_rank},
                                {"last_rank_us", s.last_rank_us},
                                {"clock_error_us", s.clock_error_us},
                                {"predicted_us", or_null(r.predicted_us)},
                                {"limit_us", or_null(r.limit_us)},
                                {"limit_percent", or_null(r.limit_percent())},
                                {"cpu_s_per_gb", r.cpu_s_per_gb()},
                                {"root", r.root},
                                {"rank_us", r.times.rank_us}};
  if (r.wrong) row["wrong"] = *r.wrong;
  if (r.compared) row["chosen"] = r.chosen;
  return row;
}

nlohmann::ordered_json json_of(const Counters& counters) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [device, values] : counters) json[device] = values;
  return json;
}

// Those that nccl-tests has come first, in its order.
std::vector<TableColumn> columns() {
  return {
      {"size", "(B)", 11, 0},
      {"count", "(elements)", 12, 19},
      {"type", "", 11, 10},
      {"redop", "", 10, 14},
      {"root", "", 5, 20},
      {"time", "(us)", 9, 0},
      {"algbw", "(GB/s)", 8, 5},
      {"busbw", "(GB/s)", 8, 0},
      {"#wrong", "", 6, 0},
      {"median", "(us)", 9, 4},
      {"p50", "(us)", 9, 12},
      {"p99", "(us)", 9, 1},
      {"skew", "(us)", 8, 9},
      {"last", "rank", 5, 15},
      {"slowest", "rank", 7, 8},
      {"predicted", "(us)", 9, 6},
      {"limit", "(%)", 6, 2},
      {"cpu", "(s/GB)", 8, 11},
      {"algorithm", "", -22, 0, "  "},
      {"segments", "", 8, 18},
      {"transports", "", -10, 7, "  "},
  };
}

std::vector<std::string> cells_of(const Row& r) {
  const Spread& s = r.times.spread;
  const auto limit = r.limit_percent();
  return {fmt::to_string(r.bytes),
          fmt::to_string(r.count),
          r.dtype,
          r.op,
          fmt::to_string(r.root),
          micros(r.times.best_us),
          fmt::format("{:.2f}", r.algbw_gbs),
          fmt::format("{:.2f}", r.busbw_gbs),
          r.wrong ? fmt::to_string(*r.wrong) : "N/A",
          micros(r.times.median_us),
          micros(s.p50_us),
          micros(s.p99_us),
          micros(s.skew_p50_us),
          fmt::to_string(s.last_rank),
          fmt::to_string(r.slowest_rank()),
          r.predicted_us ? micros(*r.predicted_us) : "-",
          limit ? fmt::format("{:.0f}", *limit) : "-",
          fmt::format("{:.3g}", r.cpu_s_per_gb()),
          r.algorithm,
          fmt::to_string(r.segments),
          r.transports};
}

}  // namespace

std::string head_of_report(int ranks) {
  return fmt::format("ringwood {} perf: {} on {}, {}, {} cores, load {}", RINGWOOD_VERSION,
                     counted(ranks, "rank"), host_name(), processor_name(),
                     ::sysconf(_SC_NPROCESSORS_ONLN), load_average());
}

nlohmann::ordered_json environment_json(int ranks) {
  return {{"ranks", ranks},
          {"processor", processor_name()},
          {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"load", load_average()},
          {"date", date_now()},
          {"command", fmt::format("{}", fmt::join(command_line(), " "))}};
}

nlohmann::ordered_json json_of(const std::vector<HostCounters>& hosts) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const HostCounters& one : hosts)
    list.push_back({{"host", one.host},
                    {"ranks", one.ranks},
                    {"counters", json_of(one.risen)},
                    {"traffic", json_of(one.traffic)}});
  return list;
}

std::vector<std::string> lines_of(const std::vector<HostCounters>& hosts) {
  std::vector<std::string> lines;
  for (const HostCounters& one : hosts)
    if (const std::string carried = line_of_traffic(one.traffic); !carried.empty())
      lines.push_back(fmt::format("Traffic of {}: {}", one.host, carried));
  for (const HostCounters& one : hosts)
    for (const std::string& risen : lines_of(one.risen))
      lines.push_back(fmt::format("Counters of {}: {}", one.host, risen));
  return lines;
}

std::string micros(double us) {
  return us < 10 ? fmt::format("{:.3f}", us)
                 : fmt::format("{:.{}f}", us,
                               us < 1000     ? 2
                               : us < 100000 ? 1
                                             : 0);
}

int Row::slowest_rank() const {
  const auto slowest = std::ranges::max_element(times.rank_us);
  return slowest == times.rank_us.end() ? -1 : static_cast<int>(slowest - times.rank_us.begin());
}

double Row::cpu_s_per_gb() const {
  return bytes == 0 ? 0 : times.cpu_us * 1e3 / static_cast<double>(bytes);
}

std::optional<double> Row::limit_percent() const {
  if (!limit_us || times.best_us <= 0) return std::nullopt;
  return *limit_us / times.best_us * 100;
}

double Row::bus_gbs_at(double us) const {
  return us > 0 ? static_cast<double>(bytes) / us / 1e3 * bus_factor : NAN;
}

Report::Report(const ReportOptions& options, int ranks, const std::string& remarks)
    : ranks_(ranks),
      csv_("--csv", options.csv),
      json_("--json", options.json),
      table_(csv_.is_standard_output() || json_.is_standard_output() ? stderr : stdout),
      lines_(table_, columns()) {
  fmt::print(
      table_,
      "# {}{}\n# time, median, slowest: of batches without instruments; p50, p99, skew, last: "
      "of single operations after them\n",
      head_of_report(ranks), remarks);
  if (const std::string left = lines_.left_out(); !left.empty()) fmt::print(table_, "# {}\n", left);
  if (csv_) fmt::print(csv_.stream(), "{}\n", kCsvHead);
}

void Report::begin(const std::string& collective) {
  progress_.erase();
  fmt::print(table_, "# {}\n", collective);
  lines_.write_head();
  std::fflush(table_);
}

void Report::add(const Row& r) {
  progress_.erase();
  rows_.push_back(r);
  lines_.write_row(r.chosen ? '*' : ' ', cells_of(r));
  std::fflush(table_);
  if (csv_) {
    fmt::print(csv_.stream(), "{}", csv_line(r));
    std::fflush(csv_.stream());
  }
}

void Report::remark(const std::string& text) {
  progress_.erase();
  fmt::print(table_, "# {}\n", text);
  std::fflush(table_);
}

void Report::write_totals(const RunFacts& facts) {
  int64_t wrong = 0;
  double bandwidth = 0;
  bool checked = false;
  for (const Row& row : rows_) {
    checked |= row.wrong.has_value();
    wrong += row.wrong.value_or(0);
    bandwidth += row.busbw_gbs;
  }
  fmt::print(table_, "# Out of bounds values : {}\n",
             checked ? fmt::format("{} {}", wrong, wrong == 0 ? "OK" : "FAILED") : "not checked");
  fmt::print(table_, "# Avg bus bandwidth    : {:.4g}\n",
             rows_.empty() ? 0 : bandwidth / static_cast<double>(rows_.size()));
  if (facts.link_rate > 0)
    fmt::print(table_, "# Between hosts        : {:.4g} GB/s each way, of the slowest host\n",
               facts.link_rate / 1e9);
  for (const std::string& line : lines_of(facts.hosts)) fmt::print(table_, "# {}\n", line);
  std::fflush(table_);
}

void Report::write_json(const RunFacts& facts) {
  nlohmann::ordered_json copies = nlohmann::ordered_json::object();
  for (const auto& [bytes, rate] : facts.copy_rates) copies[fmt::to_string(bytes)] = rate / 1e9;
  std::vector<std::string> fabric;  // of this host
  if (!facts.hosts.empty()) fabric = lines_of(rdma_only(facts.hosts.front().risen));
  nlohmann::ordered_json all = {
      {"version", RINGWOOD_VERSION},
      {"host", host_name()},
      {"environment", environment_json(ranks_)},
      {"fabric", fabric},
      {"hosts", json_of(facts.hosts)},
      {"limits", {{"link_gbs", facts.link_rate / 1e9}, {"copy_gbs", std::move(copies)}}},
      {"failed", facts.failed},
      {"rows", nlohmann::ordered_json::array()}};
  for (const Row& row : rows_) all["rows"].push_back(json_row(row));
  fmt::print(json_.stream(), "{}\n",
             all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  std::fflush(json_.stream());
}

void Report::end(const RunFacts& facts) {
  progress_.erase();
  write_totals(facts);
  if (json_) write_json(facts);
}

}  // namespace ringwood::tools
