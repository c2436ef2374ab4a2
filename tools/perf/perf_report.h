// The results of `ringwood perf`: the table (nccl-tests' columns), CSV and JSON.
//
// Where CSV or JSON goes to standard output, the table goes to standard error.
// Bandwidths are in GB/s (1e9 bytes) and of the best time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ringwood::tools {

struct Row {
  std::string collective;
  int ranks = 1;
  size_t bytes = 0, count = 0;
  std::string dtype, op;  // "none" where nothing is reduced
  int root = -1;          // -1: has none
  double time_us_best = 0, time_us_median = 0;
  double algbw_gbs = 0, busbw_gbs = 0;
  double cpu_percent = 0;        // of one core, by the busiest rank; not in the table
  std::optional<int64_t> wrong;  // over all ranks; none: not checked
  std::string algorithm;
  int segments = 1;
  std::string transports;
  // Only where all algorithms are compared.
  std::optional<double> predicted_us;
  bool chosen = false;
};

// "-" is standard output.
struct ReportOptions {
  std::optional<std::string> csv, json;
};

class Report final {
 public:
  // Opens the files; throws Error(invalid_argument) if that fails.
  Report(const ReportOptions& options, int ranks, const std::string& remarks);
  ~Report();

  void begin(const std::string& collective);  // a heading
  void add(const Row& row);
  // What is going on, on a terminal only; replaced by the next line.
  void progress(const std::string& text);
  // Totals and, if there is any, what the fabric's counters tell; writes the JSON object.
  void end(const std::vector<std::string>& fabric);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;
  std::FILE* open(const std::optional<std::string>& path, File& owner);
  void erase_progress();

  std::vector<Row> rows_;
  File csv_file_, json_file_;
  std::FILE *table_, *csv_ = nullptr, *json_ = nullptr;
  bool terminal_, progress_shown_ = false;
};

}  // namespace ringwood::tools
