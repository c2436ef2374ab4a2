#include "tools/matrix/matrix_command.h"
#include "tools/command/numbers.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tools/command/help.h"
#include "tools/command/progress_line.h"
#include "tools/command/text_files.h"
#include "tools/launch.h"
#include "tools/matrix/matrix.h"
#include "tools/matrix/matrix_report.h"
#include "tools/perf/perf.h"
#include "transports/base/host.h"
#include "transports/base/options.h"

namespace ringwood::tools {
namespace {

// As they are typed.
struct RawArguments {
  std::vector<std::string> modes{"alone", "pairs", "all"}, rails, transports;
  std::string max_bytes = "64M", csv, json, html;
  bool by_rank = false;
  double timeout_s = 0, transfer_ms = 20;
  MatrixOptions matrix;
  LaunchOptions launch;
};

const char* option_of(const RawArguments& typed, const std::string* file) {
  return file == &typed.csv ? "--csv" : file == &typed.json ? "--json" : "--html";
}

// Before anything is measured; only where they are written.
void check_files(const RawArguments& typed) {
  for (const std::string* file : {&typed.csv, &typed.json, &typed.html})
    if (!file->empty() && *file != "-" && !std::ofstream(*file, std::ios::app))
      refuse(fmt::format("{} {}: the file cannot be written", option_of(typed, file), *file));
}

void check(RawArguments& typed, const CLI::App& command) {
  const auto has = [&](const char* mode) { return std::ranges::count(typed.modes, mode) > 0; };
  typed.matrix.alone = has("alone");
  typed.matrix.pairs = has("pairs");
  typed.matrix.all = has("all");
  typed.matrix.transfer_s = typed.transfer_ms * 1e-3;
  typed.matrix.max_bytes = parse_bytes("--max-bytes", typed.max_bytes);
  if (typed.matrix.max_bytes < 256 << 10) refuse("--max-bytes is less than 256K");
  for (std::string* file : {&typed.csv, &typed.json, &typed.html}) {
    if (command.count(option_of(typed, file)) > 0 && file->empty()) *file = "-";
  }
  if (typed.csv == "-" && typed.json == "-")
    refuse("--csv and --json cannot both go to standard output; name a file");
}

// This rank's rail: a device of RDMA, or an interface.
void use_rail(Options& options, const std::string& rail) {
  std::error_code ignored;
  if (std::filesystem::exists("/sys/class/infiniband/" + rail, ignored))
    options.verbs.devices = rail;
  else if (std::filesystem::exists("/sys/class/net/" + rail, ignored))
    options.socket_interface = rail;
  else
    refuse(fmt::format("--rails {}: {} has neither a device nor an interface of that name", rail,
                       host_name()));
}

// The ranks of a host take the rails in turns.
std::string rail_of(const RawArguments& typed, const LaunchPlan& plan, Place& place,
                    Options& options) {
  if (typed.rails.empty())
    return options.verbs.devices.empty() ? options.socket_interface : options.verbs.devices;
  int64_t index = plan.joins ? plan.environment.local_rank : place.rank;
  if (index < 0) index = place.store->add("matrix/ranks of " + host_token(), 1) - 1;
  const std::string& rail = typed.rails[static_cast<size_t>(index) % typed.rails.size()];
  use_rail(options, rail);
  return rail;
}

int run_rank(const RawArguments& typed, const LaunchPlan& plan, Options options, Place& place) {
  MatrixOptions matrix_options = typed.matrix;
  matrix_options.rail = rail_of(typed, plan, place, options);
  matrix_options.rails = std::set(typed.rails.begin(), typed.rails.end()).size();
  matrix_options.host = options.host_id;
  if (typed.by_rank) {
    matrix_options.host = fmt::format("rank{}", place.rank);
    matrix_options.by_rank = true;
  }
  ProgressLine progress("matrix");
  matrix_options.progress = [&](const std::string& text) { progress.show(text); };
  const auto group = Communicator::create(place.store, place.rank, place.size, options, "matrix");
  finish(group->barrier());
  place.store.reset();
  place.met();
  const Matrix matrix = measure_matrix(*group, matrix_options);
  progress.erase();
  if (place.rank == 0) {
    const bool taken = typed.csv == "-" || typed.json == "-";
    fmt::print(taken ? stderr : stdout, "{}", print_table(matrix));
    if (!typed.csv.empty()) write_all("--csv", typed.csv, print_csv(matrix));
    if (!typed.json.empty()) write_all("--json", typed.json, print_json(matrix) + "\n");
    if (!typed.html.empty()) write_html(matrix, typed.html);
  }
  finish(group->barrier());  // no rank leaves before the result is written
  return exit_code_of(matrix);
}

int run(const RawArguments& typed) {
  Options options = Options::from_environment();
  if (!typed.transports.empty()) options.transports = typed.transports;
  if (typed.timeout_s > 0)
    options.timeout = options.init_timeout =
        std::chrono::milliseconds(static_cast<int64_t>(typed.timeout_s * 1000));
  LaunchOptions launch_options = typed.launch;
  launch_options.init_timeout = options.init_timeout;
  const LaunchPlan plan = plan_launch(launch_options);
  if (plan.speaks()) check_files(typed);
  if (!plan.joins && !typed.by_rank)
    refuse(
        "a matrix of hosts needs a rank on each of two hosts or more: start it with mpirun, srun "
        "or torchrun; or measure the ranks of this host with --by-rank");
  return launch(plan, [&](Place& place) { return run_rank(typed, plan, options, place); });
}

void add_options(CLI::App& command, RawArguments& typed) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* what) {
    return command.add_option(name, value, what)->type_name(type);
  };
  add("--modes", typed.modes, "alone|pairs|all,...", "alone, pairs, all (each of them)")
      ->delimiter(',')
      ->check(CLI::IsMember({"alone", "pairs", "all"}).description(""));
  add("--rails", typed.rails, "LIST",
      "devices or interfaces, which the ranks of a host take in turns: mlx5_0,mlx5_1")
      ->delimiter(',');
  command.add_flag("--by-rank", typed.by_rank, "each rank counts as a host: pairs of ranks");
  add("--slow", typed.matrix.slow, "PART", "name what has less of the rate that it should (0.75)")
      ->check(decimal(0.01, 0.99));
  add("--repeats", typed.matrix.repeats, "N", "of each measurement; the best one counts (5)")
      ->check(whole(1, 1000));
  add("--transfer", typed.transfer_ms, "MS", "what a transfer should take, in milliseconds (20)")
      ->check(decimal(0.1, 10000.0));
  add("--max-bytes", typed.max_bytes, "SIZE", "of a transfer (64M)");
  add("--transport", typed.transports, "TRANSPORT,...", "only these: tcp, verbs, ...")
      ->delimiter(',');
  add("--ranks", typed.launch.ranks, "N", "ranks to start here (2); a launcher's are joined")
      ->check(whole(2, 1024));
  add("-T,--timeout", typed.timeout_s, "SECONDS", "for one operation (RINGWOOD_TIMEOUT)")
      ->check(decimal(0.001, 1e6));
  add("--rendezvous", typed.launch.rendezvous, "URL",
      "where ranks meet: env://, file:///path, tcp://host:port");
  add("--csv", typed.csv, "[FILE]", "a line for each pair, to FILE or standard output")
      ->expected(0, 1);
  add("--json", typed.json, "[FILE]", "likewise; for programs and simulate --like")->expected(0, 1);
  add("--html", typed.html, "FILE", "heat maps, for a browser");
}

}  // namespace

void add_matrix_command(CLI::App& app, int& exit_code) {
  auto typed = std::make_shared<RawArguments>();
  CLI::App* command = app.add_subcommand(
      "matrix", "Rate and latency of every pair of hosts and rails; what is slow");
  add_options(*command, *typed);
  command->callback([typed, command, &exit_code] {
    check(*typed, *command);
    exit_code = run(*typed);
  });
  add_help(
      *command,
      {{"mpirun -n 8 --map-by node ringwood matrix", "a rank on each of 8 hosts"},
       {"srun --ntasks-per-node 2 ringwood matrix --rails mlx5_0,mlx5_1 --json matrix.json", ""},
       {"ringwood matrix --by-rank --ranks 4", "pairs of ranks, on this host"}},
      {{0, "nothing is slow"},
       {1, "something is slow or was not measured, or the run failed"},
       {2, "bad input"}});
}

}  // namespace ringwood::tools
