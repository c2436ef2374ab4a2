#include "tools/perf/nccl_tests/nccl_options.h"
#include "tools/command/numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>

#include "tools/perf/nccl_tests/nccl_call.h"
#include "tools/perf/nccl_tests/nccl_trial.h"

namespace ringwood::tools {
namespace {

// They are about a GPU, or about how its work is started. Scripts write the default of some, 0.
constexpr const char* kIgnored[] = {"-p,--parallel_init",
                                    "-y,--stream_null",
                                    "-G,--cudagraph",
                                    "-x,--cta_policy",
                                    "-D,--device_implementation",
                                    "-V,--device_cta_count",
                                    "-M"};
// They change the output of nccl-tests, and nothing of ours.
constexpr const char* kOnlyTheirs[] = {"--agg_iters",   "--blocking",        "--report_timestamps",
                                       "--output_file", "--per_iter_timing", "--per_iter_skip",
                                       "--unalign",     "--average",         "--report_cputime"};

constexpr int kMaxLocalRanks = 1024;  // processes of one host, as --ranks has them

std::string long_name(const std::string& names) { return names.substr(names.find(',') + 1); }
bool given(const CLI::App& command, const std::string& name) {
  return command.get_option(name)->count() > 0;
}

// Without its folder, and as it is called without MPI.
std::string program_name(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  if (name.ends_with("_mpi")) name.resize(name.size() - 4);
  return name;
}

int parse_average(const char* option, const std::string& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > 3)
    refuse(
        fmt::format("{} {:?} is not 0, 1, 2 or 3, which is what it means in the format of "
                    "nccl-tests; an algorithm is named by --algorithm",
                    option, text));
  return value;
}

// One line for all of them.
void warn_of_ignored(const NcclTyped& typed, PerfOptions& perf) {
  std::vector<std::string> names;
  for (const char* option : kIgnored) {
    const auto found = typed.ignored.find(option);
    if (found != typed.ignored.end() && !found->second.empty() && found->second != "0")
      names.push_back(std::string(option).substr(0, 2));
  }
  if (names.empty()) return;
  perf.warnings.push_back(fmt::format("{} mean{} nothing where no GPU is used; ignored",
                                      fmt::join(names, ", "), names.size() == 1 ? "s" : ""));
}

void warn_of_splits(PerfOptions& perf) {
  for (const char* name : {"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK"}) {
    if (std::getenv(name) != nullptr)
      perf.warnings.push_back(fmt::format("{} is ignored: all ranks are one group", name));
  }
}

// A word would be no demand, and the run would pass.
double bandwidth(const char* least) {
  const std::optional<double> gbs = parse_decimal(least);
  if (!gbs) refuse(fmt::format("NCCL_TESTS_MIN_BW={} is not a number of GB/s", least));
  return *gbs;
}

std::shared_ptr<NcclTestsOptions> options_of(const NcclTyped& typed, const CLI::App& command,
                                             int checks, PerfOptions& perf) {
  auto options = std::make_shared<NcclTestsOptions>();
  if (given(command, "--iters")) options->iters = perf.trial.iters;
  if (given(command, "--warmup_iters")) options->warmup = perf.trial.warmup;
  options->checks = checks;
  options->agg_iters = typed.agg_iters;
  options->blocking = typed.blocking;
  options->cpu_time = typed.cpu_time != 0;
  options->unalign = typed.unalign;
  options->per_iter = typed.per_iter != 0;
  options->per_iter_skip = typed.skip;
  options->timestamps = typed.timestamps != 0;
  if (given(command, "--output_file") && typed.output_file.empty()) refuse("-J \"\" names no file");
  options->output_file = typed.output_file;
  options->gpus = std::max(typed.gpus, 1);
  options->threads = std::max(typed.threads, 1);
  if (!typed.average.empty()) options->average = parse_average("--average", typed.average);
  if (!typed.a.empty()) options->average = parse_average("-a", typed.a);
  if (const char* least = std::getenv("NCCL_TESTS_MIN_BW"))
    options->min_bandwidth = bandwidth(least);
  if (typed.agg_iters > 1)
    perf.warnings.push_back("-m: the operations of an iteration are carried out one by one");
  if (typed.skip > 0 && !options->per_iter) {
    perf.warnings.emplace_back("-K belongs to -I 1; ignored");
    options->per_iter_skip = 0;
  }
  if (options->per_iter_skip >= options->iters) {
    perf.warnings.push_back(
        fmt::format("-K {} leaves none of the {} iterations; ignored", typed.skip, options->iters));
    options->per_iter_skip = 0;
  }
  return options;
}

}  // namespace

