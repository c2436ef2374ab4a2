#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <map>
#include <string_view>

#include "tools/perf/perf.h"

namespace ringwood::tools {
namespace {

[[noreturn]] void refuse(std::string why) {
  throw Error(ErrorCode::invalid_argument, std::move(why));
}

// As they are typed; interpreted once the command line is complete.
struct Typed {
  std::vector<std::string> collectives;
  std::string min_bytes = "8", max_bytes = "64M", step_bytes = "0", sizes;
  int64_t factor = 2;
  std::string type = "float32", op = "sum", algorithms, transports;
  std::string csv, json;
  int check = 1, pin = 1;
  PerfOptions perf;
  std::string memory = "private";
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts = CLI::detail::split(text, ',');
  std::erase(parts, "");
  return parts;
}

std::vector<size_t> parse_sizes(const Typed& typed) {
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
    sizes.push_back(size);
    const size_t factor = static_cast<size_t>(typed.factor);
    if (step == 0 && size > last / factor) break;
    size = step > 0 ? size + step : size * factor;
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

std::vector<DataType> parse_types(const std::string& text) {
  std::vector<DataType> types;
  for (const std::string& name : split(text)) {
    if (name != "all") types.push_back(parse_data_type(name));
    for (int type = 0; name == "all" && type < kDataTypes; ++type)
      types.push_back(static_cast<DataType>(type));
  }
  return types;
}

std::vector<ReduceOp> parse_ops(const std::string& text) {
  std::vector<ReduceOp> ops;
  for (const std::string& name : split(text)) {
    if (name != "all") ops.push_back(parse_reduce_op(name));
    for (int op = 0; name == "all" && op < kReduceOps; ++op)
      ops.push_back(static_cast<ReduceOp>(op));
  }
  return ops;
}

// "all" leaves out what does not exist; what was asked for by name must.
void require_supported(const Typed& typed, const PerfOptions& perf) {
  if (typed.type == "all" || typed.op == "all") return;
  for (DataType type : perf.types) {
    for (ReduceOp op : perf.ops) {
      const auto lacks = [&](const OperationRow* row) {
        return row->collective && !supports(*row->collective, type, op);
      };
      if (std::ranges::any_of(perf.operations, lacks))
        refuse(fmt::format("{} cannot be reduced by {}", to_string(type), to_string(op)));
    }
  }
}

// `--json all_reduce` means the table of all_reduce as JSON, not a file of that name.
std::optional<std::string> output_file(const CLI::Option& option, const std::string& value,
                                       Typed& typed) {
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

PerfOptions interpret(Typed& typed, const CLI::App& command) {
  PerfOptions perf = typed.perf;
  perf.report.csv = output_file(*command.get_option("--csv"), typed.csv, typed);
  perf.report.json = output_file(*command.get_option("--json"), typed.json, typed);
  if (perf.report.csv == "-" && perf.report.json == "-")
    refuse("--csv and --json cannot both go to standard output; name a file");
  if (typed.collectives.empty()) refuse("which collective? For example: ringwood perf all_reduce");
  perf.operations = parse_operations(typed.collectives);
  perf.types = parse_types(typed.type);
  perf.ops = parse_ops(typed.op);
  perf.sizes = parse_sizes(typed);
  perf.transports = split(typed.transports);
  perf.algorithms = split(typed.algorithms);
  if (std::ranges::count(perf.algorithms, "all") > 0) perf.algorithms = {"all"};
  perf.check = typed.check != 0;
  static const std::map<std::string, BufferKind> kKinds{{"private", BufferKind::ordinary},
                                                        {"shared", BufferKind::shared},
                                                        {"remapped", BufferKind::remapped}};
  perf.memory = kKinds.at(typed.memory);
  perf.launch.pin = typed.pin != 0;
  require_supported(typed, perf);
  return perf;
}

// Without the text that CLI11 would add to every line of the help.
template <class T>
CLI::Validator in_range(T least, T most) {
  return CLI::Range(least, most).description("");
}

void add_what(CLI::App& command, Typed& typed) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->group("What")->type_name(type);
  };
  command
      .add_option("collective", typed.collectives,
                  "all_reduce, broadcast, ..., sendrecv; several, or all")
      ->type_name("NAME");
  add("-b,--minbytes", typed.min_bytes, "SIZE", "smallest size (8); K, M, G are powers of 1024");
  add("-e,--maxbytes", typed.max_bytes, "SIZE", "largest size (64M)");
  add("-f,--stepfactor", typed.factor, "N", "each size is the last one times N (2)");
  add("-i,--stepbytes", typed.step_bytes, "SIZE", "or the last one plus SIZE");
  add("--sizes", typed.sizes, "LIST", "or exactly these: 8,4K,64M");
  add("-d,--datatype", typed.type, "LIST", "float32, bfloat16, ...; or all (float32)");
  add("-o,--op", typed.op, "LIST", "sum, avg, max, ...; or all (sum)");
  add("-r,--root", typed.perf.root, "RANK", "of the collectives that have one (0)");
}

void add_how(CLI::App& command, Typed& typed) {
  PerfOptions& perf = typed.perf;
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->group("How")->type_name(type);
  };
  add("--ranks", perf.launch.ranks, "N", "ranks to start here (2); a launcher's are joined")
      ->check(in_range(1, 1024));
  add("-a,--algorithm", typed.algorithms, "LIST",
      "instead of the choice; several, or all, take turns; see ringwood algorithms");
  add("--segments", perf.segments, "N", "pipeline segments instead of the choice")
      ->check(in_range(1, 4096));
  add("--tolerance", perf.tolerance, "ERROR",
      "relative error that fp32 sums between hosts may have (RINGWOOD_TOLERANCE)")
      ->check(in_range(0.0, 0.999));
  add("--transport", typed.transports, "LIST", "only these: shm, tcp, ...");
  add("--memory", typed.memory, "KIND",
      "private; shared: the ranks of a host read it in place; remapped: becomes so (private)")
      ->check(CLI::IsMember({"private", "shared", "remapped"}));
  add("-n,--iters", perf.trial.iters, "N", "operations per batch (as many as fill 2 ms)")
      ->check(in_range(1, 100000000));
  add("-w,--warmup_iters", perf.trial.warmup, "N", "operations before the first batch (5)")
      ->check(in_range(0, 100000000));
  add("--batches", perf.trial.batches, "N", "batches, for best and median (7)")
      ->check(in_range(1, 1000000));
  command
      .add_flag("--touch", perf.trial.touch,
                "write the input before, read the output within each timed operation")
      ->group("How");
  add("--check", typed.check, "0|1", "compare every result (1)")->check(in_range(0, 1));
  add("--pin", typed.pin, "0|1", "one core per started rank, where there are enough (1)")
      ->check(in_range(0, 1));
  add("-T,--timeout", perf.timeout_s, "SECONDS", "for one operation (RINGWOOD_TIMEOUT)")
      ->check(in_range(0.001, 1e6));
  add("--rendezvous", perf.launch.rendezvous, "URL",
      "where ranks meet: env://, file:///path, tcp://host:port");
}

void add_output(CLI::App& command, Typed& typed) {
  const auto add = [&](const char* name, std::string& file, const char* description) {
    command.add_option(name, file, description)
        ->group("Output")
        ->expected(0, 1)
        ->type_name("[FILE]");
  };
  add("--csv", typed.csv, "rows as CSV, to FILE or standard output");
  add("--json", typed.json, "an object with version, host and rows, likewise");
}

}  // namespace

