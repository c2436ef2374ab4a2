#include "tools/perf/perf_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/candidate.h"
#include "tools/perf/html/perf_html.h"
#include "tools/perf/perf_calls.h"
#include "tools/perf/perf_counters.h"
#include "tools/perf/perf_limits.h"
#include "tools/perf/perf_requirements.h"

namespace ringwood::tools {
namespace {

// The measurement of one rank.
class Run final : private CallVisitor {
 public:
  Run(const PerfOptions& perf, double tolerance, Communicator& communicator, Report* report)
      : perf_(perf),
        communicator_(communicator),
        report_(report),
        hosts_(gather_hosts(communicator)),
        clock_(communicator, hosts_),
        limits_(communicator, hosts_),
        calls_(perf, tolerance, communicator, hosts_),
        floor_(perf.min_busbw) {
    if (leads_host(hosts_, communicator.rank())) counters_.emplace();
  }

  // Whether every result was right.
  bool all() {
    calls_.each(*this);
    return end() && wrong_ == 0;
  }

 private:
  void begin(const OperationRow& row) override {
    if (report_ != nullptr) report_->begin(row.name());
  }
  void reduced(size_t largest_bytes) override {
    if (report_ != nullptr)
      report_->remark(
          fmt::format("Reducing maxBytes to {} due to memory limitation", largest_bytes));
  }
  bool visit(const OperationRow& row, const Call& call, const Pattern& pattern) override {
    if (perf_.compares() && call.size() > 1)
      compare(row, call, pattern);
    else
      measure(row, call, pattern);
    return true;
  }

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
      Row result = calls_.describe(row, calls[i]);
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
    result.transports = gather_names(communicator_, result.transports);
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
    Row result = calls_.describe(row, call);
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
    result.transports = calls_.describe(row, call).transports;  // a link may have a fallback now
    add(row, result, times);
  }

  const PerfOptions& perf_;
  Communicator& communicator_;
  Report* report_;
  const std::vector<HostRanks> hosts_;
  GroupClock clock_;
  Limits limits_;
  PerfCalls calls_;
  std::optional<NetworkCounters> counters_;  // of the first rank of each host
  BusbwFloor floor_;
  int64_t wrong_ = 0;
};

}  // namespace

bool measure_operations(const PerfOptions& perf, double tolerance, Communicator& group,
                        Report* report) {
  return Run(perf, tolerance, group, report).all();
}

}  // namespace ringwood::tools
