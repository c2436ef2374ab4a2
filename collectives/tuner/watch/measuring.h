// When rank 0 has the network measured again, after ranks have reported that paths carry more or
// less than was expected. Pure: the caller has the clock.
//
// It waits 1 s for more reports. Two measurements are at least `interval` apart, and as each of
// them can change the parameters once, so are two changes. After a measurement that changes nothing
// the next one may come after twice the time, up to 16 intervals: paths differ for other reasons,
// too, and a measurement delays the group for up to 0.1 s.
//
// A measurement may be wrong. So one that differs from the one before is repeated without a report,
// and while the network is worse than it was at first it is measured again every 16 intervals: the
// way in which the collectives are carried out then may not use what is repaired.
#pragma once

#include <optional>
#include <string>

#include "transports/base/clock.h"

namespace ringwood {

class Measuring final {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(1);
  static constexpr int kMaxIntervals = 16;

  // An interval of 0: never.
  explicit Measuring(Duration interval) : interval_(interval) {}

  struct Outcome {
    bool changes = false;    // other parameters are better, if it is right
    bool confirmed = false;  // the network is as it was by the measurement before
    bool worse = false;      // than at first
  };

  // `words` on a path; of those on one measurement the first few are kept.
  void report(const std::string& words, Clock::time_point now);
  // Where it is time to measure: why, such as what was reported. Nothing is reported then any more.
  std::optional<std::string> begin(Clock::time_point now);
  // The last measurement was begun for what was reported.
  bool reported() const { return reported_; }
  // The measurement was over at that time: it has answered what was reported until then.
  void end(const Outcome& outcome, Clock::time_point over);
  // The ranks have not agreed on the measurement, or on what followed from it: what was reported
  // still stands.
  void give_up(Clock::time_point now);

 private:
  static constexpr int kMaxReports = 4;

  std::string due(Clock::time_point now) const;

  const Duration interval_;
  std::string words_, begun_;  // reported since, and the reason of the last measurement
  int reports_ = 0;
  Clock::time_point first_report_, last_report_;
  std::optional<Clock::time_point> began_;  // the last measurement
  int intervals_ = 1;                       // from that one to the next
  bool reported_ = true, believed_ = true;  // the last measurement
  Outcome last_{.confirmed = true};
};

}  // namespace ringwood
