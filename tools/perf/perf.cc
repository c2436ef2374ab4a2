#include "tools/perf/perf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>

#include "collectives/algorithms/algorithms.h"
#include "tools/perf/html/perf_compare.h"
#include "tools/perf/html/perf_html_facts.h"
#include "tools/perf/nccl_tests/nccl_run.h"
#include "tools/perf/nccl_tests/nccl_trial.h"
#include "tools/perf/perf_run.h"
#include "tools/perf/soak/soak.h"
#include "tools/replay/perf_replay.h"
#include "transports/base/knobs/nearest.h"
#include "transports/base/options.h"
#include "transports/transport.h"

namespace ringwood::tools {
namespace {

Options communicator_options(const PerfOptions& perf) {
  Options options = Options::from_environment();
  if (!perf.transports.empty()) options.transports = perf.transports;
  if (perf.tolerance >= 0) options.tolerance = perf.tolerance;
  if (perf.timeout_s > 0) {
    options.timeout = std::chrono::milliseconds(std::max(1LL, std::llround(perf.timeout_s * 1000)));
    options.init_timeout = options.timeout;
  }
  if (perf.memory == BufferKind::remapped && options.remap == 0) options.remap = 16 << 10;
  return options;
}

void require_algorithm(const OperationRow& row, const std::string& name, int ranks) {
  if (!row.collective)
    refuse(fmt::format("{} has no algorithms to choose from; leave --algorithm away", row.name()));
  const AlgorithmRow* found = find_algorithm(*row.collective, name);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const AlgorithmRow& other : algorithm_table()) {
      if (other.collective == *row.collective) names.push_back(other.name);
    }
    const std::string near = did_you_mean(name, names);
    refuse(fmt::format("{} has no algorithm {:?}{} has {}", row.name(), name,
                       near.empty() ? "; it" : near + " It", fmt::join(names, ", ")));
  }
  // Where the ranks will be is not known yet.
  std::vector<int> two_hosts(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) two_hosts[static_cast<size_t>(r)] = 2 * r / ranks;
  if (!found->accepts(ranks) && !found->accepts(Where{0, ranks, 0, two_hosts}))
    refuse(fmt::format("algorithm {} of {} does not work with {} ranks", name, row.name(), ranks));
}

void require_transports(const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const TransportRow& row : transport_table()) names.push_back(row.name);
  for (const std::string& name : wanted) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      const std::string near = did_you_mean(name, names);
      refuse(fmt::format("there is no transport {:?}{} are {}", name,
                         near.empty() ? "; there" : near + " There", fmt::join(names, ", ")));
    }
  }
}

// Before anything is measured.
void require_folder(const char* option, const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    refuse(fmt::format("{} {}: it is a folder, not a file", option, file));
  const auto folder = std::filesystem::absolute(file).parent_path();
  if (::access(folder.c_str(), W_OK) != 0)
    refuse(fmt::format("{}: {} is not a folder that can be written to", option, folder.string()));
}

void validate_files(const PerfOptions& perf, int ranks) {
  if (perf.nccl && !perf.nccl->output_file.empty()) require_folder("-J", perf.nccl->output_file);
  if (perf.report.html) require_folder("--html", *perf.report.html);
  if (!perf.report.matrix.empty()) read_matrix(perf.report.matrix);
  for (const std::string& what : perf.report.compare) read_earlier_results(what, ranks, "plain");
}

void validate(const PerfOptions& perf, int ranks) {
  if (perf.root < 0 || perf.root >= ranks)
    refuse(fmt::format("--root {} is not one of the ranks 0 to {}", perf.root, ranks - 1));
  require_transports(perf.transports);
  require_transports(perf.require);
  if (perf.nccl) validate_nccl_tests(perf, ranks);
  for (const OperationRow* row : perf.operations) {
    for (const std::string& name : perf.algorithms)
      if (!(perf.all_algorithms() && row->collective)) require_algorithm(*row, name, ranks);
    if (!row->collective && ranks == 1 && perf.operations.size() == 1)
      refuse(fmt::format("{} needs at least 2 ranks", row->name()));
  }
}

