#include "collectives/runtime/parameter_follower.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "transports/base/log.h"

namespace ringwood {
namespace {

// What a rank submits in this time lies before the new parameters: many round trips of the control
// connection.
constexpr double kAheadSeconds = 0.05;
constexpr double kMinAhead = 16, kMaxAhead = 1024;
constexpr double kNotingSeconds = 0.05;

}  // namespace

std::shared_ptr<Planner> ParameterFollower::planner() const {
  const EngineLock held = role_.lock();
  return planner_;
}

void ParameterFollower::note_pace() {
  const double time = seconds_since(noted_at_);
  if (time < kNotingSeconds) return;
  const uint64_t next = queue_.next_number(role_.lock());
  pace_ = static_cast<double>(next - noted_) / time;
  noted_ = next;
  noted_at_ = Clock::now();
}

uint64_t ParameterFollower::ahead(uint64_t next) const {
  const double time = std::max(kNotingSeconds, seconds_since(noted_at_));
  const double pace = std::max(pace_, static_cast<double>(next - noted_) / time);
  return static_cast<uint64_t>(std::clamp(pace * kAheadSeconds, kMinAhead, kMaxAhead));
}

std::optional<uint64_t> ParameterFollower::prepare(uint32_t epoch, const std::string& parameters) {
  const std::shared_ptr<Planner> planner = this->planner();
  if (!planner) return std::nullopt;
  try {
    planner->prepare(epoch, parameters);
  } catch (const Error& error) {
    log(LogLevel::warn, "parameters", fmt::format("epoch {}: {}", epoch, error.cause));
    return std::nullopt;
  }
  const EngineLock held = role_.lock();
  const uint64_t next = queue_.next_number(held);
  return queue_.epochs(held).prepare(epoch, next, ahead(next));
}

bool ParameterFollower::commit(uint32_t epoch, uint64_t from) {
  {
    const EngineLock held = role_.lock();
    if (!queue_.epochs(held).commit(epoch, from)) return false;
  }
  role_.wake_all();
  return true;
}

void ParameterFollower::abandon(uint32_t epoch) {
  {
    const EngineLock held = role_.lock();
    if (!queue_.epochs(held).abandon(epoch)) return;
  }
  planner()->abandon(epoch);
  role_.wake_all();
}

}  // namespace ringwood
