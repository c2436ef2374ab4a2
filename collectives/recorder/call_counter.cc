#include "collectives/recorder/call_counter.h"

namespace ringwood {
namespace {

void add(std::atomic<uint64_t>& to, uint64_t more) {
  to.store(to.load(std::memory_order_relaxed) + more, std::memory_order_release);
}

}  // namespace

// Release on every word instead of a fence, which the thread sanitizer does not know.
void CallCounter::begin_run(CallKind kind, uint64_t number) {
  const uint64_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  const CallKind before = kind_.load(std::memory_order_relaxed);
  const uint64_t calls = number - first_.load(std::memory_order_relaxed);
  Totals& totals = totals_[static_cast<size_t>(before.collective())];
  add(totals.operations, calls);
  add(totals.bytes, calls * before.bytes());
  first_.store(number, std::memory_order_release);
  kind_.store(kind, std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
}

CallTotals CallCounter::of(Collective collective) const {
  const Totals& totals = totals_[static_cast<size_t>(collective)];
  while (true) {
    const uint64_t version = version_.load(std::memory_order_acquire);
    CallTotals all{totals.operations.load(std::memory_order_acquire),
                   totals.bytes.load(std::memory_order_acquire)};
    const uint64_t first = first_.load(std::memory_order_acquire);
    const CallKind kind = kind_.load(std::memory_order_acquire);
    const uint64_t called = called_.load(std::memory_order_acquire);
    if (version % 2 != 0 || version_.load(std::memory_order_relaxed) != version) continue;
    if (kind.collective() != collective) return all;
    return {all.operations + (called - first), all.bytes + (called - first) * kind.bytes()};
  }
}

}  // namespace ringwood
