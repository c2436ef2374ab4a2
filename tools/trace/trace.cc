#include "tools/trace/trace.h"
#include "tools/command/numbers.h"

#include <CLI/CLI.hpp>
#include <climits>
#include <cstdio>
#include <deque>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "tools/command/help.h"
#include "tools/command/progress_line.h"
#include "tools/trace/blame.h"
#include "tools/trace/live.h"
#include "tools/trace/perfetto.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

using Json = nlohmann::ordered_json;

struct TraceOptions {
  std::vector<std::string> runs;
  JobChoice choice;
  bool live = false;  // of the job that is chosen
  std::string merge, perfetto, json;
  bool blame = false;
  size_t worst = 10;
};

// `write` is called with where it goes.
void write_to(const std::string& option, const std::string& file, const auto& write) {
  if (file == "-") return write(std::cout);
  std::ofstream out(file);
  write(out);
  if (!out.flush())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} {}: the file cannot be written", option, file));
}

Json json_of(const Blame& blame) {
  Json one = {{"sequence", blame.sequence},
              {"operation", blame.name},
              {"measured_us", blame.measured * 1e6},
              {"predicted_us", blame.predicted * 1e6},
              {"sentence", sentence_of(blame)},
              {"late", Json::array()},
              {"slow", Json::array()}};
  for (const LateRank& late : blame.late)
    one["late"].push_back({{"rank", late.rank}, {"us", late.seconds * 1e6}});
  for (const SlowMessage& m : blame.slow)
    one["slow"].push_back({{"from", m.measured.from},
                           {"to", m.measured.to},
                           {"way", m.way},
                           {"step", m.measured.send_step},
                           {"bytes", m.measured.bytes},
                           {"excess_us", m.excess() * 1e6}});
  return one;
}

Json json_of(const TracedGroup& group, const RunBlame& run, size_t worst) {
  Json one = {{"group", group.name},         {"size", group.size},
              {"operations", run.judged},    {"verdict", run.verdict()},
              {"remarks", group.remarks},    {"late_ranks", Json::array()},
              {"slow_links", Json::array()}, {"worst", Json::array()}};
  for (const RankBlame& r : run.ranks)
    one["late_ranks"].push_back({{"rank", r.rank},
                                 {"operations", r.operations},
                                 {"middle_us", r.middle * 1e6},
                                 {"total_us", r.blamed * 1e6}});
  for (const LinkBlame& l : run.links)
    one["slow_links"].push_back({{"from", l.from},
                                 {"to", l.to},
                                 {"way", l.way},
                                 {"messages", l.messages},
                                 {"ratio", l.ratio},
                                 {"gb_per_s", l.measured > 0 ? l.bytes / l.measured * 1e-9 : 0},
                                 {"total_us", l.blamed * 1e6}});
  for (size_t i = 0; i < std::min(worst, run.operations.size()); ++i)
    one["worst"].push_back(json_of(run.operations[i]));
  return one;
}

void print_blame(std::FILE* out, const TracedGroup& group, const RunBlame& run, size_t worst) {
  fmt::print(out, "# group {}: {} ranks, {} recorded operations\n", group.name, group.size,
             run.judged);
  for (const std::string& remark : group.remarks) fmt::print(out, "# {}\n", remark);
  for (const auto& [rank, traced] : group.ranks)
    if (!traced.error.empty()) {
      fmt::print(out, "# it ended with: {}\n", traced.error);
      break;
    }
  fmt::print(out, "{}", summary_of(group, run));
  if (worst == 0 || run.operations.empty()) return;
  fmt::print(out, "worst operations\n");
  for (size_t i = 0; i < std::min(worst, run.operations.size()); ++i)
    fmt::print(out, "  {}\n", sentence_of(run.operations[i]));
}

void check(const TraceOptions& options) {
  if (options.live && !options.runs.empty())
    throw Error(ErrorCode::invalid_argument,
                "--pid and --job are for a job that runs, without the folder of another one");
  if (!options.live && options.runs.empty())
    throw Error(ErrorCode::invalid_argument,
                "name the folder that the job had as RINGWOOD_TRACE_DIR, or a job that runs by "
                "--pid or --job");
}

