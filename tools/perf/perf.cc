#include "tools/perf/perf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "collectives/algorithms/algorithms.h"
#include "collectives/choice/candidate.h"
#include "tools/perf/perf_counters.h"
#include "transports/base/options.h"
#include "transports/transport.h"

namespace ringwood::tools {
namespace {

[[noreturn]] void refuse(std::string why) {
  throw Error(ErrorCode::invalid_argument, std::move(why));
}

Options communicator_options(const PerfOptions& perf) {
  Options options = Options::from_environment();
  if (!perf.transports.empty()) options.transports = perf.transports;
  if (perf.tolerance >= 0) options.tolerance = perf.tolerance;
  if (perf.timeout_s > 0) {
    options.timeout = std::chrono::milliseconds(std::llround(perf.timeout_s * 1000));
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
    refuse(fmt::format("{} has no algorithm {:?}; it has {}", row.name(), name,
                       fmt::join(names, ", ")));
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
      refuse(fmt::format("there is no transport {:?}; there are {}", name, fmt::join(names, ", ")));
    }
  }
}

void validate(const PerfOptions& perf, int ranks) {
  if (perf.root < 0 || perf.root >= ranks)
    refuse(fmt::format("--root {} is not one of the ranks 0 to {}", perf.root, ranks - 1));
  require_transports(perf.transports);
  for (const OperationRow* row : perf.operations) {
    for (const std::string& name : perf.algorithms)
      if (!(perf.all_algorithms() && row->collective)) require_algorithm(*row, name, ranks);
    if (!row->collective && ranks == 1 && perf.operations.size() == 1)
      refuse(fmt::format("{} needs at least 2 ranks", row->name()));
  }
}

// Fits whole blocks into `bytes`; at least one element each.
size_t count_for(const OperationRow& row, size_t bytes, DataType type, int ranks) {
  const size_t blocks = row.in_blocks() ? static_cast<size_t>(ranks) : 1;
  return std::max<size_t>(1, bytes / (blocks * size_of(type)));
}

size_t reported_bytes(const OperationRow& row, const Call& call) {
  return call.block_bytes() * static_cast<size_t>(row.in_blocks() ? call.size() : 1);
}

// The measurement of one rank.
class Run {
 public:
  Run(const PerfOptions& perf, double tolerance, Communicator& communicator, Report* report)
      : perf_(perf), tolerance_(tolerance), communicator_(communicator), report_(report) {}

  // Whether every result was right.
  bool all() {
    for (const OperationRow* row : perf_.operations) {
      if (!row->collective && communicator_.size() == 1) continue;
      if (report_ != nullptr) report_->begin(row->name());
      if (!row->moves_data()) {
        sweep(*row, DataType::uint8, ReduceOp::sum, {0});
        continue;
      }
      for (DataType type : perf_.types) {
        for (ReduceOp op : row->reduces() ? perf_.ops : std::vector<ReduceOp>{ReduceOp::sum}) {
          if (!row->collective || supports(*row->collective, type, op))
            sweep(*row, type, op, perf_.sizes);
        }
      }
    }
    if (report_ != nullptr) report_->end(network_.risen());
    return wrong_ == 0;
  }

 private:
  void sweep(const OperationRow& row, DataType type, ReduceOp op,
             const std::vector<size_t>& sizes) {
    Call call{&communicator_, type, op, perf_.root, 0, nullptr, nullptr, synchronous_call()};
    if (perf_.algorithms.size() == 1 && !perf_.compares())
      call.options.algorithm = perf_.algorithms.front();
    call.options.segments = perf_.segments;
    call.options.schedules = perf_.schedules;
    if (row.reduces()) call.options.factor = Pattern::factor(op, communicator_.rank());
    const Pattern pattern =
        row.reduces() ? Pattern(type, op, call.size(), tolerance_) : Pattern(type, call.size());
    size_t last = 0;
    for (size_t bytes : sizes) {
      call.count = bytes == 0 ? 0 : count_for(row, bytes, type, call.size());
      if (call.count == last && last != 0) continue;  // sizes below one element per block
      last = call.count;
      const Buffer in(row.inputs(call) * call.block_bytes(), perf_.memory);
      std::optional<Buffer> out;
      call.in = in.data();
      call.out = row.in_place()
                     ? in.data()
                     : out.emplace(row.outputs(call) * call.block_bytes(), perf_.memory).data();
      if (perf_.compares() && call.size() > 1)
        compare(row, call, pattern);
      else
        measure(row, call, pattern);
    }
  }

