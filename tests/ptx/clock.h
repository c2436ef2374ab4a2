// What a thread knows of others: vector clocks, and where threads run.
//
// Each thread counts ticks, from 1. An access happens at the thread's tick; whatever lets others
// learn of it (a release, a fence, a barrier) publishes the thread's clock and then begins the next
// tick. So "t knows the access (w, k)" is k <= t's clock of w, and two clocks that a thread has
// published differ in its own tick: who knows that tick knows all that was published with it.
// Plain values; one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/ptx/module.h"

namespace ringwood::ptx {

// A thread and its tick. Zero: before everything, known to all.
using Epoch = uint64_t;
inline Epoch epoch_of(uint32_t thread, uint32_t tick) { return Epoch{thread} << 32 | tick; }
inline uint32_t thread_of(Epoch epoch) { return static_cast<uint32_t>(epoch >> 32); }
inline uint32_t tick_of(Epoch epoch) { return static_cast<uint32_t>(epoch); }

// Grows as threads are met; ticks that it has never heard of are zero.
class Clock {
 public:
  uint32_t of(uint32_t thread) const { return thread < ticks_.size() ? ticks_[thread] : 0; }
  bool knows(Epoch epoch) const { return tick_of(epoch) <= of(thread_of(epoch)); }
  void raise(uint32_t thread, uint32_t tick) {
    if (thread >= ticks_.size()) ticks_.resize(thread + 1);
    ticks_[thread] = std::max(ticks_[thread], tick);
  }
  void join(const Clock& other) {
    if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size());
    for (size_t i = 0; i < other.ticks_.size(); ++i)
      ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
  }

 private:
  std::vector<uint32_t> ticks_;
};

// Blocks have numbers that are never used twice.
struct Place {
  int device = -1;
  int block = -1;
};
// The smallest scope that has both.
inline Scope scope_of(Place a, Place b) {
  if (a.block == b.block && a.block >= 0) return Scope::cta;
  return a.device == b.device && a.device >= 0 ? Scope::gpu : Scope::sys;
}

// A clock that was published with a release or a fence of this scope.
struct Published {
  Place place;
  Scope scope = Scope::sys;
  Epoch by = 0;  // zero: of several threads
  std::shared_ptr<const Clock> clock;
};
using Publications = std::vector<Published>;

// A thread as memory sees it.
struct Agent {
  uint32_t id = 0;
  Place place;
  Clock clock;
  // What relaxed loads have seen published, by the scope that an acquiring fence needs for it.
  Clock pending[3];
  // What the last releasing fence of this scope, or of a larger one, published.
  std::shared_ptr<const Clock> fenced[3];
  Epoch fenced_at[3] = {};
  uint32_t polls = 0;  // strong loads in a row that have found nothing new

  Epoch now() const { return epoch_of(id, clock.of(id)); }
  bool knows(Epoch epoch) const { return clock.knows(epoch); }
  void next_tick() { clock.raise(id, clock.of(id) + 1); }
};

// Deterministic, seeded.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>((next() >> 32) * bound >> 32); }

 private:
  uint64_t state_;
};

}  // namespace ringwood::ptx
