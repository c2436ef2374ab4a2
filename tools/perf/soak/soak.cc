#include "tools/perf/soak/soak.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "tools/command/stop_request.h"
#include "tools/perf/perf_calls.h"
#include "tools/perf/perf_requirements.h"
#include "transports/base/clock.h"

namespace ringwood::tools {
namespace {

// Between two looks at whether the interval is over, or somebody wants to stop.
constexpr double kBlockSeconds = 10e-3;
// Of an interval that was cut off: fewer say nothing.
constexpr int64_t kMinOperations = 20;
constexpr double kAlignedSeconds = 1;  // clocks drift apart by microseconds in a second

int place_of_largest(const std::vector<double>& values) {
  return static_cast<int>(std::ranges::max_element(values) - values.begin());
}

void add_to(std::vector<double>& sums, const std::vector<double>& values) {
  sums.resize(values.size(), 0);
  std::ranges::transform(sums, values, sums.begin(), std::plus<>());
}

// The soak of one rank.
class Soak final : private CallVisitor {
 public:
  Soak(const PerfOptions& perf, double tolerance, Communicator& group, SoakReport* report)
      : perf_(perf),
        group_(group),
        report_(report),
        hosts_(gather_hosts(group)),
        clock_(group, hosts_),
        calls_(perf, tolerance, group, hosts_),
        floor_(perf.min_busbw),
        counts_(leads_host(hosts_, group.rank())) {
    if (counts_) since_start_.emplace();
  }

  bool all() {
    bool goes_on = true;
    for (int table = 0; goes_on && (perf_.cycles == 0 || table < perf_.cycles); ++table)
      goes_on = calls_.each(*this);
    SoakEnd end{seconds_since(start_), !goes_on, {}, {}};
    end.hosts = gather_counters(group_, hosts_, since_start_ ? &*since_start_ : nullptr);
    if (!perf_.require.empty())
      end.failed.push_back(other_transport(group_, hosts_, perf_.require));
    end.failed.push_back(floor_.why());
    std::erase(end.failed, "");
    if (report_ != nullptr) {
      report_->end(end);
      for (const std::string& why : end.failed) fmt::print(stderr, "ringwood: {}\n", why);
    }
    return end.failed.empty() && wrong_ == 0;
  }
  // On rank 0, of a soak that an error has ended: what it has measured, alone.
  void tell_until(const Error& error) {
    if (current_ && current_->times.count() > 0) {
      current_->ended_s = seconds();
      report_->add(*current_);
    }
    SoakEnd end{seconds(), true, {}, {error.message()}};
    if (since_start_) {
      const auto risen = since_start_->since();
      end.hosts.push_back({hosts_.front().name, hosts_.front().ranks, risen.telling, risen.bytes});
    }
    report_->end(end);
  }

 private:
  double seconds() const { return seconds_since(start_); }

  void begin(const OperationRow&) override {}
  void reduced(size_t largest_bytes) override {
    if (report_ != nullptr)
      report_->remark(
          fmt::format("Reducing maxBytes to {} due to memory limitation", largest_bytes));
  }

  bool visit(const OperationRow& row, const Call& call, const Pattern& pattern) override {
    SoakInterval& interval = current_.emplace();
    std::optional<NetworkCounters> before;
    if (counts_) before.emplace();
    if (stops()) return false;
    interval.call = calls_.describe(row, call);
    Trial trial(row, call, perf_.trial, clock_);
    trial.warm_up();
    if (stops()) return false;
    const bool goes_on = measure(trial, interval);
    if (!goes_on && interval.times.count() < kMinOperations) return false;
    if (perf_.check) {
      interval.wrong = trial.check(pattern);
      wrong_ += *interval.wrong;
    }
    interval.call = calls_.describe(row, call);  // a link may have a fallback now
    interval.call.transports = gather_names(group_, interval.call.transports);
    interval.hosts = gather_counters(group_, hosts_, before ? &*before : nullptr);
    interval.ended_s = seconds();
    if (interval.call.bytes > 0 && goes_on)
      floor_.add(fmt::format("{} of {} B", interval.call.collective, interval.call.bytes),
                 interval.call.bus_gbs_at(interval.times.percentile_s(50) * 1e6));
    if (report_ != nullptr) report_->add(interval);
    current_.reset();
    return goes_on;
  }

  bool stops() const { return at_any_rank(group_, stop_.asked()); }

  // False: somebody wants to stop; the same on all ranks.
  bool measure(Trial& trial, SoakInterval& interval) {
    std::vector<double> late, taken;
    const auto start = Clock::now();
    std::optional<Clock::time_point> aligned;
    for (double operations = 1;;) {
      const bool first = group_.rank() == 0;
      if (at_any_rank(group_, first && !(aligned && seconds_since(*aligned) < kAlignedSeconds))) {
        clock_.align();
        aligned = Clock::now();
      }
      const SingleTimes block = trial.single(static_cast<int>(operations));
      for (const double time : block.times_s) interval.times.add(time);
      for (const double skew : block.skews_s) interval.skews.add(skew);
      add_to(late, block.late_s);
      add_to(taken, block.rank_s);
      const double sum = std::accumulate(block.times_s.begin(), block.times_s.end(), 0.0);
      const double one = std::max(sum / static_cast<double>(block.times_s.size()), 1e-8);
      // At most twice as many as before: one that was quick by chance says little.
      operations = std::clamp(kBlockSeconds / one, 1.0, 2 * operations);
      const bool stopped = stops();
      const bool over = at_any_rank(group_, first && seconds_since(start) >= perf_.interval_s);
      interval.last_rank = place_of_largest(late);
      interval.slowest_rank = place_of_largest(taken);
      if (stopped || over) return !stopped;
    }
  }

  const PerfOptions& perf_;
  Communicator& group_;
  SoakReport* report_;
  const std::vector<HostRanks> hosts_;
  GroupClock clock_;
  PerfCalls calls_;
  BusbwFloor floor_;
  const bool counts_;  // the counters of its host
  std::optional<NetworkCounters> since_start_;
  std::optional<SoakInterval> current_;  // while it is measured
  const StopRequest stop_;
  const Clock::time_point start_ = Clock::now();
  int64_t wrong_ = 0;
};

}  // namespace

void validate_soak(const PerfOptions& perf) {
  if (perf.compares())
    refuse("-N takes sizes in turns, --algorithm algorithms; name one, or leave -N out");
  if (perf.report.html)
    refuse("-N writes a line for each interval, and has no report for --html; --csv keeps them");
}

bool run_soak(const PerfOptions& perf, double tolerance, Communicator& group, SoakReport* report) {
  Soak soak(perf, tolerance, group, report);
  try {
    return soak.all();
  } catch (const Error& error) {
    if (report != nullptr) soak.tell_until(error);
    throw;
  }
}

}  // namespace ringwood::tools
