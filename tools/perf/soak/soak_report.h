// What `ringwood perf -N` writes: a line for each interval as it ends, and the totals.
//
// CSV has a row for each interval, written at once; JSON the totals, at the end. Times are those of
// single operations, each that of its slowest rank. Thread safety: none.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/perf/perf_report.h"
#include "tools/perf/soak/histogram.h"

namespace ringwood::tools {

// One operation of one size, for some seconds.
struct SoakInterval {
  Row call;            // what was called; its times are not used
  double ended_s = 0;  // since the run began
  Histogram times, skews;
  int last_rank = -1;     // that came latest on average,
  int slowest_rank = -1;  // and whose own mean time was the longest
  std::optional<int64_t> wrong;
  std::vector<HostCounters> hosts;  // what rose meanwhile
};

struct SoakEnd {
  double seconds = 0;
  bool stopped = false;  // before its last table, by a signal or an error
  std::vector<HostCounters> hosts;
  std::vector<std::string> failed;  // sentences
};

class SoakReport final {
 public:
  // `tables`: 0: until stopped. Throws Error(invalid_argument) if a file cannot be made.
  SoakReport(const ReportOptions& options, int ranks, const std::string& remarks, int tables,
             double interval_s);

  void add(const SoakInterval& interval);
  void remark(const std::string& text);
  void end(const SoakEnd& end);

 private:
  // Of all intervals of one operation and size.
  struct Total {
    Row call;
    Histogram times, skews;
    std::map<int, int> last, slowest;  // intervals by rank
    std::optional<int64_t> wrong;
    double worst_at_s = 0;  // the end of the interval with the longest time
    int64_t intervals = 0;
  };
  void write_csv(const SoakInterval& interval, const Total& total);
  void write_totals(const SoakEnd& end);
  void write_json(const SoakEnd& end);

  const int ranks_;
  const OutputFile csv_, json_;
  std::FILE* const table_;
  const FittedTable lines_;
  const bool terminal_;
  const std::string started_;
  std::vector<Total> totals_;  // in the order in which they came first
  int64_t intervals_ = 0;
};

// "0:01:05", "26:00:00".
std::string print_duration(double seconds);

}  // namespace ringwood::tools
