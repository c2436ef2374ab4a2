#include "tools/perf/perf_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/candidate.h"
#include "tools/perf/html/perf_html.h"
#include "tools/perf/perf_counters.h"
#include "tools/perf/perf_device.h"
#include "tools/perf/perf_limits.h"
#include "tools/perf/perf_memory.h"
#include "tools/perf/perf_requirements.h"

namespace ringwood::tools {
namespace {

size_t reported_bytes(const OperationRow& row, const Call& call) {
  return call.block_bytes() * static_cast<size_t>(row.in_blocks() ? call.size() : 1);
}

// Of all ranks, in the order of the ranks: rank 0's own links are not the group's.
std::string transports_of_all(Communicator& group, const std::string& mine) {
  if (group.size() == 1) return mine;
  std::vector<std::string> all;
  for (const std::string& text : gather_texts(group, mine)) {
    std::istringstream names(text);
    for (std::string name; std::getline(names, name, '+');)
      if (std::ranges::count(all, name) == 0) all.push_back(name);
  }
  return fmt::format("{}", fmt::join(all, "+"));
}

// The measurement of one rank.
class Run {
 public:
  Run(const PerfOptions& perf, double tolerance, Communicator& communicator, Report* report)
      : perf_(perf),
        tolerance_(tolerance),
        communicator_(communicator),
        report_(report),
        hosts_(gather_hosts(communicator)),
        clock_(communicator, hosts_),
        limits_(communicator, hosts_),
        floor_(perf.min_busbw) {
    for (const HostRanks& host : hosts_)
      if (host.ranks.front() == communicator.rank()) counters_.emplace();
    if (perf.memory == BufferKind::device)
      device_.emplace(Options::from_environment().cuda, hosts_, communicator.rank());
  }

  // Whether every result was right.
  bool all() {
    memory_ = memory_of_rank(communicator_, hosts_);
    for (const OperationRow* row : perf_.operations) {
      if (!row->collective && communicator_.size() == 1) continue;
      if (report_ != nullptr) report_->begin(row->name());
      if (!row->moves_data()) {
        sweep(*row, DataType::uint8, ReduceOp::sum, {0}, perf_.root);
        continue;
      }
      for (DataType type : perf_.types) {
        for (ReduceOp op : row->reduces() ? perf_.ops : std::vector<ReduceOp>{ReduceOp::sum}) {
          if (row->collective && !supports(*row->collective, type, op)) continue;
          for (const int root :
               row->rooted() ? roots_of(perf_, communicator_.size()) : std::vector<int>{perf_.root})
            sweep(*row, type, op, perf_.sizes, root);
        }
      }
    }
    return end() && wrong_ == 0;
  }

 private:
  // Whether all that is demanded is reached; the same on all ranks.
  bool end() {
    RunFacts facts;
    facts.hosts = gather_counters(communicator_, hosts_, counters_ ? &*counters_ : nullptr);
    if (!limits_.copy_rates().empty()) facts.link_rate = limits_.link_rate();
    facts.copy_rates = limits_.copy_rates();
    if (!perf_.require.empty()) {
      const std::string why = other_transport(communicator_, hosts_, perf_.require);
      if (!why.empty()) facts.failed.push_back(why);
    }
    if (const std::string why = floor_.why(); !why.empty()) facts.failed.push_back(why);
    if (report_ != nullptr) {
      report_->end(facts);
      for (const std::string& why : facts.failed) fmt::print(stderr, "ringwood: {}\n", why);
      if (perf_.report.html) write_html(perf_, report_->rows(), facts, communicator_.size());
    }
    return facts.failed.empty();
  }

  // Of its buffers, and of the two that measure what memory allows. Said once, as nccl-tests does.
  bool too_large(const OperationRow& row, size_t bytes) {
    const size_t most = memory_ / (row.in_place() ? 3 : 4);
    if (bytes <= most) return false;
    if (perf_.sizes.front() > most)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the buffers of {} B do not fit into the memory that is left; {} is "
                              "the largest size of {} here",
                              bytes, most, row.name()));
    if (report_ != nullptr && !reduced_)
      report_->remark(fmt::format("Reducing maxBytes to {} due to memory limitation", most));
    return reduced_ = true;
  }

