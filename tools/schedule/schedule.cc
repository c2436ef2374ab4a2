#include "tools/schedule/schedule.h"
#include "tools/command/numbers.h"
#include "tools/counted.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "collectives/plan/sums.h"
#include "collectives/schedule/compose.h"
#include "collectives/verify/verify.h"
#include "tools/command/help.h"
#include "tools/command/refusal.h"
#include "tools/command/text_files.h"
#include "tools/command/types_and_ops.h"
#include "tools/draw/draw.h"
#include "tools/perf/perf.h"
#include "tools/schedule/schedule_cost.h"
#include "tools/schedule/schedule_source.h"

namespace ringwood::tools {
namespace {

using Json = nlohmann::ordered_json;

Schedules in_segments(const TypedSchedule& typed) {
  Schedules found = read_schedules(typed);
  for (Schedule& schedule : found.all) schedule = segments(schedule, typed.segments);
  return found;
}

// What every object of --json begins with.
template <class Source>  // Schedules, ManySchedules
Json heading(const TypedSchedule& typed, const Source& schedules) {
  Json object = {{"version", RINGWOOD_VERSION},
                 {"collective", to_string(schedules.collective)},
                 {"algorithm", nullptr},
                 {"ranks", schedules.n()},
                 {"root", nullptr},
                 {"segments", typed.segments}};
  if (schedules.row) object["algorithm"] = schedules.row->name;
  if (has_root(schedules.collective)) object["root"] = typed.root;
  return object;
}

const char* name_of(StepKind kind) {
  switch (kind) {
    case StepKind::send: return "send";
    case StepKind::recv: return "recv";
    case StepKind::recv_reduce: return "recv_reduce";
    case StepKind::reduce: return "reduce";
    case StepKind::copy: return "copy";
  }
  return "";
}

Json json_of(const Step& step) {
  const auto span = [](const Span& s) { return Json::array({s.first, s.first + s.count}); };
  Json object = {{"step", name_of(step.kind)}};
  if (step.peer >= 0) object["peer"] = step.peer;
  if (step.dst.count > 0) object["to"] = span(step.dst);
  if (step.src.count > 0) object["from"] = span(step.src);
  if (step.joined) object["joined"] = true;
  return object;
}

int show(const TypedSchedule& typed) {
  const Schedules schedules = in_segments(typed);
  if (!typed.json) {
    for (const Schedule& schedule : schedules.all) fmt::print("{}", print(schedule));
    return 0;
  }
  Json object = heading(typed, schedules);
  for (const Schedule& schedule : schedules.all) {
    Json steps = Json::array();
    for (const Step& step : schedule.steps) steps.push_back(json_of(step));
    object["schedules"].push_back({{"rank", schedule.rank},
                                   {"chunks", schedule.chunks},
                                   {"scratch", schedule.scratch},
                                   {"steps", std::move(steps)}});
  }
  fmt::print("{}\n", object.dump(2));
  return 0;
}

struct Proof {
  std::optional<std::string> flaw;  // the rest is valid only without one
  bool equal_blocks = false;        // only for blocks of one size
  size_t steps = 0;
  int rounds = 0;
  bool rank_order = false, rounds_each = false;
};

Proof prove(const TypedSchedule& typed, const ManySchedules& schedules) {
  const Collective collective = schedules.collective;
  const SharedSchedules& all = schedules.all;
  const auto proved = [&](bool equal_blocks) {
    return ringwood::prove(collective, all, typed.root, typed.segments, equal_blocks);
  };
  Proof proof;
  ProofResult found = proved(false);
  proof.flaw = found.flaw;
  if (found.flaw) {
    found = proved(true);
    if (found.flaw) return proof;
    proof.equal_blocks = true;
    proof.flaw.reset();
  }
  for (int rank = 0; rank < all.size(); ++rank) proof.steps += all[rank].size();
  proof.rounds = count_rounds(all, typed.root);
  proof.rank_order = found.in_rank_order;
  proof.rounds_each = reduces(collective) && !accumulations_agree(collective, all);
  return proof;
}

int verify_them(const TypedSchedule& typed) {
  const ManySchedules schedules = read_many_schedules(typed);
  const Proof proof = prove(typed, schedules);
  const int code = proof.flaw ? 1 : 0;
  if (typed.json) {
    Json object = heading(typed, schedules);
    object["proved"] = !proof.flaw;
    object["counterexample"] = nullptr;
    if (proof.flaw) {
      object["counterexample"] = *proof.flaw;
    } else {
      object["steps"] = proof.steps;
      object["rounds"] = proof.rounds;
      object["only_for_equal_blocks"] = proof.equal_blocks;
      object["sums_in_rank_order"] = proof.rank_order;
      object["rounds_at_each_addition"] = proof.rounds_each;
    }
    fmt::print("{}\n", object.dump(2));
    return code;
  }
  if (proof.flaw)
    fmt::print("refuted: {}\n", *proof.flaw);
  else
    fmt::print("proved: {}, {}, {}{}{}{}\n", counted(schedules.n(), "rank"),
               counted(proof.steps, "step"), counted(proof.rounds, "round"),
               proof.equal_blocks ? ", for blocks of one size" : "",
               proof.rank_order ? ", sums in rank order" : "",
               proof.rounds_each ? ", 16- and 8-bit floats rounded at each addition" : "");
  return code;
}

// What the table and the picture are made of.
Json drawing(const TypedSchedule& typed, const Schedules& schedules) {
  const Picture picture = lay_out(schedules.collective, schedules.all, typed.root);
  Json object = heading(typed, schedules);
  object["rounds"] = picture.rounds;
  object["messages"] = Json::array();
  for (const Picture::Arrow& arrow : picture.arrows)
    object["messages"].push_back({{"round", arrow.round},
                                  {"arrival", arrow.arrival},
                                  {"from", arrow.from},
                                  {"to", arrow.to},
                                  {"adds", arrow.adds},
                                  {"chunks", arrow.chunks}});
  return object;
}

int draw_them(const TypedSchedule& typed, const std::string& svg_file) {
  constexpr size_t kMaxDrawnSteps = 2'000'000;
  require_few_steps(typed, kMaxDrawnSteps, "draw fewer ranks or segments");
  const Schedules schedules = in_segments(typed);
  const Collective collective = schedules.collective;
  if (typed.json) {
    fmt::print("{}\n", drawing(typed, schedules).dump(2));
    return 0;
  }
  if (svg_file.empty()) {
    fmt::print("{}", draw_ascii(collective, schedules.all, typed.root));
    return 0;
  }
  const std::string title = fmt::format("{} {}, {}", to_string(collective),
                                        schedules.row ? schedules.row->name : "from a text",
                                        counted(schedules.n(), "rank"));
  const std::string svg = draw_svg(collective, schedules.all, title, typed.root, schedules.hosts);
  write_all("--svg", svg_file, svg);
  return 0;
}

struct TypedRun {
  std::string file, algorithm;
  PerfOptions perf;
};

void interpret(TypedRun& run, PerfOptions perf) {
  if (perf.operations.size() != 1 || !perf.operations[0]->collective)
    refuse("name the one collective that the schedules are for");
  if (!run.algorithm.empty()) {
    if (!perf.algorithms.empty())
      refuse("the algorithm stands after the collective and in --algorithm; give one of them");
    perf.algorithms = {run.algorithm};
  }
  if (run.file.empty() == perf.algorithms.empty())
    refuse("give either an algorithm (see ringwood algorithms) or --file with a schedule's text");
  run.perf = std::move(perf);
}

// Measured and checked as `ringwood perf` does it.
int run_them(TypedRun& run) {
  if (!run.file.empty()) {
    const Collective collective = *run.perf.operations[0]->collective;
    run.perf.schedules = ProvedSchedules::parse(collective, read_all("", run.file), run.perf.root);
    run.perf.launch.needed = run.perf.schedules->size();
  }
  return run_perf(run.perf);
}

void add_run(CLI::App& command, int& exit_code) {
  CLI::App* action = command.add_subcommand(
      "run", "Prove a text and run it on real ranks: every result checked, and measured");
  const auto run = std::make_shared<TypedRun>();
  action
      ->add_option("--file", run->file,
                   "the schedules of all ranks instead of an algorithm; - is standard input")
      ->type_name("FILE");
  const auto options = declare_perf_options(*action);
  action->get_option("collective")
      ->expected(1)
      ->allow_extra_args(false)
      ->description("all_reduce, broadcast, ...")
      ->type_name("COLLECTIVE");
  // CLI11 2.4 takes no second option of the name of "--algorithm".
  action->add_option("row", run->algorithm, "an algorithm's name: see ringwood algorithms")
      ->type_name("ALGORITHM")
      ->group("What");
  add_help(*action, {{"ringwood schedule run broadcast --file chain.txt --root 2 -b 1K -e 16M", ""},
                     {"python3 mine.py | ringwood schedule run all_reduce --file - --json", ""},
                     {"ringwood schedule run all_reduce ring", "a row of the table"}});
  when_parsed(*action, [run, options] { interpret(*run, options()); });
  action->callback([run, &exit_code] { exit_code = run_them(*run); });
}

using RawArguments = std::shared_ptr<TypedSchedule>;

CLI::App* add_action(CLI::App& command, const char* name, const char* description,
                     const RawArguments& typed) {
  CLI::App* action = command.add_subcommand(name, description);
  action->add_option("collective", typed->collective, "all_reduce, broadcast, ...")
      ->type_name("COLLECTIVE")
      ->required();
  action->add_option("algorithm,--algorithm", typed->algorithm, "see ringwood algorithms")
      ->type_name("ALGORITHM");
  const auto add = [&](const char* option, auto& value, const char* type, const char* what) {
    return action->add_option(option, value, what)->type_name(type);
  };
  add("--file", typed->file, "FILE", "a text instead of an algorithm; - is standard input");
  add("--ranks", typed->ranks, "N", "size of the group (that of the hosts or the text, or 4)")
      ->check(whole(1, 4096));
  add("--root", typed->root, "RANK", "of the collectives that have one (0)")->check(whole(0, 4095));
  add("--hosts", typed->hosts, "HOSTS", "where the ranks are: 0,0,1,1, or 2x8, or how many hosts");
  add("--segments", typed->segments, "N", "pipeline segments (1)")->check(whole(1, 4096));
  return action;
}

CLI::Option* add_json(CLI::App& action, const RawArguments& typed) {
  return action.add_flag("--json", typed->json, "an object, for programs");
}

void add_cost(CLI::App& command, const RawArguments& typed, int& exit_code) {
  CLI::App* action =
      add_action(command, "cost", "The predicted time, beside that of what would be chosen", typed);
  const auto cost = std::make_shared<TypedCost>();
  const auto add = [&](const char* option, auto& value, const char* type, const char* what) {
    return action->add_option(option, value, what)->type_name(type);
  };
  add("-b,--minbytes", cost->first, "SIZE", "smallest size (8); K, M, G, T are powers of 1024");
  add("-e,--maxbytes", cost->last, "SIZE", "largest size (64M)");
  add("-f,--stepfactor", cost->factor, "N", "each size is the last one times N (8)")
      ->check(whole(2, 1 << 20));
  add("--sizes", cost->sizes, "LIST", "or exactly these: 8,4K,64M");
  add_type_and_op(*action, cost->type, cost->op);
  add("--parameters", cost->parameters, "host|default|FILE",
      "measured ones of this host, the defaults, or those of a file (host)");
  add_links(*action, cost->links);
  add_json(*action, typed);
  add_help(
      *action,
      {{"ringwood schedule cost all_reduce ring --ranks 8", "on this host, as it was measured"},
       {"ringwood schedule cost all_reduce --file mine.txt --hosts 2", "on two such hosts"},
       {"ringwood schedule cost all_gather ring --hosts 8x4 --sizes 64K,16M --json", ""}},
      {{0, "all is well"},
       {1, "this host could not be measured"},
       {2, "bad input, or the schedules are refuted"}});
  action->callback([typed, cost, &exit_code] { exit_code = print_costs(*typed, *cost); });
}

void add_show(CLI::App& command, const RawArguments& typed, int& exit_code) {
  CLI::App* action = add_action(command, "show", "The text form, rank by rank", typed);
  action->alias("print");
  add_json(*action, typed);
  add_help(*action,
           {{"ringwood schedule show all_reduce ring --ranks 4", "a text to begin with"},
            {"ringwood schedule show broadcast chain --root 2 > chain.txt", ""},
            {"ringwood schedule show all_reduce hierarchical --hosts 0,0,1,1 --json", ""}},
           {{0, "all is well"}, {2, "bad input"}});
  action->callback([typed, &exit_code] { exit_code = show(*typed); });
}

void add_verify(CLI::App& command, const RawArguments& typed, int& exit_code) {
  CLI::App* action =
      add_action(command, "verify", "The proof, or a counterexample in words", typed);
  add_json(*action, typed);
  add_help(*action,
           {{"ringwood schedule verify all_reduce swing --ranks 64", ""},
            {"ringwood schedule verify broadcast --file chain.txt --root 2", ""},
            {"python3 mine.py | ringwood schedule verify all_reduce --file - --json", ""}},
           {{0, "proved"}, {1, "refuted"}, {2, "bad input"}});
  action->callback([typed, &exit_code] { exit_code = verify_them(*typed); });
}

void add_draw(CLI::App& command, const RawArguments& typed, int& exit_code) {
  CLI::App* action =
      add_action(command, "draw", "What is sent when: a table, or an SVG picture", typed);
  const auto svg = std::make_shared<std::string>();
  CLI::Option* picture =
      action->add_option("--svg", *svg, "a picture instead of the table; - is standard output")
          ->type_name("FILE");
  add_json(*action, typed)->excludes(picture);
  add_help(
      *action,
      {{"ringwood schedule draw all_reduce ring --ranks 4", ""},
       {"ringwood schedule draw all_reduce hierarchical --hosts 0,0,1,1 --svg picture.svg", ""},
       {"ringwood schedule draw all_reduce --algorithm ring --json", "every message, its rounds"},
       {"python3 mine.py | ringwood schedule draw all_reduce --file -", ""}},
      {{0, "all is well"}, {2, "bad input"}});
  action->callback([typed, svg, &exit_code] { exit_code = draw_them(*typed, *svg); });
}

}  // namespace

void add_schedule_command(CLI::App& app, int& exit_code) {
  auto typed = std::make_shared<TypedSchedule>();
  CLI::App* command = app.add_subcommand("schedule", "Show, prove, cost, draw and run schedules");
  command->require_subcommand(1);
  add_show(*command, typed, exit_code);
  add_verify(*command, typed, exit_code);
  add_cost(*command, typed, exit_code);
  add_draw(*command, typed, exit_code);
  add_run(*command, exit_code);
  add_help(
      *command,
      {{"ringwood schedule show broadcast chain --root 2 > chain.txt", "a text, for an editor"},
       {"ringwood schedule verify broadcast --file chain.txt --root 2", "a proof"},
       {"ringwood schedule cost broadcast --file chain.txt --root 2", "predicted times"},
       {"ringwood schedule draw broadcast --file chain.txt --root 2", "a picture"},
       {"ringwood schedule run broadcast --file chain.txt --root 2", "on real processes"}},
      {{0, "all is well"},
       {1, "refuted, or a result is wrong, or a run failed"},
       {2, "bad input"}});
}

}  // namespace ringwood::tools
