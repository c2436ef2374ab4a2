// What of an operation is recorded (recorder/recorder.h), as values of its plan.
#pragma once

#include <cstdint>

#include "collectives/schedule/collective.h"

namespace ringwood {

// One in so many of the shortest operations has a whole record.
inline constexpr uint64_t kSampled = 4096;
// Every one has that is predicted to take so long, or, without a prediction, of this size.
inline constexpr double kAlwaysSeconds = 30e-6;
inline constexpr uint64_t kAlwaysBytes = uint64_t{1} << 20;

static_assert((kSampled & (kSampled - 1)) == 0);

// Collective and bytes, in one word: equal for calls that count alike.
class CallKind final {
 public:
  constexpr CallKind() = default;
  constexpr CallKind(Collective collective, uint64_t bytes)
      : word_(bytes << 4 | static_cast<uint64_t>(collective)) {
    static_assert(kCollectives < 16);
  }
  constexpr Collective collective() const { return static_cast<Collective>(word_ & 15); }
  constexpr uint64_t bytes() const { return word_ >> 4; }
  constexpr bool operator==(const CallKind&) const = default;

 private:
  uint64_t word_ = 0;
};

// Set by add_recording() (passes.h). Alike on all ranks, but for the bytes of calls whose blocks
// only pairs of ranks know.
struct RecordedFacts {
  // A whole record have the operations whose number has none of these bits: 0 is all of them,
  // kSampled - 1 one in kSampled. Likewise one with its steps, of numbers that are mixed: a program
  // that repeats two calls in turn must not hide one of them.
  uint64_t unrecorded_bits = 0, stepless_bits = 0;
  CallKind kind;                 // with bytes_of_call()
  double predicted_seconds = 0;  // of private buffers of about this size; 0: not known
};

// Pure; any thread.
constexpr bool is_recorded(const RecordedFacts& facts, uint64_t number) {
  return (number & facts.unrecorded_bits) == 0;
}
constexpr bool has_recorded_steps(const RecordedFacts& facts, uint64_t number) {
  const uint64_t mixed = number * 0x9e3779b97f4a7c15 >> 40;  // Fibonacci hashing (Knuth, TAOCP 3)
  return (mixed & facts.stepless_bits) == 0 || (number & (kSampled - 1)) == 0;
}

}  // namespace ringwood
