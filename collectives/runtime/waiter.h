// How a driver waits: it spins, then yields, then arms every wake source and sleeps.
//
// 1. Spinning: only where every rank of the host has a core, and never in the progress thread,
//    which shares its core with the user's computation. Elsewhere an iteration without progress
//    yields the core at once: the peer that is waited for may need this very core.
// 2. Sleeping: links are armed first, and one more iteration follows, so that an arrival in between
//    is not missed; `armed()` is true in that one. Drives may nest (a callback waits): the inner
//    one disarms, and the outer one notices that here.
//
// Thread safety: wake() and ring() from any thread; everything else by the driver.
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
  // The upper bound of a sleep: the clock and the interrupt check are looked at at
  // least this often.
  static constexpr Duration kLongestSleep = std::chrono::milliseconds(100);

  // The state of one drive's waiting since its last progress.
  struct Idling {
    Duration spin, yield;  // how long it spins, and then yields
    unsigned iterations = 0;
    Clock::time_point since;
  };

  explicit Waiter(const Options& options) : spin_us_(options.spin_us) {}
  // To be called before the first drive. The mesh outlives all calls of ring().
  void use(Mesh& mesh);

  Idling begin(bool patient) const;
  // To be called after an iteration without progress. look(now, slept) is called a few times a
  // millisecond at least, and after each sleep. busy() is called before a sleep and tells whether
  // there is a reason to make another iteration instead.
  template <class Busy, class Look>
  void pause(Idling& idling, Busy busy, Look look) {
    // The first iterations do not read the clock: most messages arrive within them.
    if (++idling.iterations % kIterationsPerLook) {
      if (armed_)
        sleep(idling, busy, look);
      else if (may_spin_)
        relax();
      else
        yield(idling, look);
      return;
    }
    const auto now = Clock::now();
    if (idling.iterations == kIterationsPerLook) idling.since = now;
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
  // This is the iteration before a sleep: what it finds does not ring any more.
  bool armed() const { return armed_; }

  // Makes the driver iterate again, if it sleeps or is about to.
  void wake() {
    if (sleeping_.load()) ring();
  }
  // Likewise, without looking whether it does; also while the mesh is being made.
  void ring();

 private:
  static constexpr unsigned kIterationsPerLook = 16;
  static void relax() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  // May take as long as others use the core, so the clock is read before, but for the first time.
  template <class Look>
  [[gnu::noinline]] static void yield(const Idling& idling, Look look) {
    if (idling.iterations > 1) look(Clock::now(), false);
    sched_yield();
  }
  void wait_longer(Idling& idling, Duration idle);
  void disarm();
  template <class Busy, class Look>
  void sleep(Idling& idling, Busy busy, Look look) {
    if (!busy()) bell_.load()->wait(kLongestSleep);
    disarm();
    look(Clock::now(), true);
    idling.iterations = 0;
  }

  const int spin_us_;
  Mesh* mesh_ = nullptr;
  std::atomic<WaitSet*> bell_{nullptr};  // the mesh's
  bool may_spin_ = false;
  bool armed_ = false;
  std::atomic<bool> sleeping_{false};
};

}  // namespace ringwood
