// How often the collectives of a group were called, and with how many bytes; and the number of the
// next call. Calls that count alike mostly follow each other, so they are counted in runs: one like
// the call before it costs a comparison.
//
// Thread safety: one thread at a time calls take(); any thread the others, without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "collectives/plan/recording.h"
#include "collectives/schedule/collective.h"

namespace ringwood {

struct CallTotals {
  uint64_t operations = 0;  // called
  uint64_t bytes = 0;       // bytes_of_call()
};

class CallCounter final {
 public:
  // Counts a call and returns its number, from 0.
  uint64_t take(CallKind kind) {
    const uint64_t number = called_.load(std::memory_order_relaxed);
    if (kind != kind_.load(std::memory_order_relaxed)) [[unlikely]]
      begin_run(kind, number);
    called_.store(number + 1, std::memory_order_release);
    return number;
  }
  uint64_t next() const { return called_.load(std::memory_order_relaxed); }
  CallTotals of(Collective collective) const;

 private:
  struct Totals {
    std::atomic<uint64_t> operations{0}, bytes{0};  // of the runs before this one
  };

  void begin_run(CallKind kind, uint64_t number);

  std::atomic<uint64_t> called_{0};
  // Of the run. They and the totals change while the version is odd, as in
  // transports/base/seq_lock.h.
  std::atomic<CallKind> kind_{CallKind()};
  std::atomic<uint64_t> first_{0};
  std::atomic<uint64_t> version_{0};
  std::array<Totals, kCollectives> totals_;
};

}  // namespace ringwood
