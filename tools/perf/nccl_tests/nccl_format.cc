#include "tools/perf/nccl_tests/nccl_format.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <string_view>

#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

using nlohmann::ordered_json;

constexpr const char* kTestsVersion = "2.19.6";  // whose format this is
constexpr int kJsonVersion = 3;
constexpr const char* kTimeFormat = "%Y-%m-%d %H:%M:%S";

// As NCCL numbers its versions: 2.28.3 is 22803.
int version_number() {
  int major = 0, minor = 0, patch = 0;
  std::sscanf(RINGWOOD_VERSION, "%d.%d.%d", &major, &minor, &patch);
  return major * 10000 + minor * 100 + patch;
}

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), kTimeFormat, &parts);
  return text.data();
}

// As many decimals, at most two, as fit the width.
std::string fitted(double value, int width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = fmt::format("{:{}.{}f}", value, width, decimals);
    if (text.size() <= static_cast<size_t>(width)) return text;
  }
  return fmt::format("{:{}.{}e}", value, width, width >= 7 ? 1 : 0);
}

const char* quoted(bool value) { return value ? "true" : "false"; }

std::string printed(const ordered_json& json) {
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace);
}

// There, all of the environment; here what says how the run was set up, and no secrets.
ordered_json environment() {
  static constexpr std::string_view kOurs[] = {
      "RINGWOOD_", "NCCL_", "UCX_",   "OMPI_",  "PMI",         "SLURM_", "MPI",
      "OMP_",      "RANK=", "LOCAL_", "WORLD_", "MASTER_ADDR", "GLOO_"};
  ordered_json list = ordered_json::array();
  static constexpr std::string_view kSecret[] = {"JWT", "TOKEN", "SECRET", "PASSWORD", "_KEY"};
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view variable(*at);
    const std::string_view name = variable.substr(0, variable.find('='));
    if (std::ranges::any_of(kSecret,
                            [&](std::string_view part) { return name.find(part) != name.npos; }))
      continue;
    for (const std::string_view prefix : kOurs)
      if (variable.starts_with(prefix)) list.push_back(std::string(variable));
  }
  return list;
}

}  // namespace

NcclTestsReport::NcclTestsReport(NcclHead head, const NcclTestsOptions& options)
    : head_(std::move(head)), options_(options) {
  ordered_json head_of_json = open_json();
  const int number = version_number();
  fmt::print("# nccl-tests version {} nccl-headers={} nccl-library={}\n", kTestsVersion, number,
             number);
  fmt::print("# Collective test starting: {}\n", head_.program);
  const bool by_factor = options_.step_factor > 1;
  fmt::print(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg "
      "iters: {} validation: {} graph: 0 unalign: {}\n",
      options_.threads, options_.gpus, options_.min_bytes, options_.max_bytes,
      by_factor ? static_cast<size_t>(options_.step_factor) : options_.step_bytes,
      by_factor ? "factor" : "bytes", options_.warmup, options_.iters, options_.agg_iters,
      options_.checks, options_.unalign);
  fmt::print("# Measured by ringwood " RINGWOOD_VERSION ", in this format: buffers of the CPU\n");
  if (options_.blocking == 1)
    fmt::print("# Blocking Enabled: wait and barrier after each inner iteration (-m) \n");
  if (options_.blocking == 2)
    fmt::print("# Blocking Enabled: wait after each inner iteration (-m), no barrier \n");
  if (options_.blocking == 3)
    fmt::print(
        "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes "
        "barrier \n");
  if (options_.per_iter)
    fmt::print("# Per-Iteration Report: CPU clock timing; i_* uses max over process rows{} \n",
               options_.per_iter_skip > 0
                   ? fmt::format("; summary skips first {} iterations", options_.per_iter_skip)
                   : "");
  fmt::print("#\n");
  write_ranks(std::move(head_of_json));
  if (head_.reduced_bytes > 0)
    fmt::print("#\n# Reducing maxBytes to {} due to memory limitation\n", head_.reduced_bytes);
  write_column_heads();
  std::fflush(stdout);
}

