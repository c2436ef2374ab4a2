// From what was measured at some sizes to the ranges of a tuning file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/tuner/tuning/tuning_file.h"
#include "tools/tune/contest.h"

namespace ringwood::tools {

// One size of one collective.
struct TuneResult {
  size_t bytes = 0;      // of the whole buffer
  size_t unit = 1;       // bytes of which it is a multiple
  size_t predicted = 0;  // candidates
  std::vector<Contender> contenders;
  std::string skipped;                // why nothing was measured
  std::vector<std::string> counters;  // of the network, that rose meanwhile

  // The default, or null where there is none; also where its result was wrong.
  const Contender* standard() const;
  // The default; null where it was not measured, or its result was wrong: nothing can be chosen.
  const Contender* incumbent() const;
  // Whose interval clears the default's, or else the default; null without an incumbent.
  const Contender* choice() const;
};

// For each size its range: as far as half way to the next one measured, but only while the default
// is the one that was beaten there. `default_at`: the default for a size ("ring/4"). `like`: the
// fields that all ranges share. Neighbours with the same choice become one range.
std::vector<TunedRange> ranges_of(const std::vector<TuneResult>& results, const TunedRange& like,
                                  const std::function<std::string(size_t)>& default_at);

// Those of `before` that `now` says nothing about, and those of `now`.
std::vector<TunedRange> merged(const std::vector<TunedRange>& before,
                               const std::vector<TunedRange>& now);

}  // namespace ringwood::tools
