#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tools/replay/perf_replay.h"

namespace ringwood::tools {

void declare_replay_options(CLI::App& command, ReplayOptions& replay) {
  const auto add = [&](const char* name, std::string& value, const char* type, const char* what) {
    return command.add_option(name, value, what)->group("What")->type_name(type);
  };
  CLI::Option* trace =
      add("--replay", replay.trace, "DIR",
          "instead: the calls of a run that was recorded there (RINGWOOD_TRACE_DIR), in order");
  add("--group", replay.group, "NAME", "of a trace with several groups")->needs(trace);
  command.add_flag("--gaps", replay.gaps, "with the pauses in which the run's ranks computed")
      ->group("What")
      ->needs(trace);
}

void require_alone(const CLI::App& command) {
  for (const char* option :
       {"collective", "--minbytes", "--maxbytes", "--stepfactor", "--stepbytes", "--sizes",
        "--dtype", "--op", "--root", "--ladder", "--algorithm", "--segments", "--iters", "--touch",
        "--csv", "--min-busbw", "--format", "--run_cycles", "--interval"})
    if (command.count(option) > 0)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("--replay runs what was recorded: leave out {}", option));
  if (command.count("--memory") > 0 && command["--memory"]->as<std::string>() == "cuda")
    throw Error(ErrorCode::invalid_argument,
                "--replay runs on memory of the host: leave out --memory cuda");
}

}  // namespace ringwood::tools