std::string remarks(const PerfOptions& perf) {
  std::string text;
  if (perf.memory == BufferKind::shared)
    text += ", buffers in memory that the ranks of a host share";
  if (perf.memory == BufferKind::remapped) text += ", buffers that became shared memory in place";
  if (perf.trial.touch) text += ", buffers touched before and after";
  return text;
}

void set_gpus(PerfOptions& perf, int gpus) {
  perf.nccl = std::make_shared<NcclTestsOptions>(*perf.nccl);
  perf.nccl->gpus = gpus;
  perf.nccl->threads = 1;
}

// Ranks by -g and -t are forked, also by the only process of a launcher (mpirun -n 1, srun -n 1, a
// batch script). Where a launcher has started several, each is one rank, and that is said.
LaunchPlan plan_ranks(PerfOptions& perf, const Options& options) {
  LaunchOptions launch_options = perf.launch;
  launch_options.init_timeout = options.init_timeout;
  launch_options.finishes = perf.repeats();
  LaunchPlan plan = plan_launch(launch_options);
  if (perf.ranks_by_gpus == 0) {
    // The head says what runs: as if -g had asked for it.
    if (perf.nccl && !plan.joins) set_gpus(perf, plan.ranks);
    return plan;
  }
  if (!plan.joins || plan.ranks == 1) {
    launch_options.ranks = perf.ranks_by_gpus;
    return plan_launch(launch_options);
  }
  if (perf.ranks_by_gpus > 1)
    perf.warnings.push_back(fmt::format(
        "-g and -t ask for {} ranks in each process; each of the {} processes that were started is "
        "one rank: start as many as there are to be ranks, with -g 1",
        perf.ranks_by_gpus, plan.ranks));
  if (perf.nccl) set_gpus(perf, 1);
  return plan;
}

}  // namespace

CallOptions PerfOptions::call_options() const {
  CallOptions options = synchronous_call();
  if (algorithms.size() == 1 && !compares()) options.algorithm = algorithms.front();
  options.segments = segments;
  options.schedules = schedules;
  return options;
}

std::vector<int> roots_of(const PerfOptions& perf, int ranks) {
  if (!perf.all_roots) return {perf.root};
  std::vector<int> roots(static_cast<size_t>(ranks));
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

int run_perf(const PerfOptions& typed) {
  PerfOptions perf = typed;
  const Options options = communicator_options(perf);
  const LaunchPlan plan = plan_ranks(perf, options);
  validate(perf, plan.ranks);
  if (plan.speaks()) validate_files(perf, plan.ranks);
  for (const std::string& warning : perf.warnings)
    if (plan.speaks()) fmt::print(stderr, "ringwood: {}\n", warning);
  std::unique_ptr<Report> report;
  RecordedRun recorded;
  if (plan.speaks() && !perf.replay.trace.empty())
    recorded = read_recorded_run(perf.replay.trace, perf.replay.group);
  std::unique_ptr<SoakReport> soak;
  const bool soaks = perf.repeats() && !perf.nccl;
  if (plan.speaks() && soaks)
    soak = std::make_unique<SoakReport>(perf.report, plan.ranks, remarks(perf), perf.cycles,
                                        perf.interval_s);
  else if (plan.speaks() && !perf.nccl && perf.replay.trace.empty())
    report = std::make_unique<Report>(perf.report, plan.ranks, remarks(perf));
  return launch(plan, [&](Place& place) {
    const auto communicator =
        Communicator::create(place.store, place.rank, place.size, options, "perf");
    finish(communicator->barrier());
    place.store.reset();
    place.met();
    const double tolerance = options.reproducible ? 0 : options.tolerance;
    const bool right =
        !perf.replay.trace.empty() ? run_replay(perf, recorded, tolerance, *communicator)
        : perf.nccl                ? run_nccl_tests(perf, tolerance, *communicator)
        : soaks ? run_soak(perf, tolerance, *communicator, place.rank == 0 ? soak.get() : nullptr)
                : measure_operations(perf, tolerance, *communicator,
                                     place.rank == 0 ? report.get() : nullptr);
    finish(communicator->barrier());  // no rank leaves before the last one's result
    return right ? 0 : 1;
  });
}

}  // namespace ringwood::tools
