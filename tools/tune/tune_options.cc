#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "tools/command/help.h"
#include "tools/command/numbers.h"
#include "tools/command/types_and_ops.h"
#include "tools/perf/perf.h"
#include "tools/tune/tune.h"
#include "tools/tune/tune_diff.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

// As they are typed.
struct RawArguments {
  std::vector<std::string> collectives, diff;
  std::string min_bytes = "8", max_bytes = "16M", sizes, type = "float32", op = "sum";
  int64_t factor = 8;
  int pin = 1;
  std::string json, html, hosts;
  TuneOptions tune;
};

std::vector<const OperationRow*> operations_of(const std::vector<std::string>& names) {
  std::vector<const OperationRow*> rows;
  for (const std::string& name : names) {
    if (name != "all") {
      rows.push_back(&find_operation(name));
      if (!rows.back()->collective || !rows.back()->moves_data())
        refuse(fmt::format("{} has one way to be carried out: there is nothing to tune", name));
      continue;
    }
    for (const OperationRow& row : operation_table())
      if (row.collective && row.moves_data()) rows.push_back(&row);
  }
  return rows;
}

std::vector<size_t> sizes_of(const RawArguments& typed) {
  std::vector<size_t> sizes;
  for (const std::string& size : CLI::detail::split(typed.sizes, ','))
    if (!size.empty()) sizes.push_back(parse_bytes("--sizes", size));
  if (sizes.empty()) {
    const size_t first = parse_bytes("--minbytes", typed.min_bytes),
                 last = parse_bytes("--maxbytes", typed.max_bytes);
    const auto factor = static_cast<size_t>(typed.factor);
    if (first > last)
      refuse(fmt::format("--minbytes {} is more than --maxbytes {}", typed.min_bytes,
                         typed.max_bytes));
    for (size_t size = std::max<size_t>(first, 1); size <= last; size *= factor) {
      sizes.push_back(size);
      if (size > last / factor) break;
    }
  }
  std::ranges::sort(sizes);
  return sizes;
}

std::optional<std::string> file_of(const CLI::Option& option, const std::string& value) {
  if (option.count() == 0) return std::nullopt;
  return value.empty() ? "-" : value;
}

int run(const RawArguments& typed, const CLI::App& command) {
  if (!typed.diff.empty()) {
    DiffOptions diff;
    diff.before = typed.diff[0];
    diff.after = typed.diff[1];
    for (const OperationRow* row : operations_of(typed.collectives))
      diff.collectives.push_back(*row->collective);
    diff.sizes = sizes_of(typed);
    diff.ranks = typed.tune.launch.ranks;
    diff.hosts = typed.hosts;
    diff.json = file_of(*command.get_option("--json"), typed.json);
    for (const char* option : {"--html", "--output", "--file", "--links"})
      if (command.get_option(option)->count() > 0)
        refuse(fmt::format("--diff measures nothing and writes no file: leave out {}", option));
    return run_tune_diff(diff);
  }
  if (typed.collectives.empty()) refuse("which collective? For example: ringwood tune all_reduce");
  if (!typed.hosts.empty()) refuse("--hosts is for --diff: what is measured is where it is");
  TuneOptions tune = typed.tune;
  tune.operations = operations_of(typed.collectives);
  tune.sizes = sizes_of(typed);
  tune.type = parse_data_type(typed.type);
  tune.op = parse_reduce_op(typed.op);
  for (const OperationRow* row : tune.operations)
    require_supported(*row->collective, tune.type, tune.op);
  tune.json = file_of(*command.get_option("--json"), typed.json);
  tune.html = file_of(*command.get_option("--html"), typed.html);
  if (tune.html == "-") refuse("--html needs the name of a file");
  tune.launch.pin = typed.pin != 0;
  return run_tune(tune);
}

