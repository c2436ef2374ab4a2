#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <string_view>

#include "tools/command/help.h"
#include "tools/command/numbers.h"
#include "tools/command/refusal.h"
#include "tools/command/types_and_ops.h"
#include "tools/ladder/ladder_options.h"

#include "tools/perf/nccl_tests/nccl_call.h"
#include "tools/perf/nccl_tests/nccl_options.h"
#include "tools/perf/nccl_tests/nccl_trial.h"
#include "tools/perf/perf.h"
#include "tools/perf/soak/soak.h"
#include "tools/replay/perf_replay.h"

namespace ringwood::tools {
namespace {

// As they are typed; interpreted once the command line is complete.
struct RawArguments {
  std::vector<std::string> collectives;
  std::string min_bytes = "8", max_bytes = "64M", step_bytes = "0", sizes;
  int64_t factor = 2;
  std::string type = "float32", op = "sum", algorithms, transports;
  std::string csv, json, html, require, hosts;
  std::string root = "0";
  int check = 1, pin = 1;
  NcclTyped nccl;
  PerfOptions perf;
  std::string memory = "private";
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts = CLI::detail::split(text, ',');
  std::erase(parts, "");
  return parts;
}

// A list that was typed and is empty would be as if nothing had been typed.
void require_names(const CLI::App& command) {
  for (const char* option :
       {"--sizes", "--algorithm", "-a", "--transport", "--require", "--dtype", "--op"}) {
    if (command.count(option) == 0) continue;
    const std::string typed = command.get_option(option)->results().back();
    if (split(typed).empty()) refuse(fmt::format("{} {:?} names nothing", option, typed));
  }
}

constexpr size_t kMaxSizes = 1000000;  // lines that nobody would wait for, nor read

std::vector<size_t> parse_sizes(const RawArguments& typed) {
  std::vector<size_t> sizes;
  for (const std::string& size : split(typed.sizes)) sizes.push_back(parse_bytes("--sizes", size));
  if (!sizes.empty()) {
    std::sort(sizes.begin(), sizes.end());
    return sizes;
  }
  const size_t first = parse_bytes("--minbytes", typed.min_bytes),
               last = parse_bytes("--maxbytes", typed.max_bytes);
  const size_t step = parse_bytes("--stepbytes", typed.step_bytes);
  if (first > last)
    refuse(
        fmt::format("--minbytes {} is more than --maxbytes {}", typed.min_bytes, typed.max_bytes));
  if (step == 0 && typed.factor < 2)
    refuse(fmt::format("--stepfactor {} is not at least 2", typed.factor));
  for (size_t size = std::max<size_t>(first, 1); size <= last;) {
    if (sizes.size() == kMaxSizes)
      refuse(fmt::format("--stepbytes {} makes more than {} sizes; take larger steps",
                         typed.step_bytes, kMaxSizes));
    sizes.push_back(size);
    const size_t factor = static_cast<size_t>(typed.factor);
    const bool multiply = step == 0 || (typed.nccl.chosen() && factor > 1);
    if (multiply && size > last / factor) break;
    size = multiply ? size * factor : size + step;
  }
  return sizes;
}

std::vector<const OperationRow*> parse_operations(const std::vector<std::string>& names) {
  std::vector<const OperationRow*> rows;
  for (const std::string& name : names) {
    if (name != "all") {
      rows.push_back(&find_operation(name));
      continue;
    }
    for (const OperationRow& row : operation_table()) rows.push_back(&row);
  }
  return rows;
}

// "all" leaves out what does not exist; what was asked for by name must.
void require_all_supported(const PerfOptions& perf) {
  for (DataType type : perf.types)
    for (ReduceOp op : perf.ops)
      for (const OperationRow* row : perf.operations)
        if (row->collective) require_supported(*row->collective, type, op);
}

// `--json all_reduce` means the table of all_reduce as JSON, not a file of that name.
std::optional<std::string> output_file(const CLI::Option& option, const std::string& value,
                                       RawArguments& typed) {
  if (option.count() == 0) return std::nullopt;
  if (value.empty()) return "-";
  const auto rows = operation_table();
  const bool is_name =
      value == "all" ||
      std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return value == row.name(); });
  if (!is_name || !typed.collectives.empty()) return value;
  typed.collectives.push_back(value);
  return "-";
}

// `-r -1` is how nccl-tests says all.
void parse_root(const std::string& text, PerfOptions& perf) {
  perf.all_roots = text == "all" || text == "-1";
  if (perf.all_roots) return;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), perf.root);
  if (error != std::errc() || end != text.data() + text.size())
    refuse(fmt::format("--root {:?} is not a rank, nor all", text));
}

