// Who is late: an operation past its deadline and a rank that left while it is waited for end the
// group; a peer that is only slow is named in the log.
//
// Lateness is no error before the operation's deadline. A rank that left in good order is one only
// for those that still wait for it, after a time in which nothing has come.
// Thread safety: left(), any thread; all else, the driver.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "collectives/runtime/group_error.h"
#include "collectives/runtime/in_flight.h"
#include "transports/base/clock.h"

namespace ringwood {

class Watchdog final {
 public:
  Watchdog(GroupError& error, Duration heartbeat) : error_(error), heartbeat_(heartbeat) {}

  // That rank ended in good order.
  void left(int rank);
  // Something came or went.
  void moved() { moved_ = true; }
  // Now and then, a few times a second at least. Errors go to the group's.
  void look(Clock::time_point now, const InFlight& work);
  // Whether the last look is long enough ago for one more to find anything.
  bool due(Clock::time_point now) const { return now - looked_ > kPeriod; }

 private:
  static constexpr Duration kPeriod = std::chrono::milliseconds(1);

  // For how long, as far as is known, nothing has moved; at the last look but one.
  Duration count_in_vain(Clock::time_point now, int departures);
  void check_departed(const InFlight& work);
  void check_deadlines(Clock::time_point now, const InFlight& work);
  void name_who_is_late(const InFlight& work);

  GroupError& error_;
  const Duration heartbeat_;
  bool moved_ = true;           // since the last look
  Clock::time_point looked_{};  // that look
  // For how long this rank has looked for progress since the last, or since a rank left.
  Duration in_vain_{};
  int known_departures_ = 0;
  bool named_ = false;  // for whom it looks
  std::mutex mutex_;    // a leaf
  std::vector<int> departed_;
  std::atomic<int> departures_{0};
};

}  // namespace ringwood
