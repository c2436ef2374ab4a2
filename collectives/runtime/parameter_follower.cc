#include "collectives/runtime/parameter_follower.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "transports/base/log.h"

namespace ringwood {
namespace {

// What a rank submits in this time lies before the new parameters: many round trips of the control
// connection.
constexpr double kAheadSeconds = 0.05;
constexpr double kMinAhead = 2, kMaxAhead = 1024;
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
  const bool measure = parameters == kMeasureAgain;
  prepared_ = {};
  try {
    planner->prepare(epoch, measure ? "" : parameters);
    prepared_ = {epoch, 0, measure};
  } catch (const Error& error) {
    log(LogLevel::warn, "parameters", fmt::format("epoch {}: {}", epoch, error.cause));
    return std::nullopt;
  }
  const EngineLock held = role_.lock();
  const uint64_t next = queue_.next_number(held);
  return queue_.epochs(held).prepare(epoch, next, ahead(next));
}

bool ParameterFollower::commit(uint32_t epoch, uint64_t from) {
  if (!prepared_.measures) network_->renew();
  {
    const EngineLock held = role_.lock();
    if (!queue_.epochs(held).commit(epoch, from)) return false;
    prepared_.from = from;
    if (prepared_.measures) measured_.push_back(std::exchange(prepared_, {}));
  }
  role_.wake_all();
  return true;
}

std::optional<uint32_t> ParameterFollower::measurement_due(const EngineLock& held) const {
  if (measured_.empty() || measured_.front().from > queue_.next_number(held)) return std::nullopt;
  return measured_.front().epoch;
}

// The same on all ranks, whatever epoch they were in when they heard of it.
std::shared_ptr<const Plan> ParameterFollower::barrier_of(uint32_t epoch) const {
  Plan like;
  like.key.args.collective = Collective::barrier;
  like.key.args.type = DataType::uint8;
  like.key.request.algorithm = "dissemination";
  like.key.request.segments = 1;
  auto barrier = std::make_shared<Plan>(*planner()->plan_again(like, 0));
  barrier->epoch = epoch;
  barrier->fingerprint.epoch = static_cast<uint8_t>(epoch);
  return barrier;
}

// A barrier that ends with the probe, in the driver: then no rank has anything else on its channel.
// It counts as writing all memory, so that nothing is under way beside it, and whoever waits for a
// later collective carries it out.
void ParameterFollower::measure(const EngineLock& held, std::shared_ptr<const Plan> plan,
                                std::shared_ptr<OperationDriver> driver) {
  measured_.pop_front();
  auto barrier = std::make_shared<CollectiveState>(std::move(driver), "measurement", timeout_);
  CollectiveCall& call = barrier->draft();
  call.plan = std::move(plan);
  call.touched.write(reinterpret_cast<void*>(1), std::numeric_limits<size_t>::max() / 2);
  call.finish.call(
      [this, state = barrier.get()] { network_->measure(collective_channel(state->run.track)); });
  queue_.push(held, std::move(barrier));
}

void ParameterFollower::abandon(uint32_t epoch) {
  network_->abandoned();
  {
    const EngineLock held = role_.lock();
    if (!queue_.epochs(held).abandon(epoch)) return;
  }
  planner()->abandon(epoch);
  role_.wake_all();
}

}  // namespace ringwood