void declare_nccl_options(CLI::App& command, NcclTyped& typed) {
  constexpr const char* kGroup = "nccl-tests";
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->group(kGroup)->type_name(type);
  };
  add("--format", typed.format, "ringwood|nccl-tests",
      "ringwood, or nccl-tests: its table, defaults and meaning of flags (ringwood)")
      ->check(CLI::IsMember({"ringwood", "nccl-tests"}).description(""));
  add("-g,--ngpus", typed.gpus, "N", "with -t: N x N ranks are started here")
      ->check(whole(1, 1024));
  add("-t,--nthreads", typed.threads, "N", "likewise")->check(whole(1, 1024));
  add("-a", typed.a, "0-3", "--average there; in our own format --algorithm");
  add("--average", typed.average, "0-3",
      "of the ranks' times: rank 0's, mean, least, greatest (1)");
  add("-m,--agg_iters", typed.agg_iters, "N", "operations per iteration (1)")
      ->check(whole(1, 1000000));
  add("-z,--blocking", typed.blocking, "0-3",
      "1: a barrier after each operation; 2: none; 3: untimed")
      ->check(whole(0, 3));
  add("-S,--report_timestamps", typed.timestamps, "0|1", "a column with the time of day")
      ->check(whole(0, 1));
  add("-C,--report_cputime", typed.cpu_time, "0|1", "time until calls return; here all of it")
      ->check(whole(0, 1));
  add("-J,--output_file", typed.output_file, "FILE", "JSON of nccl-tests");
  add("-I,--per_iter_timing", typed.per_iter, "0|1", "columns i_min, i_max, i_p99, i_cv%")
      ->check(whole(0, 1));
  add("-K,--per_iter_skip", typed.skip, "N", "leading iterations that -I leaves out")
      ->check(whole(0, 1000000));
  add("-u,--unalign", typed.unalign, "N", "elements by which buffers are shifted")
      ->check(whole(0, 4096));
  add("-R,--local_register", typed.registered, "0-2", "1 and 2: --memory shared")
      ->check(whole(0, 2));
  for (const char* option : kIgnored) add(option, typed.ignored[option], "N", "of GPUs; ignored");
}

void interpret_nccl_options(const NcclTyped& typed, const CLI::App& command, int checks,
                            PerfOptions& perf) {
  warn_of_ignored(typed, perf);
  if (typed.registered > 0) perf.memory = BufferKind::shared;
  if (typed.gpus > 0 || typed.threads > 0) {
    const int ranks = std::max(typed.gpus, 1) * std::max(typed.threads, 1);
    if (ranks > kMaxLocalRanks)
      refuse(fmt::format("-g {} -t {} are {} ranks on this host, more than {}",
                         std::max(typed.gpus, 1), std::max(typed.threads, 1), ranks,
                         kMaxLocalRanks));
    if (perf.launch.ranks > 0 && perf.launch.ranks != ranks)
      refuse(fmt::format("--ranks {} contradicts the {} ranks of -g and -t", perf.launch.ranks,
                         ranks));
    perf.ranks_by_gpus = ranks;
  }
  if (typed.chosen()) {
    perf.nccl = options_of(typed, command, checks, perf);
    warn_of_splits(perf);
    return;
  }
  for (const char* option : kOnlyTheirs) {
    if (given(command, option)) refuse(fmt::format("{} belongs to --format nccl-tests", option));
  }
}

void refuse_other_programs(const std::string& path) {
  const std::string name = program_name(path);
  const bool is_v = name == "alltoallv_perf";
  if (is_v || name == "hypercube_perf")
    refuse(fmt::format("nccl-tests' {} has no counterpart here; the nearest is {}", name,
                       is_v ? "alltoall_perf, whose blocks are of one size"
                            : "all_gather_perf --algorithm bruck"));
}

std::optional<std::string> collective_of_program(const std::string& path) {
  const std::string name = program_name(path);
  for (const OperationRow& row : operation_table()) {
    if (row.moves_data() && name == nccl_program(row)) return row.name();
  }
  return std::nullopt;
}

}  // namespace ringwood::tools
