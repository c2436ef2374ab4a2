// The `ringwood` command. Exit codes: 0 all is well; 1 a result was wrong or a run failed; 2 bad
// input.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "collectives/algorithms/algorithms.h"
#include "tools/explain.h"
#include "tools/perf/perf.h"
#include "tools/schedule.h"
#include "tools/simulate/simulate.h"
#include "transports/base/error.h"
#include "transports/base/knobs/knobs.h"

namespace ringwood::tools {
namespace {

// Those for users, and those for experts.
void print_knobs(bool with_reasons) {
  const Options options = Options::from_environment();
  const auto shown = [](const std::string& value) { return value.empty() ? "-" : value; };
  const Knob* before = nullptr;
  for (const Knob& knob : knobs()) {
    if (!before || knob.audience != before->audience) {
      fmt::print("{}# for {}\n", before ? "\n" : "",
                 knob.audience == KnobFor::user ? "users" : "experts");
      fmt::print("{:<32} {:<16} {:<12} {:<16} {}\n", "# name", "value", "origin", "default",
                 "description");
    }
    before = &knob;
    std::string description = knob.does;
    for (const char* alias : knob.aliases)
      if (alias) description += fmt::format(" [{}]", alias);
    fmt::print("{:<32} {:<16} {:<12} {:<16} {}\n", knob.name, shown(knob.text.show(options)),
               setting_of(knob).name ? "environment" : "default", shown(knob.text.show({})),
               description);
    if (with_reasons) fmt::print("#   {}={}\n#   {}\n", knob.name, knob.example, knob.why);
  }
}

void add_knobs_command(CLI::App& app) {
  const auto with_reasons = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "env", "Every knob, those for users first: value, origin, default, what it does");
  command->add_flag("--why", *with_reasons, "also an example, why it exists, and why its default");
  command->callback([with_reasons] { print_knobs(*with_reasons); });
}

void print_algorithms() {
  for (const AlgorithmRow& row : algorithm_table()) {
    fmt::print("{:<16} {:<22} {}\n", to_string(row.collective), row.name, row.description);
  }
}

// Parser messages name the option but neither begin nor end as a sentence of ours does.
int refuse(const CLI::App& app, const std::string& why) {
  const auto chosen = app.get_subcommands();
  fmt::print(stderr, "ringwood: {}{} see ringwood {}--help\n", why, why.back() == '?' ? "" : ";",
             chosen.empty() ? "" : chosen[0]->get_name() + " ");
  return 2;
}

int run(int argc, char** argv) {
  CLI::App app("Ringwood: collective communication for many processes.", "ringwood");
  app.get_formatter()->column_width(36);
  app.set_version_flag("--version", "ringwood " RINGWOOD_VERSION);
  app.require_subcommand(0, 1);
  int exit_code = 0;
  add_perf_command(app, exit_code);
  add_schedule_command(app, exit_code);
  add_explain_command(app);
  add_simulate_command(app);
  add_knobs_command(app);
  app.add_subcommand("algorithms", "The table of algorithms")->callback(print_algorithms);
  app.footer("ringwood COMMAND --help explains a command.");
  try {
    app.parse(argc, argv);
    if (!app.get_subcommands().empty()) return exit_code;
    return refuse(app, "which command?");
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : refuse(app, error.what());
  } catch (const Error& error) {
    if (error.code == ErrorCode::invalid_argument) return refuse(app, error.cause);
    fmt::print(stderr, "ringwood: {}\n", error.message());
    return 1;
  }
}

}  // namespace
}  // namespace ringwood::tools

int main(int argc, char** argv) { return ringwood::tools::run(argc, argv); }