// In its own format nccl-tests has 32 MiB alone, in steps of bytes, and its own types.
void take_nccl_defaults(RawArguments& typed, const CLI::App& command) {
  if (!typed.nccl.chosen()) return;
  const auto given = [&](const char* name) { return command.get_option(name)->count() > 0; };
  if (!given("--minbytes")) typed.min_bytes = "32M";
  if (!given("--maxbytes")) typed.max_bytes = "32M";
  if (!given("--stepbytes")) typed.step_bytes = "1M";
  if (!given("--stepfactor")) typed.factor = 1;
  if (typed.type == "all")
    typed.type = "int8,uint8,int32,uint32,int64,half,float,double,bfloat16,f8e4m3,f8e5m2";
  if (typed.op == "all") typed.op = "sum,prod,max,min,avg,mulsum";
}

void take_sizes(const RawArguments& typed, NcclTestsOptions& nccl) {
  nccl.min_bytes = parse_bytes("--minbytes", typed.min_bytes);
  nccl.max_bytes = parse_bytes("--maxbytes", typed.max_bytes);
  nccl.step_bytes = parse_bytes("--stepbytes", typed.step_bytes);
  nccl.step_factor = typed.factor;
}

// What is measured by a command of its own.
void refuse_matrix_of(const std::string& what) {
  std::error_code ignored;
  if ((what != "hosts" && what != "rails") || std::filesystem::exists(what, ignored)) return;
  refuse(
      fmt::format("--matrix {}: the pairs of {} are measured by ringwood matrix{} --json FILE, "
                  "started as this is; --matrix shows that FILE in a report",
                  what, what, what == "rails" ? " --rails mlx5_0,mlx5_1" : ""));
}

// An option that would be left aside is refused.
void require_soak_options(const PerfOptions& perf, const CLI::App& command) {
  const bool soaks = perf.repeats() && !perf.nccl;
  if (command.count("--interval") > 0 && !soaks)
    refuse(
        "--interval is what a line takes where the table is repeated in our own format; give -N, "
        "0 is until stopped");
  if (!soaks) return;
  for (const char* option : {"--iters", "--batches"})
    if (command.count(option) > 0)
      refuse(fmt::format("-N measures for an --interval, not in batches; leave {} out", option));
  validate_soak(perf);
}

// In the format of nccl-tests it is 1 for a report on the memory of GPUs, 0 for none.
BufferKind parse_memory(const RawArguments& typed, PerfOptions& perf) {
  static const std::map<std::string, BufferKind> kKinds{{"private", BufferKind::ordinary},
                                                        {"shared", BufferKind::shared},
                                                        {"remapped", BufferKind::remapped},
                                                        {"cuda", BufferKind::device}};
  if (const auto found = kKinds.find(typed.memory); found != kKinds.end()) return found->second;
  if (!typed.nccl.chosen() || (typed.memory != "0" && typed.memory != "1"))
    refuse(
        fmt::format("--memory {:?} is none of private, shared, remapped and cuda", typed.memory));
  if (typed.memory == "1")
    perf.warnings.emplace_back("--memory 1 is a report on the memory of GPUs; ignored");
  return BufferKind::ordinary;
}