ordered_json NcclTestsReport::open_json() {
  if (options_.output_file.empty()) return {};
  std::string path = options_.output_file;
  for (int tried = 0; !file_; ++tried) {
    file_.reset(std::fopen(path.c_str(), "wxe"));
    if (file_ == nullptr && errno != EEXIST)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("cannot write {}: {}", path, system_message("open")));
    if (file_ == nullptr) path = fmt::format("{}.{}", options_.output_file, tried);
  }
  fmt::print("# Writing JSON output to {}\n", path);
  return {{"version", kJsonVersion},
          {"start_time", now()},
          {"args", head_.arguments},
          {"env", environment()},
          {"nccl_version", version_number()}};
}

void NcclTestsReport::write_ranks(ordered_json head) {
  ordered_json config = {{"nthreads", options_.threads},
                         {"ngpus", options_.gpus},
                         {"minimum_bytes", options_.min_bytes},
                         {"maximum_bytes", options_.max_bytes}};
  if (options_.step_factor > 1)
    config["step_factor"] = options_.step_factor;
  else
    config["step_bytes"] = options_.step_bytes;
  config["warmup_iters"] = options_.warmup;
  config["iterations"] = options_.iters;
  config["aggregated_iterations"] = options_.agg_iters;
  config["validation"] = options_.checks;
  config["graph"] = 0;
  config["blocking_collectives"] = quoted(options_.blocking != 0);
  config["per_iter_timing"] = quoted(options_.per_iter);
  config["per_iter_skip"] = options_.per_iter_skip;
  config["parallel_init"] = quoted(false);
  ordered_json devices = ordered_json::array();
  fmt::print("# Using devices\n");
  for (const NcclRank& r : head_.ranks) {
    fmt::print("#  Rank {:2} Group  0 Pid {:6} on {:>10} device {:2} [0000:00:00] {}\n", r.rank,
               r.pid, r.host, r.device, r.processor);
    devices.push_back({{"rank", r.rank},
                       {"group", 0},
                       {"pid", r.pid},
                       {"hostname", r.host},
                       {"device", r.device},
                       {"device_hex", "0000:00:00"},
                       {"device_info", r.processor}});
  }
  config["devices"] = std::move(devices);
  head["config"] = std::move(config);
  begin_json(head);
}

// Written as it comes: a run without an end (-N 0) keeps nothing, and what it measured is there.
void NcclTestsReport::begin_json(const ordered_json& head) {
  if (!file_) return;
  std::string text = printed(head);
  text.resize(text.size() - std::strlen("\n}"));
  fmt::print(file_.get(), "{},\n \"results\": [", text);
}

void NcclTestsReport::write_column_heads() const {
  const char* const stamp = options_.timestamps ? "timestamp" : "";
  const char* const stamp_format = options_.timestamps ? kTimeFormat : "";
  const int width = options_.timestamps ? 19 : 0;
  const std::string side =
      fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", options_.cpu_time ? "cputime" : "time", "algbw",
                  "busbw", "#wrong");
  const std::string units =
      fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  std::string spread, spread_units;
  if (options_.per_iter) {
    spread = fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", "i_min", "i_max", "i_p99", "i_cv%");
    spread_units = fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", "(us)", "(us)", "(us)", "(%)");
  }
  fmt::print("#\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "", "", "", "", "");
  fmt::print("{}\n", options_.per_iter
                         ? "              out-of-place (+ per-iteration)                     "
                           "           in-place (+ per-iteration)"
                         : "           out-of-place                       in-place          ");
  fmt::print("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}{}{} {:>{}}\n", "size", "count", "type",
             "redop", "root", side, spread, side, spread, stamp, width);
  fmt::print("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}{}{} {:>{}}\n", "(B)", "(elements)", "", "",
             "", units, spread_units, units, spread_units, stamp_format, width);
}

void NcclTestsReport::begin(const NcclLine& line) {
  fmt::print("{:12}  {:12}  {:>8}  {:>6}  {:6}", line.bytes, line.count, line.type, line.op,
             line.root);
  std::fflush(stdout);
  line_ = {{"size", line.bytes},
           {"count", line.count},
           {"type", line.type},
           {"redop", line.op},
           {"root", fmt::format("{:6}", line.root)}};
}