size_t parse_bytes(const std::string& option, const std::string& text) {
  static constexpr std::string_view kUnits[] = {"",   "B",   "K", "KB", "KIB", "M",
                                                "MB", "MIB", "G", "GB", "GIB"};
  size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  std::string unit(rest, end);
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto known = std::find(std::begin(kUnits), std::end(kUnits), unit);
  if (error != std::errc() || known == std::end(kUnits) || value >= size_t{1} << 32) {
    refuse(fmt::format("{} {:?} is not a size; write 512, 64K, 16M or 1G", option, text));
  }
  const auto row = static_cast<size_t>(known - std::begin(kUnits));
  return row < 2 ? value : value << 10 * ((row + 1) / 3);
}

std::function<PerfOptions()> declare_perf_options(CLI::App& command) {
  auto typed = std::make_shared<Typed>();
  add_what(command, *typed);
  add_how(command, *typed);
  add_output(command, *typed);
  return [typed, &command] { return interpret(*typed, command); };
}

void add_perf_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("perf", "Time collectives and check their results");
  const auto options = declare_perf_options(*command);
  command->footer(
      "Examples:\n"
      "  ringwood perf all_reduce --ranks 4                 forks 4 ranks\n"
      "  mpirun -n 4 ringwood perf all_gather -e 1M         joins the ranks of mpirun, srun or "
      "torchrun\n"
      "  ringwood perf all --ranks 3 -d all -o all -e 4K    every collective, type and operation, "
      "checked\n"
      "  ringwood perf all_reduce --json out.json           for programs");
  command->callback([options, &exit_code] { exit_code = run_perf(options()); });
}

}  // namespace ringwood::tools