void add_what(CLI::App& command, RawArguments& typed) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->group("What")->type_name(type);
  };
  command
      .add_option("collective", typed.collectives, "all_reduce, broadcast, ...; several, or all")
      ->type_name("COLLECTIVE|all");
  add("-b,--minbytes", typed.min_bytes, "SIZE", "smallest size (8); K, M, G, T are powers of 1024");
  add("-e,--maxbytes", typed.max_bytes, "SIZE", "largest size (16M)");
  add("-f,--stepfactor", typed.factor, "N", "each size is the last one times N (8)")
      ->check(whole(2, 1 << 20));
  add("--sizes", typed.sizes, "LIST", "or exactly these: 8,4K,64M");
  add_type_and_op(command, typed.type, typed.op, HowMany::one, "What");
  add("-r,--root", typed.tune.root, "RANK", "of the collectives that have one (0)");
  add("--tolerance", typed.tune.tolerance, "ERROR",
      "for calls with this tolerance: fewer bytes between hosts take part (0)")
      ->check(decimal(0.0, 0.999));
  add("--memory", typed.tune.memory, "private|shared",
      "of the buffers; shared: the ranks of a host read them in place (private)")
      ->check(CLI::IsMember({"private", "shared"}).description(""));
  add("--file", typed.tune.files, "FILE",
      "schedules as a text, which take part; COLLECTIVE=FILE where several are tuned")
      ->expected(1)
      ->take_all();
}

void add_how(CLI::App& command, RawArguments& typed) {
  TuneOptions& tune = typed.tune;
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->group("How")->type_name(type);
  };
  add("--ranks", tune.launch.ranks, "N", "ranks to start here (2); a launcher's are joined")
      ->check(whole(1, 1024));
  add("--factor", tune.factor, "X", "measure what is predicted within X times the best (3)")
      ->check(decimal(1.0, 1000.0));
  add("--contenders", tune.most, "N", "at most so many for a size, the best predicted ones (12)")
      ->check(whole(1, 1000));
  add("--seconds", tune.seconds, "S", "for all sizes together, about (120)")
      ->check(decimal(1.0, 1e6));
  add("--repetitions", tune.repetitions, "N", "at most so many for a contender (25)")
      ->check(whole(5, 100000));
  command
      .add_flag("--links", tune.links,
                "first find sockets, queue pairs and rings that are faster, and tune with them")
      ->group("How");
  add("--seed", tune.seed, "N", "of the order and the intervals (the time)");
  add("--pin", typed.pin, "0|1", "one core per started rank, where there are enough (1)")
      ->check(whole(0, 1));
  add("--rendezvous", tune.launch.rendezvous, "URL",
      "where ranks meet: env://, file:///path, tcp://host:port");
}

void add_output(CLI::App& command, RawArguments& typed) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->group("Output")->type_name(type);
  };
  add("--output", typed.tune.output, "FILE",
      "the tuning file, or a folder for it (RINGWOOD_TUNING_FILE, or in the cache, where groups "
      "look for it)");
  add("--json", typed.json, "[FILE]", "all that was measured, to FILE or standard output")
      ->expected(0, 1);
  add("--html", typed.html, "FILE", "the same as a page with plots")->expected(1);
  add("--diff", typed.diff, "default|FILE",
      "two of them: measure nothing, but say which choices and defaults change from the first to "
      "the second, and what that is worth; tuning files (of any version), machine models, or "
      "default")
      ->expected(2);
  add("--hosts", typed.hosts, "HOSTS", "of --diff between machine models: 4, or 0,0,1,1");
}

}  // namespace

void add_tune_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "tune", "Measure what else could carry out a collective, and keep what is faster");
  auto typed = std::make_shared<RawArguments>();
  add_what(*command, *typed);
  add_how(*command, *typed);
  add_output(*command, *typed);
  add_help(*command,
           {{"ringwood tune all_reduce --ranks 4", "writes a file that groups on this host find"},
            {"torchrun --nnodes 4 --no-python ringwood tune all_reduce broadcast --output "
             "/shared/tuned.txt",
             "on all hosts"},
            {"torchrun --nnodes 4 --no-python ringwood tune all_reduce --links -b 1M",
             "first sockets, queue pairs and rings, which jobs then take from the file"},
            {"RINGWOOD_TUNING_FILE=/shared/tuned.txt torchrun --nnodes 4 train.py", "uses it"},
            {"ringwood tune broadcast --file mine.txt -b 1M", "a schedule of your own takes part"},
            {"ringwood tune --diff /shared/tuned.txt default", "what it changes, and what for"}});
  command->callback([typed, command, &exit_code] { exit_code = run(*typed, *command); });
}

}  // namespace ringwood::tools