  void sweep(const OperationRow& row, DataType type, ReduceOp op, const std::vector<size_t>& sizes,
             int root) {
    Call call{&communicator_, type, op, root, 0, nullptr, nullptr, perf_.call_options()};
    if (row.reduces()) call.options.factor = Pattern::factor(op, communicator_.rank());
    const Pattern pattern =
        row.reduces() ? Pattern(type, op, call.size(), tolerance_) : Pattern(type, call.size());
    size_t last = 0;
    for (size_t bytes : sizes) {
      if (too_large(row, bytes)) break;
      call.count = bytes == 0 ? 0 : count_for(row, bytes, type, call.size());
      if (call.count == last && last != 0) continue;  // sizes below one element per block
      last = call.count;
      const size_t in_bytes = row.inputs(call) * call.block_bytes();
      const size_t out_bytes = row.in_place() ? 0 : row.outputs(call) * call.block_bytes();
      if (device_) {
        const DeviceBuffers buffers(*device_, in_bytes, out_bytes);
        buffers.use(call);
        run(row, call, pattern);
        continue;
      }
      const Buffer in(in_bytes, perf_.memory);
      std::optional<Buffer> out;
      call.in = in.data();
      call.out = row.in_place() ? in.data() : out.emplace(out_bytes, perf_.memory).data();
      run(row, call, pattern);
    }
  }

  void run(const OperationRow& row, const Call& call, const Pattern& pattern) {
    if (perf_.compares() && call.size() > 1)
      compare(row, call, pattern);
    else
      measure(row, call, pattern);
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
      Trial& trial = trials.emplace_back(row, one, perf_.trial, clock_);
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
      if (!calls[i].device) result.predicted_us = predicted_us(taken[i]);
      result.compared = true;
      result.chosen = taken[i].chosen;
      if (perf_.check) result.wrong = wrong[i];
      wrong_ += wrong[i];
      add(row, result, trials[i].result());
    }
  }

  void add(const OperationRow& row, Row& result, const Trial::Result& times) {
    result.times = times;
    result.transports = transports_of_all(communicator_, result.transports);
    result.bus_factor = row.bus_factor(communicator_.size());
    result.algbw_gbs = static_cast<double>(result.bytes) / times.best_us / 1e3;
    result.busbw_gbs = result.algbw_gbs * result.bus_factor;
    result.limit_us = limits_.min_us(row, result.bytes);
    if (result.bytes > 0)
      floor_.add(fmt::format("{} of {} B", result.collective, result.bytes),
                 result.bus_gbs_at(times.median_us));
    if (report_ != nullptr) report_->add(result);
  }

  double predicted_us(const Candidate& c) const {
    return (perf_.memory != BufferKind::ordinary ? c.zero_copy_seconds : c.seconds) * 1e6;
  }

  // Of what is carried out; none where the table of algorithms does not have it.
  std::optional<double> predicted_us(const OperationRow& row, const Call& call,
                                     const Row& result) const {
    if (!row.collective || perf_.schedules || call.size() == 1 || !report_ || call.device)
      return std::nullopt;
    std::optional<double> found;
    for (const Candidate& c :
         communicator_.explain(*row.collective, call.block_bytes(), call.type, call.op)) {
      const bool named = perf_.algorithms.empty() ? c.chosen : c.algorithm == result.algorithm;
      if (named && c.segments == result.segments && !std::isinf(c.seconds)) found = predicted_us(c);
    }
    return found;
  }

  void measure(const OperationRow& row, const Call& call, const Pattern& pattern) {
    Row result = describe(row, call);
    result.predicted_us = predicted_us(row, call, result);
    Trial trial(row, call, perf_.trial, clock_);
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
    result.transports = describe(row, call).transports;  // a link may have a fallback now
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
  const std::vector<HostRanks> hosts_;
  GroupClock clock_;
  Limits limits_;
  std::optional<PerfDevice> device_;         // of --memory cuda
  std::optional<NetworkCounters> counters_;  // of the first rank of each host
  BusbwFloor floor_;
  size_t memory_ = 0;     // that each rank may allocate
  bool reduced_ = false;  // what does not fit was said
  int64_t wrong_ = 0;
};

}  // namespace

bool measure_operations(const PerfOptions& perf, double tolerance, Communicator& group,
                        Report* report) {
  return Run(perf, tolerance, group, report).all();
}

}  // namespace ringwood::tools
