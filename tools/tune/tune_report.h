// What `ringwood tune` found, for people and programs: a table while it runs, JSON, and one HTML
// file. Where JSON goes to standard output, the table goes to standard error.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tools/command/progress_line.h"
#include "tools/tune/link_settings.h"
#include "tools/tune/ranges.h"
#include "tools/tune/tune.h"

namespace ringwood::tools {

// All sizes of one collective.
struct TunedCollective {
  const OperationRow* operation = nullptr;
  std::vector<TuneResult> results;
};

// Of the whole run.
struct TuneSummary {
  std::string path;  // of the file; empty: nothing was measured
  std::string hardware, hosts;
  uint64_t seed = 0;
  double seconds = 0;
  // Sizes: with another choice, with the default, not measured, and whose default is wrong.
  size_t changed = 0, kept = 0, skipped = 0, wrong_defaults = 0;
  size_t wrong = 0;                          // contenders
  size_t carried_over = 0, left_behind = 0;  // ranges of the file before
  std::string other_links;                   // settings of that file, if it is dropped for them
  std::string cut_short;                     // why the run ended early
  std::string not_written, text;             // why there is no file, and what would be in it
};

class TuneReport final {
 public:
  // Opens the files; throws Error(invalid_argument) if that fails.
  TuneReport(const TuneOptions& options, int ranks);
  ~TuneReport();

  void progress(const std::string& text) { progress_.show(text); }
  void add(LinkTuning links);
  void begin(const OperationRow& operation);
  void add(const OperationRow& operation, const TuneResult& result);
  void end(const std::vector<TunedCollective>& all, const TuneSummary& summary);

 private:
  void add_times(const TuneResult& result);
  void write_json(const std::vector<TunedCollective>& all, const TuneSummary& summary);
  void write_html(const std::vector<TunedCollective>& all, const TuneSummary& summary) const;

  const TuneOptions& options_;
  const int ranks_;
  std::FILE *table_, *json_ = nullptr;
  ProgressLine progress_{"tune"};
  LinkTuning links_;
};

// The knobs that a run leaves as they are, each with the reason.
std::vector<std::string> not_tuned(bool links);

}  // namespace ringwood::tools