  // The flat rows that are the same as one before them, the choice first: with two ranks most are.
  std::set<std::string> repeated(Collective collective, const std::string& chosen) const {
    std::vector<const AlgorithmRow*> rows = {find_algorithm(collective, chosen)};
    for (const AlgorithmRow& row : algorithm_table())
      if (row.collective == collective && row.name != chosen) rows.push_back(&row);
    std::set<std::string> names;
    std::vector<std::vector<Schedule>> known;
    for (const AlgorithmRow* row : rows) {
      if (!row || !row->accepts(communicator_.size())) continue;
      std::vector<Schedule> all = build_all(*row, Where{0, communicator_.size(), perf_.root});
      if (std::find(known.begin(), known.end(), all) != known.end())
        names.insert(row->name);
      else
        known.push_back(std::move(all));
    }
    return names;
  }

  // Each algorithm with one segment and with the segments that are predicted to be its best.
  std::vector<Candidate> contestants(const OperationRow& row, const Call& call) const {
    std::vector<Candidate> taken;
    const auto choice =
        communicator_.choice(*row.collective, call.block_bytes(), call.type, call.op);
    std::set<std::string> left_out;
    if (perf_.all_algorithms()) left_out = repeated(*row.collective, choice.algorithm);
    std::map<std::string, Candidate> best;
    for (const Candidate& c :
         communicator_.explain(*row.collective, call.block_bytes(), call.type, call.op)) {
      const bool named = std::ranges::count(perf_.algorithms, c.algorithm) > 0;
      if (std::isinf(c.seconds) || left_out.count(c.algorithm) > 0) continue;
      if (!named && !perf_.all_algorithms()) continue;
      const auto [it, first] = best.try_emplace(c.algorithm, c);
      if (!first && (c.chosen || (!it->second.chosen && c.seconds < it->second.seconds)))
        it->second = c;
      if (c.segments == 1) taken.push_back(c);
    }
    for (const auto& [name, c] : best)
      if (c.segments != 1) taken.push_back(c);
    return taken;
  }

  // All of them take turns, batch by batch, so that a slow moment of the machine hits all.
  void compare(const OperationRow& row, const Call& call, const Pattern& pattern) {
    const std::vector<Candidate> taken = contestants(row, call);
    std::deque<Call> calls;
    std::deque<Trial> trials;
    std::vector<int64_t> wrong;
    for (const Candidate& c : taken) {
      Call& one = calls.emplace_back(call);
      one.options.algorithm = c.algorithm;
      one.options.segments = c.segments;
      Trial& trial = trials.emplace_back(row, one, perf_.trial);
      trial.warm_up();
      wrong.push_back(perf_.check ? trial.check(pattern) : 0);
      trial.begin();
    }
    for (int batch = 0; batch < perf_.trial.batches; ++batch) {
      if (report_ != nullptr) report_->progress(fmt::format("{}: batch {}", row.name(), batch + 1));
      // Once before each batch: its caches shall be its own, not those of the one before.
      for (Trial& trial : trials) {
        trial.run_once();
        trial.run_batch();
      }
    }
    for (size_t i = 0; i < taken.size(); ++i) {
      Row result = describe(row, calls[i]);
      result.algorithm = taken[i].algorithm;
      result.segments = taken[i].segments;
      result.predicted_us =
          (perf_.memory != BufferKind::ordinary ? taken[i].zero_copy_seconds : taken[i].seconds) *
          1e6;
      result.chosen = taken[i].chosen;
      if (perf_.check) result.wrong = wrong[i];
      wrong_ += wrong[i];
      add(row, result, trials[i].result());
    }
  }

