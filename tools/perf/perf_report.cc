#include "tools/perf/perf_report.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "transports/base/error.h"
#include "transports/base/host.h"
#include "transports/bootstrap/net.h"

namespace ringwood::tools {
namespace {

constexpr const char* kCsvHead =
    "collective,ranks,bytes,count,dtype,op,time_us_best,time_us_median,algbw_gbs,busbw_gbs,cpu_"
    "percent,wrong,"
    "algorithm,segments,transports";

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  utsname name{};
  return uname(&name) == 0 ? name.machine : "unknown processor";
}

std::string load_average() {
  double loads[1] = {0};
  return ::getloadavg(loads, 1) == 1 ? fmt::format("{:.1f}", loads[0]) : "unknown";
}

// Four significant digits in a column of eight.
std::string micros(double us) {
  return us < 10 ? fmt::format("{:.3f}", us)
                 : fmt::format("{:.{}f}", us,
                               us < 1000     ? 2
                               : us < 100000 ? 1
                                             : 0);
}

std::string csv_line(const Row& r) {
  return fmt::format("{},{},{},{},{},{},{:.4f},{:.4f},{:.6g},{:.6g},{:.1f},{},{},{},{}\n",
                     r.collective, r.ranks, r.bytes, r.count, r.dtype, r.op, r.time_us_best,
                     r.time_us_median, r.algbw_gbs, r.busbw_gbs, r.cpu_percent,
                     r.wrong ? fmt::to_string(*r.wrong) : "", r.algorithm, r.segments,
                     r.transports);
}

nlohmann::ordered_json json_row(const Row& r) {
  nlohmann::ordered_json row = {{"collective", r.collective},
                                {"ranks", r.ranks},
                                {"bytes", r.bytes},
                                {"count", r.count},
                                {"dtype", r.dtype},
                                {"op", r.op},
                                {"time_us_best", r.time_us_best},
                                {"time_us_median", r.time_us_median},
                                {"algbw_gbs", r.algbw_gbs},
                                {"busbw_gbs", r.busbw_gbs},
                                {"cpu_percent", r.cpu_percent},
                                {"wrong", nullptr},
                                {"algorithm", r.algorithm},
                                {"segments", r.segments},
                                {"transports", r.transports}};
  if (r.wrong) row["wrong"] = *r.wrong;
  if (r.predicted_us) {
    row["predicted_us"] = *r.predicted_us;
    row["chosen"] = r.chosen;
  }
  return row;
}

}  // namespace

std::FILE* Report::open(const std::optional<std::string>& path, File& owner) {
  if (!path) return nullptr;
  if (*path == "-") return stdout;
  owner.reset(std::fopen(path->c_str(), "we"));
  if (owner == nullptr)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("cannot write {}: {}", *path, system_message("open")));
  return owner.get();
}

Report::Report(const ReportOptions& options, int ranks, const std::string& remarks)
    : terminal_(::isatty(STDERR_FILENO) == 1) {
  csv_ = open(options.csv, csv_file_);
  json_ = open(options.json, json_file_);
  table_ = csv_ == stdout || json_ == stdout ? stderr : stdout;
  fmt::print(table_, "# ringwood {} perf: {} rank{} on {}, {}, {} cores, load {}{}\n",
             RINGWOOD_VERSION, ranks, ranks == 1 ? "" : "s", host_name(), processor(),
             ::sysconf(_SC_NPROCESSORS_ONLN), load_average(), remarks);
  if (csv_ != nullptr) fmt::print(csv_, "{}\n", kCsvHead);
}

Report::~Report() { erase_progress(); }

void Report::begin(const std::string& collective) {
  erase_progress();
  fmt::print(table_, "# {}\n", collective);
  fmt::print(
      table_,
      "# {:>11} {:>12} {:>11} {:>10} {:>5} {:>9} {:>8} {:>8} {:>6} {:>9}  {:<17} {:>8}  {}\n",
      "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "median",
      "algorithm", "segments", "transports");
  fmt::print(table_, "# {:>11} {:>12} {:>11} {:>10} {:>5} {:>9} {:>8} {:>8} {:>6} {:>9}\n", "(B)",
             "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)");
  std::fflush(table_);
}

void Report::add(const Row& r) {
  erase_progress();
  rows_.push_back(r);
  fmt::print(table_,
             "{} {:>11} {:>12} {:>11} {:>10} {:>5} {:>9} {:>8.2f} {:>8.2f} {:>6} {:>9}  {:<17} "
             "{:>8}  {}{}\n",
             r.chosen ? '*' : ' ', r.bytes, r.count, r.dtype, r.op, r.root, micros(r.time_us_best),
             r.algbw_gbs, r.busbw_gbs, r.wrong ? fmt::to_string(*r.wrong) : "N/A",
             micros(r.time_us_median), r.algorithm, r.segments, r.transports,
             r.predicted_us ? fmt::format("  predicted {}", micros(*r.predicted_us)) : "");
  std::fflush(table_);
  if (csv_ != nullptr) {
    fmt::print(csv_, "{}", csv_line(r));
    std::fflush(csv_);
  }
}

void Report::progress(const std::string& text) {
  if (!terminal_) return;
  fmt::print(stderr, "\r\033[K{}", text);
  std::fflush(stderr);
  progress_shown_ = true;
}

void Report::erase_progress() {
  if (progress_shown_) fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  progress_shown_ = false;
}

void Report::end(const std::vector<std::string>& fabric) {
  erase_progress();
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
  for (const std::string& port : fabric) fmt::print(table_, "# Fabric, this host : {}\n", port);
  std::fflush(table_);
  if (json_ == nullptr) return;
  nlohmann::ordered_json all = {{"version", RINGWOOD_VERSION},
                                {"host", host_name()},
                                {"fabric", fabric},
                                {"rows", nlohmann::ordered_json::array()}};
  for (const Row& row : rows_) all["rows"].push_back(json_row(row));
  fmt::print(json_, "{}\n", all.dump(2));
  std::fflush(json_);
}

}  // namespace ringwood::tools
