// Leaves the group in good order: says goodbye to all connected ranks and waits until they have
// acknowledged it ("seen").
//
// Closing while the other side still sends would reset the connection and lose our goodbye. Used in
// the control thread, except wait(). Has its own mutex, under which no other is taken.
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

  // To be called once.
  void say();
  // This rank is leaving, or has left.
  bool said() const { return leaving_; }
  void note_seen(int rank) { seen_[rank] = true; }
  // To be called after anything that may end the wait: a goodbye, an acknowledgement, the end of a
  // connection.
  void check();
  // In another thread: waits until say() was called and all present ranks have acknowledged; after
  // say() at most 200 ms.
  void wait();

 private:
  OobConnections& connections_;
  std::vector<bool> seen_;  // by rank: it has acknowledged our goodbye
  bool leaving_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool all_said_ = false, all_seen_ = false;  // guarded by mutex_
};

}  // namespace ringwood