  void add(const OperationRow& row, Row& result, const Trial::Result& times) {
    result.time_us_best = times.best_us;
    result.time_us_median = times.median_us;
    result.cpu_percent = times.cpu_percent;
    result.algbw_gbs = static_cast<double>(result.bytes) / result.time_us_best / 1e3;
    result.busbw_gbs = result.algbw_gbs * row.bus_factor(communicator_.size());
    if (report_ != nullptr) report_->add(result);
  }

  void measure(const OperationRow& row, const Call& call, const Pattern& pattern) {
    Row result = describe(row, call);
    Trial trial(row, call, perf_.trial);
    trial.warm_up();
    if (perf_.check) result.wrong = trial.check(pattern);
    const auto times = trial.measure([&](int batch) {
      if (report_ == nullptr) return;
      report_->progress(fmt::format("{} {} B: batch {} of {}", row.name(), result.bytes, batch + 1,
                                    perf_.trial.batches));
    });
    // Once more: the plan has been used often now, and a late write of the batches would show.
    if (perf_.check) *result.wrong += trial.check(pattern);
    wrong_ += result.wrong.value_or(0);
    result.transports = describe(row, call).transports;  // a link may have taken another way
    add(row, result, times);
  }

  Row describe(const OperationRow& row, const Call& call) const {
    Row result;
    result.collective = row.name();
    result.ranks = call.size();
    result.bytes = reported_bytes(row, call);
    result.count = call.count;
    result.dtype = call.count == 0 ? "none" : to_string(call.type);
    result.op = row.reduces() ? to_string(call.op) : "none";
    if (row.rooted()) result.root = call.root;
    if (call.size() == 1) {
      result.algorithm = result.transports = "none";
    } else if (!row.collective) {
      result.algorithm = "none";
      result.transports = communicator_.transport_to(wrap(call.rank() + 1, call.size()));
    } else {
      const auto choice =
          communicator_.choice(*row.collective, call.block_bytes(), call.type, call.op);
      const bool chosen = perf_.algorithms.empty() && !perf_.schedules;
      result.algorithm = chosen            ? choice.algorithm
                         : perf_.schedules ? std::string(kUserSchedules)
                                           : perf_.algorithms.front();
      if (chosen && choice.wire != "float32") result.algorithm += "+" + choice.wire;
      result.segments = perf_.segments > 0 ? perf_.segments : perf_.schedules ? 1 : choice.segments;
      result.transports = choice.transports;
    }
    return result;
  }

  const PerfOptions& perf_;
  const double tolerance_;
  Communicator& communicator_;
  Report* report_;
  const NetworkCounters network_;
  int64_t wrong_ = 0;
};

std::string remarks(const PerfOptions& perf) {
  std::string text;
  if (perf.memory == BufferKind::shared)
    text += ", buffers in memory that the ranks of a host share";
  if (perf.memory == BufferKind::remapped) text += ", buffers that became shared memory in place";
  if (perf.trial.touch) text += ", buffers touched before and after";
  return text;
}

}  // namespace

int run_perf(const PerfOptions& perf) {
  const Options options = communicator_options(perf);
  LaunchOptions launch_options = perf.launch;
  launch_options.init_timeout = options.init_timeout;
  const LaunchPlan plan = plan_launch(launch_options);
  validate(perf, plan.ranks);
  std::unique_ptr<Report> report;
  if (plan.speaks()) report = std::make_unique<Report>(perf.report, plan.ranks, remarks(perf));
  return launch(plan, [&](Place& place) {
    const auto communicator =
        Communicator::create(place.store, place.rank, place.size, options, "perf");
    finish(communicator->barrier());
    place.store.reset();
    place.met();
    const double tolerance = options.reproducible ? 0 : options.tolerance;
    Run run(perf, tolerance, *communicator, place.rank == 0 ? report.get() : nullptr);
    const bool right = run.all();
    finish(communicator->barrier());  // no rank leaves before the last one's result
    return right ? 0 : 1;
  });
}

}  // namespace ringwood::tools
