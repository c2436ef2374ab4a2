// The results of `ringwood perf`: the table (it begins with nccl-tests' columns), CSV and JSON.
//
// "time" is the best and "median" that of batches; "p50" and "p99" are of single operations.
// Where CSV or JSON goes to standard output, the table goes to standard error.
// Bandwidths are in GB/s (1e9 bytes) and of the best time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/command/fitted_table.h"
#include "tools/command/output_file.h"
#include "tools/command/progress_line.h"
#include "tools/perf/perf_counters.h"
#include "tools/perf/perf_trial.h"

namespace ringwood::tools {

struct Row {
  std::string collective;
  int ranks = 1;
  size_t bytes = 0, count = 0;
  std::string dtype, op;  // "none" where nothing is reduced
  int root = -1;          // -1: has none
  Trial::Result times;
  double algbw_gbs = 0, busbw_gbs = 0, bus_factor = 1;
  std::optional<int64_t> wrong;  // over all ranks; none: not checked
  std::string algorithm;
  int segments = 1;
  std::string transports;              // in use at any rank
  std::optional<double> predicted_us;  // none: not an algorithm of the table
  bool compared = false;               // all algorithms are
  bool chosen = false;                 // among them
  std::optional<double> limit_us;      // perf_limits.h

  int slowest_rank() const;
  // CPU time of all ranks for 1e9 bytes of `bytes`; 0 where no bytes are moved.
  double cpu_s_per_gb() const;
  std::optional<double> limit_percent() const;  // of the best time
  double bus_gbs_at(double us) const;           // bus bandwidth of such a time
};

// Of the whole run.
struct RunFacts {
  std::vector<HostCounters> hosts;
  double link_rate = 0;                 // bytes/s between hosts; 0: one host
  std::map<size_t, double> copy_rates;  // bytes/s of a rank's copies, by their size
  std::vector<std::string> failed;      // what --min-busbw and --require miss
};

// "-" is standard output.
struct ReportOptions {
  std::optional<std::string> csv, json, html;
  std::vector<std::string> compare;  // [NAME=]FILE: earlier results, for the HTML
  std::string matrix;                // FILE of ringwood matrix --json, likewise; "": none
};

class Report final {
 public:
  // Opens the files; throws Error(invalid_argument) if that fails.
  Report(const ReportOptions& options, int ranks, const std::string& remarks);

  void begin(const std::string& collective);  // a heading
  void add(const Row& row);
  void remark(const std::string& text);  // a line among the rows
  // What is going on.
  void progress(const std::string& text) { progress_.show(text); }
  // Totals and what the counters tell; writes the JSON object.
  void end(const RunFacts& facts);

  const std::vector<Row>& rows() const { return rows_; }

 private:
  void write_totals(const RunFacts& facts);
  void write_json(const RunFacts& facts);

  const int ranks_;
  std::vector<Row> rows_;
  const OutputFile csv_, json_;
  std::FILE* const table_;
  const FittedTable lines_;
  ProgressLine progress_{"perf"};
};

// The first line of a report, without its end: "ringwood 1.0 perf: 2 ranks on host, ...".
std::string head_of_report(int ranks);
// Of that line and of a report's JSON: `environment` and `hosts`.
nlohmann::ordered_json environment_json(int ranks);
nlohmann::ordered_json json_of(const std::vector<HostCounters>& hosts);
// What hosts carried and which counters rose: a line each, "Traffic of a: ...".
std::vector<std::string> lines_of(const std::vector<HostCounters>& hosts);

// Four significant digits in a column of eight.
std::string micros(double us);

}  // namespace ringwood::tools
