#include "tools/schedule.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "collectives/algorithms/algorithms.h"
#include "collectives/draw/draw.h"
#include "collectives/plan/sums.h"
#include "collectives/schedule/compose.h"
#include "collectives/verify/verify.h"
#include "tools/perf/perf.h"

namespace ringwood::tools {
namespace {

[[noreturn]] void refuse(std::string why) {
  throw Error(ErrorCode::invalid_argument, std::move(why));
}

// As they are typed.
struct Typed {
  std::string collective, algorithm, file, svg;
  int ranks = 4, root = 0, segments = 1;
  std::vector<int> hosts;
};

struct Schedules {
  Collective collective = Collective::barrier;
  std::vector<Schedule> all;
  const AlgorithmRow* row = nullptr;  // null: from a text
};

std::string read_all(const std::string& file) {
  if (file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) refuse(fmt::format("{} cannot be read", file));
  return text;
}

std::string names(Collective collective, const Where& where) {
  std::string result;
  for (const AlgorithmRow& row : algorithm_table()) {
    if (row.collective != collective || !row.accepts(where)) continue;
    result += fmt::format("{}{}", result.empty() ? "" : ", ", row.name);
  }
  return result;
}

Schedules from_table(const Typed& typed, Collective collective) {
  const int n = typed.hosts.empty() ? typed.ranks : static_cast<int>(typed.hosts.size());
  const Where where{0, n, typed.root, typed.hosts};
  if (typed.root >= n) refuse(fmt::format("root {} is not one of {} ranks", typed.root, n));
  const AlgorithmRow* row = find_algorithm(collective, typed.algorithm);
  if (!row || !row->accepts(where)) {
    refuse(fmt::format("no algorithm '{}' for {} of {} ranks{}; there are: {}", typed.algorithm,
                       to_string(collective), n, typed.hosts.empty() ? "" : " on these hosts",
                       names(collective, where)));
  }
  return {collective, build_all(*row, where), row};
}

Schedules get(const Typed& typed) {
  const Collective collective = parse_collective(typed.collective);
  if (typed.file.empty() == typed.algorithm.empty()) {
    refuse("give either an algorithm (see ringwood algorithms) or --file with a schedule's text");
  }
  Schedules result;
  if (typed.file.empty()) {
    result = from_table(typed, collective);
  } else {
    result = {collective, parse_schedules(read_all(typed.file)), nullptr};
  }
  for (Schedule& schedule : result.all) schedule = segments(schedule, typed.segments);
  return result;
}

int print_them(const Typed& typed) {
  for (const Schedule& schedule : get(typed).all) fmt::print("{}", print(schedule));
  return 0;
}

int verify_them(const Typed& typed) {
  const auto [collective, all, row] = get(typed);
  const auto flaw = verify(collective, all, typed.root, typed.segments);
  const bool equal_blocks =
      flaw && !verify(collective, all, typed.root, typed.segments, /*equal_blocks=*/true);
  if (flaw && !equal_blocks) {
    fmt::print("refuted: {}\n", *flaw);
    return 1;
  }
  size_t steps = 0;
  for (const Schedule& schedule : all) steps += schedule.steps.size();
  const bool rounds_each = reduces(collective) && !trace_sums(collective, all).rows_agree;
  fmt::print("proved: {} ranks, {} steps, {} rounds{}{}{}\n", all.size(), steps,
             lay_out(collective, all, typed.root).rounds,
             equal_blocks ? ", for blocks of one size" : "",
             reduces_in_rank_order(collective, all, typed.root, typed.segments, equal_blocks)
                 ? ", sums in rank order"
                 : "",
             rounds_each ? ", 16- and 8-bit floats rounded at each addition" : "");
  return 0;
}

int draw_them(const Typed& typed) {
  const auto [collective, all, row] = get(typed);
  if (typed.svg.empty()) {
    fmt::print("{}", draw_ascii(collective, all, typed.root));
    return 0;
  }
  const std::string title = fmt::format("{} {}, {} ranks", to_string(collective),
                                        row ? row->name : "from a text", all.size());
  const std::string svg = draw_svg(collective, all, title, typed.root, typed.hosts);
  if (typed.svg == "-") {
    fmt::print("{}", svg);
    return 0;
  }
  std::ofstream out(typed.svg, std::ios::binary);
  out << svg << std::flush;
  if (!out) refuse(fmt::format("{} cannot be written", typed.svg));
  return 0;
}

// Measured and checked as `ringwood perf` does it.
int run_them(const std::string& file, PerfOptions perf) {
  if (perf.operations.size() != 1 || !perf.operations[0]->collective)
    refuse("name the one collective that the schedules are for");
  if (!perf.algorithms.empty()) refuse("--file takes the place of --algorithm: give one of them");
  const Collective collective = *perf.operations[0]->collective;
  perf.schedules = ProvedSchedules::parse(collective, read_all(file), perf.root);
  if (perf.launch.ranks == 0) perf.launch.ranks = perf.schedules->size();
  return run_perf(perf);
}

void add_run(CLI::App& command, int& exit_code) {
  CLI::App* action =
      command.add_subcommand("run", "Prove a text, run it on real ranks, measure it");
  auto file = std::make_shared<std::string>();
  action->add_option("--file", *file, "the schedules of all ranks; - is standard input")
      ->type_name("FILE")
      ->required();
  const auto options = declare_perf_options(*action);
  action->callback([file, options, &exit_code] { exit_code = run_them(*file, options()); });
}

CLI::App* add_action(CLI::App& command, const char* name, const char* description,
                     const std::shared_ptr<Typed>& typed, int (*act)(const Typed&),
                     int& exit_code) {
  CLI::App* action = command.add_subcommand(name, description);
  action->add_option("collective", typed->collective, "all_reduce, broadcast, ...")->required();
  action->add_option("algorithm", typed->algorithm, "see ringwood algorithms");
  const auto add = [&](const char* option, auto& value, const char* type, const char* what) {
    return action->add_option(option, value, what)->type_name(type);
  };
  add("--file", typed->file, "FILE", "a text instead of an algorithm; - is standard input");
  add("--ranks", typed->ranks, "N", "size of the group (4)")->check(CLI::Range(1, 4096));
  add("--root", typed->root, "RANK", "of the collectives that have one (0)")
      ->check(CLI::NonNegativeNumber);
  add("--hosts", typed->hosts, "LIST", "the host of each rank, such as 0,0,1,1")->delimiter(',');
  add("--segments", typed->segments, "N", "pipeline segments (1)")->check(CLI::Range(1, 4096));
  action->callback([typed, act, &exit_code] { exit_code = act(*typed); });
  return action;
}

}  // namespace

void add_schedule_command(CLI::App& app, int& exit_code) {
  auto typed = std::make_shared<Typed>();
  CLI::App* command = app.add_subcommand("schedule", "Print, prove, draw and run schedules");
  command->require_subcommand(1);
  add_action(*command, "print", "The text form, rank by rank", typed, print_them, exit_code);
  add_action(*command, "verify", "The proof, or a counterexample in words", typed, verify_them,
             exit_code);
  add_action(*command, "draw", "What is sent when: a table, or an SVG picture", typed, draw_them,
             exit_code)
      ->add_option("--svg", typed->svg, "a picture instead of the table; - is standard output")
      ->type_name("FILE");
  add_run(*command, exit_code);
  command->footer(
      "Examples:\n"
      "  ringwood schedule draw all_reduce ring --ranks 4\n"
      "  ringwood schedule draw all_reduce hierarchical --hosts 0,0,1,1 --svg picture.svg\n"
      "  ringwood schedule print broadcast chain --root 2 > chain.txt\n"
      "  ringwood schedule verify broadcast --file chain.txt --root 2\n"
      "  ringwood schedule run broadcast --file chain.txt --root 2 -b 1K -e 16M");
}

}  // namespace ringwood::tools
