// Faults of plans for memory of a device: the wrong one touches it, or too early.
#include "tests/checker/plan_faults.h"

namespace ringwood::testing {
namespace {

using Group = const PlanGroup&;

bool on_device(const Plan& p) { return p.fingerprint.memory != 0; }
bool copies(const Plan& p, size_t i, DeviceCopy how) {
  return on_device(p) && p.steps[i].device == how;
}
bool copies_in(const Plan& p, size_t i) { return copies(p, i, DeviceCopy::in); }
bool copies_out(const Plan& p, size_t i) { return copies(p, i, DeviceCopy::out); }
bool is_plain(const Plan& p, size_t i) { return copies(p, i, DeviceCopy::none); }

// A place in the user's memory as long as the step, or null.
const Place* users_place(const Plan& p, size_t bytes) {
  for (const BoundStep& step : p.steps)
    if (step.bytes >= bytes && step.device != DeviceCopy::none)
      return step.device == DeviceCopy::in ? &step.dst : &step.src;
  return nullptr;
}

}  // namespace

std::vector<PlanFault> device_faults() {
  return {
      {"a copy out that the host carries out",
       [](Group g) {
         return at_steps(g, copies_out,
                         [](Plan& p, size_t i) { p.steps[i].device = DeviceCopy::none; });
       }},
      {"a copy in that the host carries out",
       [](Group g) {
         return at_steps(g, copies_in,
                         [](Plan& p, size_t i) { p.steps[i].device = DeviceCopy::none; });
       }},
      {"a copy in the other direction",
       [](Group g) {
         return at_steps(
             g, [](const Plan& p, size_t i) { return copies_in(p, i) || copies_out(p, i); },
             [](Plan& p, size_t i) {
               DeviceCopy& device = p.steps[i].device;
               device = device == DeviceCopy::in ? DeviceCopy::out : DeviceCopy::in;
             });
       }},
      {"a step of the host's given to the device",
       [](Group g) {
         return at_steps(g, is_plain,
                         [](Plan& p, size_t i) { p.steps[i].device = DeviceCopy::out; });
       }},
      {"a copy in before the ranks have agreed",
       [](Group g) {
         return at_steps(g, copies_in, [](Plan& p, size_t i) { p.steps[i].early = true; });
       }},
      {"a message sent from the device's memory",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return is_plain(p, i) && p.steps[i].kind == StepKind::send &&
                      users_place(p, p.steps[i].bytes);
             },
             [](Plan& p, size_t i) { p.steps[i].src = *users_place(p, p.steps[i].bytes); });
       }},
      {"a message received into the device's memory",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return is_plain(p, i) && p.steps[i].kind == StepKind::recv &&
                      users_place(p, p.steps[i].bytes);
             },
             [](Plan& p, size_t i) { p.steps[i].dst = *users_place(p, p.steps[i].bytes); });
       }},
      {"memory of the host that a device copies",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return !on_device(p) && p.steps[i].kind == StepKind::copy;
             },
             [](Plan& p, size_t i) { p.steps[i].device = DeviceCopy::in; });
       }},
      {"ranks of which one has memory of a device",
       [](Group g) { return at_ranks(g, on_device, [](Plan& p) { p.fingerprint.memory = 0; }); }},
  };
}

}  // namespace ringwood::testing
