// A recorded run beside what it was predicted to take, or took again: as a table, as JSON and as a
// page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/perf/html/perf_compare.h"
#include "tools/replay/recorded_calls.h"
#include "tools/report/html_report.h"

namespace ringwood::tools {

// The calls' times from one source: "recorded", "predicted", "with faults", "measured".
struct ReplayColumn {
  std::string name;
  std::vector<double> kinds;  // seconds, by kind: of the middle call; NaN: not known
  std::vector<double> sums;   // of all its calls; where they are not known, those of the record
  std::vector<double> each;   // by call; likewise
  double calls = 0;           // of all calls
  double run = 0;             // with the pauses
};

struct ReplayReport {
  std::string command;     // "simulate"
  const RecordedRun* run;  // memory of the caller
  std::string place;       // "4 ranks on 2 hosts": where it was replayed
  std::vector<std::string> notes, faults;
  std::vector<std::string> algorithms;  // by kind: what was simulated or run
  std::vector<int> segments;
  std::vector<std::string> why_not;           // by kind, where its time is not known; or empty
  bool pauses = true;                         // it was replayed with them
  std::vector<ReplayColumn> columns;          // recorded first
  std::optional<std::vector<int64_t>> wrong;  // by kind: wrong elements; none: not checked
};

// `seconds` by call; NaN: not known.
ReplayColumn column_of(const RecordedRun& run, std::string name,
                       const std::vector<double>& seconds);
ReplayColumn recorded_column(const RecordedRun& run);

// The kinds, those first whose calls took longest as recorded.
std::vector<size_t> by_cost(const ReplayReport& report);
// What matters most, in one sentence.
std::string verdict_of(const ReplayReport& report);
std::string print_table(const ReplayReport& report);
std::string print_json(const ReplayReport& report);

// The page's head with these facts, and what is predicted beside what is measured; `earlier` are
// drawn beside it.
using Facts = std::vector<std::pair<std::string, std::string>>;
HtmlReport html_of(const ReplayReport& report, Facts facts,
                   const std::vector<EarlierResults>& earlier);

}  // namespace ringwood::tools
