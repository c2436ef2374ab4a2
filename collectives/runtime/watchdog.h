// Ends the group when an operation is past its deadline, or when a rank that has left is still
// waited for. A peer that is merely slow is named in the log. While nothing sleeps, it has the
// transports look for peers whose processes have ended; that becomes an error of their links.
//
// Lateness is no error before the operation's deadline. That a rank left in good order is an error
// only for operations that still wait for it, after a time in which nothing has arrived.
//
// Thread safety: left() from any thread; everything else by the driver.
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

  // This rank left in good order.
  void left(int rank);
  // Something was sent or received.
  void moved() { moved_ = true; }
  // To be called after iterations in vain, at least a few times a second; `slept`: just now. What
  // waits is noted by the recorder. Errors go to the group's error.
  void look(Clock::time_point now, bool slept, InFlight& work);

 private:
  static constexpr Duration kPeriod = std::chrono::milliseconds(1);

  void check(Clock::time_point now, const InFlight& work);
  // How long, as far as is known, nothing has moved, as of the look before the last.
  Duration count_in_vain(Clock::time_point now, int departures);
  void check_departed(const InFlight& work);
  void check_all_gone(const InFlight& work);
  void check_deadlines(Clock::time_point now, const InFlight& work);
  void check_devices(Clock::time_point now, const InFlight& work);
  void name_who_is_late(const InFlight& work);

  GroupError& error_;
  const Duration heartbeat_;
  bool moved_ = true;           // since the last look
  Clock::time_point looked_{};  // time of that look
  // How long this rank has looked for progress in vain since the last, or since a rank left.
  Duration in_vain_{};
  int known_departures_ = 0;
  Clock::time_point asked_devices_{};
  bool named_ = false;  // the late peers are named in the log
  std::mutex mutex_;    // a leaf
  std::vector<int> departed_;
  std::atomic<int> departures_{0};
};

}  // namespace ringwood
