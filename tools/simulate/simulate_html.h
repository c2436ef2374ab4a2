// `ringwood simulate --html`: a page that puts what is predicted beside what was measured.
#pragma once

#include <string>
#include <vector>

#include "tools/replay/replay_report.h"
#include "tools/simulate/simulate_svg.h"

namespace ringwood::tools {

struct SimulatePage {
  std::string file;                  // "": none
  std::vector<std::string> compare;  // [NAME=]FILE: what was measured (perf_compare.h)
  std::string like;                  // the file of --like; "": none
  std::string parameters;            // where they come from
};

// Before anything is simulated. Throws Error(invalid_argument), naming what cannot be.
void require_page(const SimulatePage& page);

// Points of --scale, or the only one. Sizes of `compare` are simulated too.
void write_html(const SimulatePage& page, const std::vector<ScalePoint>& points,
                const Progress& progress);
void write_html(const SimulatePage& page, const SimulateOptions& options,
                const ReplayReport& report);

}  // namespace ringwood::tools
