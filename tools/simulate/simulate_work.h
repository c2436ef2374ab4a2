// How much of a table's simulations is done: what is told about each of their stages, and the time
// that is left, by the time that the work before has taken. Work is counted in messages.
// Not thread-safe.
#pragma once

#include <functional>
#include <string>

#include "transports/base/clock.h"

namespace ringwood::tools {

// Called with what is being done, now and then.
using Progress = std::function<void(const std::string&)>;

class SimulationWork final {
 public:
  // `tell` is memory of the caller.
  explicit SimulationWork(const Progress& tell) : tell_(tell) {}

  // So much is going to be done, in stages.
  void expect(double messages) { expected_ += messages; }
  // The stage before is over; one of this work begins.
  void begin(double messages);
  // What the stage does, and the part of it that is done.
  void show(const std::string& text, double part);

 private:
  const Progress& tell_;
  const Clock::time_point since_ = Clock::now();
  double expected_ = 0, done_ = 0, stage_ = 0;
};

}  // namespace ringwood::tools
