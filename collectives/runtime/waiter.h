// How a driver waits: it spins, then yields, then arms every wake source and sleeps.
//
// Spinning: only where every rank of the host has a core, and never in the service thread, which
// shares its core with the user's computation. Elsewhere a pass without progress gives the core
// away at once: whoever has the answer may be waiting for this very core.
// Sleeping: links are armed first, then one more pass is made, so that no arrival falls between;
// `armed()` tells that pass. Drives may nest (a callback waits): the inner one disarms, and the
// outer one finds that out here.
//
// Thread safety: wake() and ring(), any thread; all else, the driver.
#pragma once

#include <sched.h>

#include <atomic>

#include "transports/base/clock.h"
#include "transports/base/options.h"
#include "transports/base/wait_set.h"
#include "transports/mesh.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ringwood {

class Waiter final {
 public:
  // No sleep is longer: the clock and the interrupt check are looked at as often.
  static constexpr Duration kLongestSleep = std::chrono::milliseconds(100);

  // One drive's waiting, since its last progress.
  struct Idling {
    Duration spin, yield;  // until then it spins, and then yields
    unsigned passes = 0;
    Clock::time_point since;
  };

  explicit Waiter(const Options& options) : spin_us_(options.spin_us) {}
  // Before the first drive. The mesh lives on until nobody rings any more.
  void use(Mesh& mesh);

  Idling begin(bool patient) const;
  // After a pass without progress. look(slept) is called with the clock a few times a millisecond,
  // and after each sleep. busy(): asked before a sleep, whether there is a reason to pass again.
  template <class Busy, class Look>
  void pause(Idling& idling, Busy busy, Look look) {
    // The first passes are free of the clock: most answers come within them.
    if (++idling.passes % kPassesPerLook) {
      if (armed_)
        sleep(idling, busy, look);
      else if (may_spin_)
        relax();
      else
        sched_yield();
      return;
    }
    const auto now = Clock::now();
    if (idling.passes == kPassesPerLook) idling.since = now;
    look(now, false);
    if (armed_)
      sleep(idling, busy, look);
    else
      wait_longer(idling, now - idling.since);
  }
  // The drive ends.
  void end() {
    if (armed_) disarm();
  }
  // The pass before a sleep: what is there now rings no more.
  bool armed() const { return armed_; }

  // The driver, if it sleeps or is about to, makes another pass.
  void wake() {
    if (sleeping_.load()) ring();
  }
  // Likewise, whether it does or not, also while the mesh is being made.
  void ring();

 private:
  static constexpr unsigned kPassesPerLook = 16;
  static void relax() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  void wait_longer(Idling& idling, Duration idle);
  void disarm();
  template <class Busy, class Look>
  void sleep(Idling& idling, Busy busy, Look look) {
    if (!busy()) bell_.load()->wait(kLongestSleep);
    disarm();
    look(Clock::now(), true);
    idling.passes = 0;
  }

  const int spin_us_;
  Mesh* mesh_ = nullptr;
  std::atomic<WaitSet*> bell_{nullptr};  // the mesh's
  bool may_spin_ = false;
  bool armed_ = false;
  std::atomic<bool> sleeping_{false};
};

}  // namespace ringwood