PerfOptions interpret(RawArguments& typed, const CLI::App& command) {
  PerfOptions perf = typed.perf;
  require_names(command);
  if (command.count("--hosts") > 0)
    refuse(
        "--hosts is where a prediction (ringwood explain, ringwood simulate) places its ranks; "
        "here they run where they are started: mpirun, srun, torchrun, or --ranks N on this host");
  perf.report.csv = output_file(*command.get_option("--csv"), typed.csv, typed);
  perf.report.json = output_file(*command.get_option("--json"), typed.json, typed);
  if (!typed.html.empty()) perf.report.html = typed.html;
  refuse_matrix_of(perf.report.matrix);
  if (!perf.report.matrix.empty() && !perf.report.html)
    refuse("--matrix shows rates of pairs in the report of --html; give both");
  if (!perf.report.compare.empty() && !perf.report.html)
    refuse("--compare shows earlier results in the report of --html; give both");
  if (perf.report.csv == "-" && perf.report.json == "-")
    refuse("--csv and --json cannot both go to standard output; name a file");
  const CLI::Option* const replay = command.get_option_no_throw("--replay");
  if (typed.perf.ladder && !typed.collectives.empty())
    refuse("--ladder takes the place of the collectives: give one of them");
  if (typed.collectives.empty() && !typed.perf.ladder && !(replay && *replay))
    refuse("which collective? For example: ringwood perf all_reduce");
  const bool has_all = typed.type == "all" || typed.op == "all";
  take_nccl_defaults(typed, command);
  perf.operations = parse_operations(typed.collectives);
  perf.types = parse_data_types(typed.type);
  perf.ops = parse_reduce_ops(typed.op);
  perf.sizes = parse_sizes(typed);
  parse_root(typed.root, perf);
  perf.transports = split(typed.transports);
  perf.require = split(typed.require);
  if (!typed.nccl.chosen() && !typed.nccl.a.empty()) {
    if (!typed.algorithms.empty()) refuse("-a and --algorithm both name algorithms; give one");
    typed.algorithms = typed.nccl.a;
  }
  perf.algorithms = split(typed.algorithms);
  if (std::ranges::count(perf.algorithms, "all") > 0) perf.algorithms = {"all"};
  perf.check = typed.check != 0;
  perf.memory = parse_memory(typed, perf);
  if (perf.memory == BufferKind::device && perf.trial.touch)
    refuse("--touch is of the host's memory, which --memory cuda does not measure; leave one out");
  perf.launch.pin = typed.pin != 0;
  if (!has_all) require_all_supported(perf);
  interpret_nccl_options(typed.nccl, command, typed.check, perf);
  if (perf.nccl && perf.memory == BufferKind::device)
    refuse("--memory cuda is measured in our own format only; leave it or --format nccl-tests out");
  if (perf.nccl) take_sizes(typed, *perf.nccl);
  require_soak_options(perf, command);
  return perf;
}

void add_what(CLI::App& command, RawArguments& typed) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->group("What")->type_name(type);
  };
  command
      .add_option("collective", typed.collectives,
                  "all_reduce, broadcast, ..., sendrecv; several, or all")
      ->type_name("COLLECTIVE|all");
  add("-b,--minbytes", typed.min_bytes, "SIZE", "smallest size (8); K, M, G, T are powers of 1024");
  add("-e,--maxbytes", typed.max_bytes, "SIZE", "largest size (64M)");
  add("-f,--stepfactor", typed.factor, "N", "each size is the last one times N (2)")
      ->check(whole(0, INT64_MAX));
  add("-i,--stepbytes", typed.step_bytes, "SIZE", "or the last one plus SIZE");
  command
      .add_flag("--ladder", typed.perf.ladder,
                "instead: port, raw socket and verbs, link, collective, torch; where the time goes")
      ->group("What");
  add("--sizes", typed.sizes, "LIST", "or exactly these: 8,4K,64M");
  add_type_and_op(command, typed.type, typed.op, HowMany::several, "What");
  add("-r,--root", typed.root, "RANK|all", "of the collectives that have one; or all (0)");
}

void add_how(CLI::App& command, RawArguments& typed) {
  PerfOptions& perf = typed.perf;
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->group("How")->type_name(type);
  };
  add("--ranks", perf.launch.ranks, "N", "ranks to start here (2); a launcher's are joined")
      ->check(whole(1, 1024));
  add("--algorithm", typed.algorithms, "ALGORITHM,...|all",
      "instead of the choice; several, or all, take turns; see ringwood algorithms");
  add("--hosts", typed.hosts, "HOSTS", "")->group("")->expected(0, 1);
  add("--segments", perf.segments, "N", "pipeline segments instead of the choice")
      ->check(whole(1, 4096));
  add("--tolerance", perf.tolerance, "ERROR",
      "relative error that fp32 sums between hosts may have (RINGWOOD_TOLERANCE)")
      ->check(decimal(0.0, 0.999));
  add("--transport", typed.transports, "TRANSPORT,...", "only these: shm, tcp, ...");
  add("--memory", typed.memory, "private|shared|remapped|cuda",
      "private; shared: the ranks of a host read it in place; remapped: becomes so; cuda: of the "
      "host's devices in turn (private)");
  add("-n,--iters", perf.trial.iters, "N", "operations per batch (as many as fill 2 ms)")
      ->check(whole(1, 100000000));
  add("-w,--warmup_iters", perf.trial.warmup, "N", "operations before the first batch (5)")
      ->check(whole(0, 100000000));
  add("--batches", perf.trial.batches, "N", "batches, for best and median (7)")
      ->check(whole(1, 1000000));
  add("-N,--run_cycles", perf.cycles, "N",
      "the table N times, an --interval a line; 0: until stopped (1)")
      ->check(whole(0, 1000000));
  add("--interval", perf.interval_s, "SECONDS", "that a line takes with -N (5)")
      ->check(decimal(0.01, 86400));
  command
      .add_flag("--touch", perf.trial.touch,
                "write the input before, read the output within each timed operation")
      ->group("How");
  add("-c,--check", typed.check, "N", "0: compare no result (1)")->check(whole(0, 1000000));
  add("--pin", typed.pin, "0|1", "one core per started rank, where there are enough (1)")
      ->check(whole(0, 1));
  add("-T,--timeout", perf.timeout_s, "SECONDS", "for one operation; 0: RINGWOOD_TIMEOUT (0)")
      ->check(decimal(0.0, 1e6));
  add("--rendezvous", perf.launch.rendezvous, "URL",
      "where ranks meet: env://, file:///path, tcp://host:port");
}

