// The `ringwood` command. Exit codes: 0 all is well; 1 a result was wrong or a run failed; 2 bad
// input.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "tools/command/completion/completion.h"
#include "tools/command/help.h"
#include "tools/command/man.h"
#include "tools/command/refusal.h"
#include "tools/command/tables.h"
#include "tools/doctor/doctor.h"
#include "tools/explain.h"
#include "tools/matrix/matrix_command.h"
#include "tools/perf/nccl_tests/nccl_options.h"
#include "tools/perf/perf.h"
#include "tools/schedule/schedule.h"
#include "tools/simulate/simulate.h"
#include "tools/top/top.h"
#include "tools/trace/trace.h"
#include "tools/tune/tune.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

// In the order of the help.
void add_commands(CLI::App& app, int& exit_code) {
  add_perf_command(app, exit_code);
  add_schedule_command(app, exit_code);
  add_doctor_command(app, exit_code);
  add_explain_command(app);
  add_simulate_command(app);
  add_matrix_command(app, exit_code);
  add_top_command(app);
  add_trace_command(app);
  add_tune_command(app, exit_code);
  add_env_command(app);
  add_algorithms_command(app);
  add_completion_command(app);
  add_man_command(app, exit_code, add_commands);
}

// --touch=3: the parser would take any number for yes.
void refuse_values_of_flags(CLI::App& app) {
  for (CLI::Option* option : app.get_options({}))
    if (option->get_expected_max() == 0) option->disable_flag_override(true);
  for (CLI::App* command : app.get_subcommands({})) refuse_values_of_flags(*command);
}

// A link to this command with the name of a program of nccl-tests does what that program does.
std::vector<const char*> arguments_of(int argc, char** argv) {
  static std::string collective;
  refuse_other_programs(argv[0]);
  std::vector<const char*> arguments{argv[0]};
  if (const auto found = collective_of_program(argv[0])) {
    collective = *found;
    arguments.insert(arguments.end(), {"perf", collective.c_str(), "--format", "nccl-tests"});
  }
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  return arguments;
}

int run(int argc, char** argv) {
  CLI::App app("Ringwood: collective communication for many processes.", "ringwood");
  app.get_formatter()->column_width(36);
  app.set_version_flag("--version", "ringwood " RINGWOOD_VERSION);
  app.require_subcommand(0, 1);
  int exit_code = 0;
  add_commands(app, exit_code);
  refuse_values_of_flags(app);
  add_help(app, {{"ringwood perf all_reduce --ranks 2", "measures, and checks every result"},
                 {"ringwood explain all_reduce 1M --ranks 8", "what each algorithm would take"},
                 {"ringwood COMMAND --help", "explains a command, with examples"}});
  try {
    std::vector<const char*> arguments = arguments_of(argc, argv);
    app.parse(static_cast<int>(arguments.size()), arguments.data());
    if (!app.get_subcommands().empty()) return exit_code;
    return refuse_command_line(app, "which command?");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return refuse_command_line(app, reason_of(app, error));
  } catch (const Error& error) {
    if (error.code == ErrorCode::invalid_argument) return refuse_command_line(app, error.cause);
    fmt::print(stderr, "ringwood: {}\n", error.message());
    return 1;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "ringwood: there is not enough memory for this; ask for less at a time\n");
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "ringwood: {}; this should not happen: please report the command\n",
               error.what());
    return 1;
  }
}

}  // namespace
}  // namespace ringwood::tools

int main(int argc, char** argv) { return ringwood::tools::run(argc, argv); }
