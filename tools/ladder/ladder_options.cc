#include "tools/ladder/ladder_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

namespace ringwood::tools {
namespace {

// Nothing that is typed is left aside in silence: a gate as --min-busbw would never fail.
void require_ladder_options(const CLI::App& command) {
  static constexpr std::string_view kTaken[] = {
      "--ladder",    "--sizes",      "--minbytes", "--maxbytes",  "--stepfactor",
      "--stepbytes", "--ranks",      "--batches",  "--transport", "--pin",
      "--timeout",   "--rendezvous", "--json",     "--html"};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && std::ranges::find(kTaken, name) == std::end(kTaken))
      refuse(
          fmt::format("--ladder measures each layer by itself and has no use for {}; leave it "
                      "out, or --ladder",
                      name));
  }
}

}  // namespace

LadderOptions ladder_of(const PerfOptions& perf, const CLI::App& command) {
  require_ladder_options(command);
  LadderOptions ladder;
  // Those of a sweep are too many.
  for (const char* option : {"--sizes", "--minbytes", "--maxbytes", "--stepfactor", "--stepbytes"})
    if (command.count(option) > 0) ladder.sizes = perf.sizes;
  if (command.count("--batches") > 0) ladder.repeats = perf.trial.batches;
  ladder.transports = perf.transports;
  ladder.timeout = std::chrono::milliseconds(std::llround(perf.timeout_s * 1000));
  ladder.launch = perf.launch;
  ladder.json = perf.report.json;
  ladder.html = perf.report.html;
  return ladder;
}

}  // namespace ringwood::tools