void add_output(CLI::App& command, RawArguments& typed) {
  const auto add = [&](const char* name, std::string& file, const char* description) {
    command.add_option(name, file, description)
        ->group("Output")
        ->expected(0, 1)
        ->type_name("[FILE]");
  };
  add("--csv", typed.csv, "rows as CSV, to FILE or standard output");
  add("--json", typed.json, "an object with version, host and rows, likewise");
  const auto add_output = [&](const char* name, auto& value, const char* type, const char* what) {
    return command.add_option(name, value, what)->group("Output")->type_name(type);
  };
  add_output("--html", typed.html, "FILE", "a report with plots, which opens without a network");
  add_output("--compare", typed.perf.report.compare, "[NAME=]FILE",
             "earlier JSON, also of nccl-tests or bench/peers, beside it; as often as wanted");
  add_output("--matrix", typed.perf.report.matrix, "FILE",
             "heat maps of ringwood matrix --json in the report");
  add_output("--min-busbw", typed.perf.min_busbw, "GB/s",
             "exit code 1 if a line has less bus bandwidth (of its median time)")
      ->check(decimal(0.0, 1e6));
  add_output("--require", typed.require, "verbs|tcp,...",
             "exit code 1 unless hosts reach each other over one of these: verbs, tcp");
}

}  // namespace

std::function<PerfOptions()> declare_perf_options(CLI::App& command) {
  auto typed = std::make_shared<RawArguments>();
  add_what(command, *typed);
  add_how(command, *typed);
  add_output(command, *typed);
  declare_nccl_options(command, typed->nccl);
  return [typed, &command] { return interpret(*typed, command); };
}

void add_perf_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("perf", "Time collectives and check their results");
  command->option_defaults()->take_last();  // scripts append what overrides their defaults
  const auto options = declare_perf_options(*command);
  const auto replay = std::make_shared<ReplayOptions>();
  declare_replay_options(*command, *replay);
  add_help(
      *command,
      {{"ringwood perf all_reduce --ranks 4", "forks 4 ranks"},
       {"mpirun -n 2 --map-by node ringwood perf --ladder", "port, socket, link, group, torch"},
       {"mpirun -n 4 ringwood perf all_gather -e 1M", "joins those of mpirun, srun or torchrun"},
       {"ringwood perf all --ranks 3 -d all -o all -e 4K", "every collective, type and operation"},
       {"ringwood perf all_reduce --json out.json", "for programs"},
       {"ringwood perf all_reduce --html report.html", "for people, with plots"},
       {"ringwood perf all_reduce --format nccl-tests -b 1M -e 4M -f 2 -g 2", "as nccl-tests"},
       {"mpirun -n 8 ringwood perf --replay traces --gaps", "a recorded training step, once more"},
       {"ringwood perf all_reduce -b 64M -e 64M -N 0 --csv soak.csv", "until stopped"},
       {"srun ringwood perf all_reduce -b 64M -e 64M --min-busbw 40", "exit code 1 if slower"}});
  const auto perf = std::make_shared<PerfOptions>();
  const auto ladder = std::make_shared<LadderOptions>();
  when_parsed(*command, [perf, ladder, options, replay, command] {
    *perf = options();
    perf->replay = *replay;
    if (perf->ladder) *ladder = ladder_of(*perf, *command);
    if (replay->trace.empty()) return;
    require_alone(*command);
    if (command->count("--batches") == 0) perf->trial.batches = replay->gaps ? 1 : 3;
  });
  command->callback([perf, ladder, &exit_code] {
    exit_code = perf->ladder ? run_ladder(*ladder) : run_perf(*perf);
  });
}

}  // namespace ringwood::tools