void run(TraceOptions options) {
  if (!options.merge.empty()) options.runs.push_back(options.merge);
  check(options);
  ProgressLine line("trace");
  const DumpsProgress tell = [&](const std::string& what) { line.show(what); };
  const std::vector<TracedGroup> groups =
      options.live ? read_live(options.choice, tell) : read_dumps(options.runs, tell);
  std::deque<Predictions> predictions;
  for (const TracedGroup& group : groups) predictions.emplace_back(group);
  if (!options.perfetto.empty()) {
    write_to("--perfetto", options.perfetto,
             [&](std::ostream& out) { write_perfetto(out, groups, predictions, tell); });
    line.erase();
    if (options.perfetto != "-")
      fmt::print(stderr, "{} written: open it in ui.perfetto.dev\n", options.perfetto);
  }
  if (!options.perfetto.empty() && !options.blame && options.json.empty()) return;
  std::FILE* const out = options.json == "-" || options.perfetto == "-" ? stderr : stdout;
  Json all = Json::array();
  for (size_t i = 0; i < groups.size(); ++i) {
    const TracedGroup& group = groups[i];
    line.show(fmt::format("{}: {} operations are judged", group.name, group.operations.size()));
    const RunBlame found = blame(group, predictions[i]);
    line.erase();
    print_blame(out, group, found, options.worst);
    all.push_back(json_of(group, found, options.worst));
  }
  if (!options.json.empty())
    write_to("--json", options.json, [&](std::ostream& out) {
      out << Json{{"groups", all}}.dump(2) << '\n';
    });
}

}  // namespace

void add_trace_command(CLI::App& app) {
  const auto options = std::make_shared<TraceOptions>();
  CLI::App* command = app.add_subcommand("trace",
                                         "What a job recorded: a time line of all ranks, and who "
                                         "or what was slow; also while it runs");
  command
      ->add_option("RUN", options->runs,
                   "folders that jobs had as RINGWOOD_TRACE_DIR, or files of ranks")
      ->type_name("DIR");
  const CLI::Option* const pid =
      command->add_option("--pid", options->choice.pid, "the job of this process, while it runs")
          ->check(whole(1, INT_MAX));
  const CLI::Option* const job = command->add_option(
      "--job", options->choice.job, "a job that runs, by its name in `ringwood top`");
  command->add_option("--merge", options->merge, "such a folder")->type_name("DIR");
  command
      ->add_option("--perfetto", options->perfetto,
                   "writes the time line of all ranks, measured and predicted, for "
                   "ui.perfetto.dev (- = standard output)")
      ->type_name("FILE");
  command->add_flag("--blame", options->blame,
                    "measured minus predicted, in sentences; without --perfetto that is all");
  command->add_option("--worst", options->worst, "operations that are told of, the worst first")
      ->capture_default_str();
  command->add_option("--json", options->json, "the blame as JSON, to FILE or standard output")
      ->expected(0, 1)
      ->type_name("[FILE]");
  command->callback([options, pid, job, command] {
    if (command->count("--json") > 0 && options->json.empty()) options->json = "-";
    options->live = pid->count() > 0 || job->count() > 0;
    run(*options);
  });
  add_help(*command,
           {{"RINGWOOD_TRACE_DIR=traces torchrun --nproc-per-node 4 train.py",
             "each rank leaves a file at its end"},
            {"ringwood trace traces", "which ranks were late, which links slow, the worst calls"},
            {"ringwood trace --merge traces --perfetto run.json",
             "a time line of all ranks for ui.perfetto.dev"},
            {"ringwood trace traces --json --worst 3", "the same for a script"},
            {"ringwood trace --pid 4711", "of the job of this process, which goes on"}},
           {{0, "all is well, whatever was slow"},
            {1, "the job has ended, does not answer, or is of an older version"},
            {2, "bad input"}});
}

}  // namespace ringwood::tools