ordered_json NcclTestsReport::json_of(const NcclSide& side) const {
  ordered_json json = {{options_.cpu_time ? "cpu_time" : "time", side.time_us},
                       {"alg_bw", side.alg_bw},
                       {"bus_bw", side.bus_bw},
                       {"nwrong", nullptr}};
  if (side.wrong) json["nwrong"] = static_cast<double>(*side.wrong);
  return json;
}

ordered_json NcclTestsReport::per_iteration(const NcclSide& side) const {
  const NcclStatistics s =
      statistics_of(side.iteration_us, static_cast<size_t>(options_.per_iter_skip));
  ordered_json json = {{"skipped_iterations", options_.per_iter_skip},
                       {"min_us", s.min},
                       {"max_us", s.max},
                       {"avg_us", s.avg},
                       {"p50_us", s.p50},
                       {"p95_us", s.p95},
                       {"p99_us", s.p99},
                       {"stdev_us", s.stdev},
                       {"cv_pct", s.cv_percent()},
                       {"times_us", side.iteration_us}};
  if (side.rank_iteration_us.size() > 1) json["per_process_max_times_us"] = side.rank_iteration_us;
  return json;
}

void NcclTestsReport::add(const NcclSide& side, bool in_place) {
  fmt::print("  {}  {}  {}", fitted(side.time_us, 7), fitted(side.alg_bw, 6),
             fitted(side.bus_bw, 6));
  if (side.wrong)
    fmt::print("  {:6g}", static_cast<double>(*side.wrong));
  else
    fmt::print("    N/A");
  const std::string key = in_place ? "in_place" : "out_of_place";
  line_[key] = json_of(side);
  if (options_.per_iter) {
    const NcclStatistics s =
        statistics_of(side.iteration_us, static_cast<size_t>(options_.per_iter_skip));
    fmt::print("  {}  {}  {}  {}", fitted(s.min, 7), fitted(s.max, 7), fitted(s.p99, 7),
               fitted(s.cv_percent(), 7));
    line_[key + "_per_iter"] = per_iteration(side);
  }
  if (in_place && options_.timestamps) fmt::print("{:>21}", now());
  std::fflush(stdout);
  bus_bw_ += side.bus_bw;
  ++sides_;
  errors_ += side.wrong_ranks;
}

void NcclTestsReport::end_line() {
  fmt::print("\n");
  std::fflush(stdout);
  line_["actual_iterations"] = options_.iters;
  line_["experiment_name"] = "";
  if (file_) {
    fmt::print(file_.get(), "{}\n  {}", lines_++ > 0 ? "," : "",
               line_.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    std::fflush(file_.get());
  }
  line_ = {};
}

bool NcclTestsReport::end() {
  const double mean = sides_ > 0 ? bus_bw_ / sides_ : 0;
  const bool demanded = options_.min_bandwidth != -1;
  const bool enough = sides_ == 0 || !(mean < options_.min_bandwidth * 0.9);
  std::printf("# %-20s : %d %s\n", "Out of bounds values", errors_, errors_ ? "FAILED" : "OK");
  std::printf("# %-20s : %g %s\n", "Avg bus bandwidth", mean,
              demanded ? enough ? "OK" : "FAILED" : "");
  fmt::print("#\n# Collective test concluded: {}\n#\n\n", head_.program);
  std::fflush(stdout);
  if (file_) {
    const ordered_json foot = {
        {"out_of_bounds", {{"count", errors_}, {"okay", quoted(errors_ == 0)}}},
        {"average_bus_bandwidth",
         {{"bandwidth", mean}, {"okay", demanded ? quoted(enough) : "unchecked"}}},
        {"errors", ordered_json::array()},
        {"end_time", now()}};
    fmt::print(file_.get(), "\n ],{}\n", printed(foot).substr(std::strlen("{")));
    std::fflush(file_.get());
  }
  return errors_ == 0 && enough;
}

}  // namespace ringwood::tools
