#include "collectives/epochs/measuring.h"

#include <algorithm>
#include <utility>

namespace ringwood {

void Measuring::report(const std::string& words, Clock::time_point now) {
  if (interval_ <= Duration::zero()) return;
  if (reports_++ == 0) first_report_ = now;
  if (reports_ <= kMaxReports) words_ += (words_.empty() ? "" : "; ") + words;
}

std::optional<std::string> Measuring::begin(Clock::time_point now) {
  if (reports_ == 0 || now - first_report_ < kPatience) return std::nullopt;
  if (began_ && now - *began_ < interval_ * intervals_) return std::nullopt;
  began_ = now;
  intervals_ = std::min(intervals_ * 2, kMaxIntervals);  // end() knows better
  std::string words = std::exchange(words_, {});
  if (reports_ > kMaxReports) words += "; and others";
  reports_ = 0;
  begun_ = words;
  return words;
}

void Measuring::give_up(Clock::time_point now) {
  if (!begun_.empty() && reports_ == 0) report(begun_, now);
}

void Measuring::end(bool changed) {
  words_.clear();
  reports_ = 0;
  if (changed) intervals_ = 1;
}

}  // namespace ringwood
