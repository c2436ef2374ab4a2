#include "collectives/tuner/watch/measuring.h"

#include <algorithm>
#include <utility>

namespace ringwood {

void Measuring::report(const std::string& words, Clock::time_point now) {
  if (interval_ <= Duration::zero()) return;
  if (reports_++ == 0) first_report_ = now;
  last_report_ = now;
  if (reports_ <= kMaxReports) words_ += (words_.empty() ? "" : "; ") + words;
}

// Why it is time to measure; empty: it is not.
std::string Measuring::due(Clock::time_point now) const {
  const auto passed = [&](int intervals) {
    return !began_ || now - *began_ >= interval_ * intervals;
  };
  if (!passed(intervals_)) return {};
  if (reports_ > 0 && now - first_report_ < kPatience) return {};
  if (reports_ > 0) return words_ + (reports_ > kMaxReports ? "; and others" : "");
  if (!began_) return {};
  if (!last_.confirmed) return "the last measurement differed from the one before";
  return last_.worse && passed(kMaxIntervals) ? "it was worse than at first" : "";
}

std::optional<std::string> Measuring::begin(Clock::time_point now) {
  const std::string why = due(now);
  if (why.empty()) return std::nullopt;
  began_ = now;
  intervals_ = std::min(intervals_ * 2, kMaxIntervals);  // end() knows better
  reported_ = reports_ > 0;
  reports_ = 0;
  words_.clear();
  begun_ = why;
  return why;
}

void Measuring::give_up(Clock::time_point now) {
  if (!begun_.empty() && reports_ == 0) report(begun_, now);
}

void Measuring::end(const Outcome& outcome, Clock::time_point over) {
  if (last_report_ <= over) {
    words_.clear();
    reports_ = 0;
  }
  last_ = outcome;
  // What is not believed is soon repeated, once: measurements may differ for ever.
  const bool before = std::exchange(believed_, outcome.confirmed || reported_);
  if (outcome.changes && (believed_ || before)) intervals_ = 1;
}

}  // namespace ringwood
