// How a rank leaves its group in good order: it says goodbye to all it is connected to, and waits
// until they have seen it.
//
// Closing while the other side still sends would reset the connection under our goodbye. Used in
// the control thread, but for wait(); a lock of its own, taken under no other.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "transports/control/oob_connections.h"

namespace ringwood {

class Goodbyes final {
 public:
  explicit Goodbyes(OobConnections& connections)
      : connections_(connections), seen_(connections.size(), false) {}

  // Once.
  void say();
  // This rank is leaving, or has left.
  bool said() const { return leaving_; }
  void note_seen(int rank) { seen_[rank] = true; }
  // After something that may have ended the wait: a goodbye, one that was seen, a connection's end.
  void check();
  // In another thread: until say() was called and all that are present have seen it; 200 ms from
  // there at most.
  void wait();

 private:
  OobConnections& connections_;
  std::vector<bool> seen_;  // by rank: it has our goodbye
  bool leaving_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool all_said_ = false, all_seen_ = false;  // guarded by mutex_
};

}  // namespace ringwood
