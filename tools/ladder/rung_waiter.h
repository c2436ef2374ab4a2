// How a rung waits for its other rank: exactly as a group does (runtime/waiter.h), so that the
// difference between two rungs is what a layer costs, and not a way to wait.
#pragma once

#include <memory>

#include "collectives/runtime/waiter.h"
#include "tools/ladder/rungs.h"
#include "transports/mesh.h"

namespace ringwood::tools {

class RungWaiter final {
 public:
  // Collective over the two ranks: whether those of this host have a core each.
  explicit RungWaiter(const LadderPair& pair);

  WaitSet& wait_set() { return *mesh_.wait_set; }
  // What has to be armed before a sleep; owned from now on.
  Transport& use(std::unique_ptr<Transport> transport);

  // Calls iterate() until it says that all is done: what rings must be in the wait set. It returns
  // what has moved; done() whether that was all. Throws Error(timeout) about `what`.
  template <class Iterate, class Done>
  void until(Done done, Iterate iterate, const char* what) {
    const Deadline deadline = Deadline::after(timeout_);
    Waiter::Idling idling = waiter_.begin(/*patient=*/false);
    const auto busy = [] { return false; };
    const auto look = [&](Clock::time_point now, bool /*slept*/) {
      if (deadline.passed(now)) fail(what);
    };
    while (true) {
      const bool moved = iterate();
      if (done()) break;
      if (moved)
        idling.iterations = 0;
      else
        waiter_.pause(idling, busy, look);
    }
    waiter_.end();
  }

 private:
  [[noreturn]] void fail(const char* what);

  const std::chrono::milliseconds timeout_;
  Mesh mesh_;  // of its parts those that a waiter looks at
  Waiter waiter_;
};

}  // namespace ringwood::tools
