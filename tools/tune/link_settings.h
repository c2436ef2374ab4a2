// Which settings of a group's links make it faster: knobs that are read before the links are made,
// so each of their values takes a group of its own.
//
// One knob after the other, the environment's settings first. For each value there is a group; all
// groups take turns in a shuffled order on the largest sizes, and the results of each are compared
// with known ones. All run the algorithm that the first group chooses. A value is taken where the
// whole interval of its median lies kMargin (contest.h) below that of the value before at some
// size, and above it at none; of several the one with the greatest gain, by the geometric mean.
// What is taken is kept while the next knob is measured.
//
// Collective: times are those of the slowest rank, and all ranks decide alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/tuner/tuning/medians.h"
#include "tools/launch.h"
#include "tools/perf/perf_operations.h"
#include "tools/tune/tune.h"
#include "transports/base/knobs/link_knobs.h"
#include "transports/base/options.h"

namespace ringwood::tools {

struct LinkPoint {
  std::string operation;
  size_t bytes = 0;
  MeasuredTime time;
};

struct MeasuredSetting {
  size_t value = 0;
  bool taken = false;      // it remains
  std::string impossible;  // why it was not measured
  int64_t wrong = 0;       // elements of its results
  std::vector<LinkPoint> points;
  double gain = 1;  // over the first value: geometric mean of the points
};

struct MeasuredKnob {
  std::string name;  // "RINGWOOD_TCP_SOCKETS"
  bool bytes = false;
  std::vector<MeasuredSetting> settings;  // first what the others are compared with

  const MeasuredSetting& before() const;
  const MeasuredSetting& taken() const;
};
std::string print_setting(const MeasuredKnob& knob, size_t value);  // "4", "256K"

struct LinkTuning {
  Options options;  // with what was taken
  std::vector<MeasuredKnob> knobs;

  size_t wrong() const;  // settings with wrong results
};

// Makes groups over the place's store. Takes a quarter of tune.seconds, about. Throws Error.
LinkTuning tune_links(Place& place, const TuneOptions& tune, const Options& options,
                      const std::function<void(const std::string&)>& progress);

// What the tuning file sets: of the knobs that were measured, what was taken, unless it is the
// default.
LinkSettings settings_of(const LinkTuning& links);

// The lines of the report: a line for each knob, and what jobs take from the file.
std::vector<std::string> lines_of(const LinkTuning& links);

}  // namespace ringwood::tools
