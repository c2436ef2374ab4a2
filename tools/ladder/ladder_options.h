// What the options of `ringwood perf` mean for its ladder.
#pragma once

#include "tools/ladder/ladder.h"
#include "tools/perf/perf.h"

namespace CLI {
class App;
}

namespace ringwood::tools {

// `perf` is what was read from the words of `command`. Throws Error(invalid_argument) for an option
// that means nothing beside --ladder.
LadderOptions ladder_of(const PerfOptions& perf, const CLI::App& command);

}  // namespace ringwood::tools
