// What makes the plans of a group's operations, as the progress engine sees it when the parameters
// change (epochs/epochs.h). Thread safety: all methods may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "collectives/plan/plan.h"
#include "collectives/tuner/tuner.h"

namespace ringwood {

class Planner {
 public:
  // Makes ready to plan by these parameters, or by those of the epoch before where they are empty.
  // Throws Error where they cannot be used. Returns at once.
  virtual void prepare(uint32_t epoch, const std::string& parameters) = 0;
  // They are not needed.
  virtual void abandon(uint32_t epoch) = 0;
  // The plan for the same call in that epoch, which has begun, or in the present one. Throws Error.
  virtual std::shared_ptr<const Plan> plan_again(const Plan& plan, uint32_t epoch) = 0;
  // Who chooses in the present epoch, and the choices of the plans that are kept.
  virtual TunerInUse in_use() const = 0;

 protected:
  ~Planner() = default;
};

}  // namespace ringwood
