#include "tools/tune/contest.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "collectives/tuner/choice/choose.h"
#include "tools/tune/trials.h"
#include "transports/base/clock.h"

namespace ringwood::tools {
namespace {

constexpr int kFewRepetitions = 9;
constexpr int kMaxSegments = 256;
// A first run this long is not made again before the repetitions.
constexpr double kLong = 0.05;
constexpr size_t kMinSegmentBytes = 16 << 10;

double seconds_now() { return seconds_in(Clock::now().time_since_epoch()); }

bool races(const Contender& c) { return c.outcome == Outcome::racing; }

bool default_races(const std::vector<Contender>& all) {
  return std::ranges::any_of(all, [](const Contender& c) { return c.is_default && races(c); });
}

double median(const Contender& c) { return median_of_times(c.times); }

Contender* best_of(std::vector<Contender>& all) {
  Contender* best = nullptr;
  for (Contender& c : all)
    if (races(c) && !c.times.empty() && (!best || median(c) < median(*best))) best = &c;
  return best;
}

}  // namespace

const char* to_string(Outcome outcome) {
  return outcome == Outcome::racing ? "measured" : outcome == Outcome::beaten ? "beaten" : "wrong";
}

std::string name_of(const Contender& c) {
  const std::string name = ringwood::name_of(c.algorithm, c.wire);
  return c.segments == 1 ? name : fmt::format("{}/{}", name, c.segments);
}

Contest::Contest(const OperationRow& row, const Call& call, const Pattern& pattern,
                 const ContestOptions& options)
    : row_(row), call_(call), pattern_(pattern), options_(options), random_(options.seed) {}

Call Contest::call_for(const Contender& c) const {
  Call call = call_;
  call.options.segments = c.segments;
  if (c.own)
    call.options.schedules = c.own;
  else
    call.options.algorithm = c.algorithm;
  call.options.tolerance = c.wire == WireFormat::exact ? 0 : options_.tolerance;
  return call;
}

void Contest::slowest(std::vector<double>& seconds) const {
  take_slowest(*call_.communicator, seconds);
}

double Contest::elapsed() const { return now_ - begin_; }

// The run that is checked makes the plan, too.
void Contest::try_out(Contender& c) {
  const Call call = call_for(c);
  c.wrong = wrong_elements(row_, call, pattern_);
  // Zeros stay zeros however often they are reduced in place.
  write_input(row_, call);
  double first = batch(row_, call, 1);
  std::vector<double> seconds{first, call_.rank() == 0 ? seconds_now() : 0};
  slowest(seconds);
  if (seconds[0] < kLong) {
    for (int i = 0; i < 3; ++i) first = std::min(first, batch(row_, call, 1));
    seconds[0] = first;
    slowest(seconds);
  }
  now_ = seconds[1];
  c.time.median = seconds[0];
}

void Contest::try_out(std::vector<Contender>& all,
                      const std::function<void(const std::string&)>& progress) {
  for (Contender& c : all) {
    if (!races(c) || c.time.median > 0) continue;
    progress(fmt::format("{}: first run", name_of(c)));
    try_out(c);
    const double first = c.time.median;
    if (c.wrong > 0) {
      c.outcome = Outcome::wrong;
      continue;
    }
    if (first_best_ == 0 || first < first_best_) first_best_ = first;
    if (!c.is_default && first > kHopeless * first_best_) c.outcome = Outcome::beaten;
  }
}

// Each racing contender once, in an order that is the same on all ranks.
void Contest::repeat(std::vector<Contender>& all) {
  std::vector<Contender*> order;
  for (Contender& c : all)
    if (races(c)) order.push_back(&c);
  shuffle(order, random_);
  std::vector<double> seconds;
  for (Contender* c : order) {
    const Call call = call_for(*c);
    const int iterations = iterations_for(c->time.median);
    // Its caches shall be its own, not those of the one before.
    if (c->time.median < kLong) row_.run(call);
    seconds.push_back(batch(row_, call, iterations));
  }
  seconds.push_back(call_.rank() == 0 ? seconds_now() : 0);
  slowest(seconds);
  now_ = seconds.back();
  for (size_t i = 0; i < order.size(); ++i) order[i]->times.push_back(seconds[i]);
}

void Contest::halve(std::vector<Contender>& all) {
  std::vector<Contender*> racing;
  for (Contender& c : all)
    if (races(c)) racing.push_back(&c);
  std::ranges::sort(racing, {}, [](const Contender* c) { return median(*c); });
  for (size_t i = std::max<size_t>(2, (racing.size() + 1) / 2); i < racing.size(); ++i)
    if (!racing[i]->is_default) racing[i]->outcome = Outcome::beaten;
}

void Contest::add_neighbours(std::vector<Contender>& all) {
  const Contender best = *best_of(all);
  for (const int segments : {best.segments / 2, best.segments * 2}) {
    const size_t grain = call_.block_bytes() / static_cast<size_t>(std::max(1, segments));
    const bool known = std::ranges::any_of(all, [&](const Contender& c) {
      return c.algorithm == best.algorithm && c.wire == best.wire && c.segments == segments;
    });
    if (known || segments < 1 || segments > kMaxSegments ||
        (segments > 1 && grain < kMinSegmentBytes))
      continue;
    Contender more;
    more.algorithm = best.algorithm;
    more.segments = segments;
    more.wire = best.wire;
    more.own = best.own;
    all.push_back(std::move(more));
  }
}

// The default goes on as long as another one may still clear it.
bool Contest::undecided(const std::vector<Contender>& all) const {
  const Contender* challenger = nullptr;
  const Contender* incumbent = nullptr;
  for (const Contender& c : all) {
    if (!races(c)) continue;
    if (static_cast<int>(c.times.size()) < kMinRepetitions) return true;
    if (c.is_default) incumbent = &c;
    if (!c.is_default && (!challenger || median(c) < median(*challenger))) challenger = &c;
  }
  if (!challenger || !incumbent) return false;
  if (static_cast<int>(challenger->times.size()) >= options_.max_repetitions ||
      elapsed() > options_.seconds)
    return false;
  // Few repetitions on a busy machine say little, also where the default looks better.
  const bool few = static_cast<int>(challenger->times.size()) < kFewRepetitions;
  if (median(*challenger) > (1 - kMargin) * median(*incumbent)) return few;
  const MeasuredTime a = measured_time(challenger->times, options_.seed);
  return !clears(a, measured_time(incumbent->times, options_.seed), kMargin);
}

void Contest::measure(std::vector<Contender>& all,
                      const std::function<void(const std::string&)>& progress) {
  std::vector<double> clock{call_.rank() == 0 ? seconds_now() : 0};
  slowest(clock);
  begin_ = now_ = clock[0];
  try_out(all, progress);
  if (!default_races(all)) return;
  int repetition = 0;
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      progress(fmt::format("repetition {} of {} contenders", ++repetition,
                           std::ranges::count_if(all, races)));
      repeat(all);
    }
  };
  rounds(kStage);
  // Those that took their first run for nothing: the plans of the others are warm now.
  halve(all);
  add_neighbours(all);
  try_out(all, progress);
  while (std::ranges::count_if(all, races) > 2) {
    rounds(elapsed() > options_.seconds ? 1 : kStage);
    halve(all);
    if (std::ranges::count_if(all, races) == 3 || elapsed() > options_.seconds) {
      // The best one and the default remain.
      Contender* const best = best_of(all);
      for (Contender& c : all)
        if (races(c) && !c.is_default && &c != best) c.outcome = Outcome::beaten;
    }
  }
  while (undecided(all)) rounds(1);
  // Their plans have been used often now, and a late write would show.
  for (Contender& c : all)
    if (races(c) && (c.wrong = wrong_elements(row_, call_for(c), pattern_)) > 0)
      c.outcome = Outcome::wrong;
  for (Contender& c : all)
    if (!c.times.empty()) c.time = measured_time(c.times, options_.seed);
}

}  // namespace ringwood::tools
