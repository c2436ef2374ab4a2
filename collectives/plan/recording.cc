#include "collectives/plan/recording.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "collectives/plan/passes.h"

namespace ringwood {
namespace {

// A reading of the clock takes 25 ns (measured, kvm-clock and tsc), a step needs two.
constexpr double kStepSeconds = 50e-9;
// Of the time that is predicted; a prediction may be four times too long, where a virtual machine
// was given other cores since.
constexpr double kStepShare = 1.0 / 1000;

// One in so many, a power of two, keeps within the share what each costs.
uint64_t one_in(double cost, double predicted_seconds) {
  const double times = cost / (kStepShare * predicted_seconds);
  return std::bit_ceil(static_cast<uint64_t>(std::clamp<double>(times, 1, kSampled)));
}

}  // namespace

// A plan has at most about four steps for each rank and segment, on each rank.
Plan add_recording(Plan plan, double predicted_seconds) {
  const uint64_t bytes = bytes_of_call(plan.key.args, plan.schedule.n);
  const bool known = predicted_seconds > 0;
  const bool always = known ? predicted_seconds >= kAlwaysSeconds
                            : plan.key.args.count * plan.element >= kAlwaysBytes;
  const double steps = 4.0 * plan.schedule.n * plan.form.segments;
  plan.recorded = {.unrecorded_bits = always ? 0 : kSampled - 1,
                   .stepless_bits = known ? one_in(steps * kStepSeconds, predicted_seconds) - 1 : 0,
                   .kind = {plan.key.args.collective, bytes},
                   .predicted_seconds = predicted_seconds};
  return plan;
}

}  // namespace ringwood
