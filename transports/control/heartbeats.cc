#include "transports/control/heartbeats.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "transports/base/log.h"
#include "transports/base/options.h"

namespace ringwood {
namespace {

constexpr int kSilentPeriods = 6;
// A peer that sends nothing reads nothing, and gets no more heartbeats than this. The kernel's
// buffer at its end must never be full: the kernel would take its host for lost.
constexpr int kMaxUnanswered = 32;

}  // namespace

Heartbeats::Heartbeats(asio::io_context& io, OobConnections& connections,
                       const ErrorDelivery& delivery, std::chrono::milliseconds period,
                       const std::function<OpStatuses()>& op_status, std::function<void()> sent)
    : connections_(connections),
      delivery_(delivery),
      period_(period),
      op_status_(op_status),
      sent_(std::move(sent)),
      ticks_(io),
      pulses_(connections.size()) {}

void Heartbeats::start() {
  asio::post(ticks_.get_executor(), [this] { tick(); });
}

void Heartbeats::tick() {
  auto now = Clock::now();
  // Before anything that may fail: this rank must be heard of again whatever happens.
  ticks_.expires_at(now + period_);
  ticks_.async_wait([this](asio::error_code error) {
    if (!error) tick();
  });
  // Time during which this process itself stood still says nothing about the others.
  auto own_pause = now - ticked_ - period_;
  if (own_pause > period_) {
    // One that has been heard since the pause is not put into the future.
    for (Pulse& pulse : pulses_) pulse.heard = std::min(now, pulse.heard + own_pause);
  }
  ticked_ = now;
  said_ = op_status_();
  for (OpStatus& op_status : said_) op_status.text.clear();
  std::string body = encode(said_);
  for (int rank = 0; rank < connections_.size(); ++rank) {
    if (connections_.present(rank)) connections_.look(rank, now);
    if (!connections_.present(rank)) continue;
    if (Pulse& pulse = pulses_[rank]; pulse.unanswered < kMaxUnanswered) {
      connections_.send(rank, MessageType::heartbeat, body);
      ++pulse.unanswered;
    }
    watch(rank, now);
  }
  sent_();
}

void Heartbeats::watch(int rank, Clock::time_point now) {
  Pulse& pulse = pulses_[rank];
  // Before its introduction a rank may still be waiting for others to connect.
  if (pulse.warned || !connections_.introduced(rank) || delivery_.delivered()) return;
  if (now - pulse.heard < kSilentPeriods * period_) return;
  pulse.warned = true;
  log(LogLevel::warn, "control",
      fmt::format("{} has been silent for {:.1f} s; stopped or starved?", connections_.name(rank),
                  seconds_in(now - pulse.heard)));
}

void Heartbeats::note_heard(int rank) {
  Pulse& pulse = pulses_[rank];
  auto now = Clock::now();
  if (pulse.warned) {
    log(LogLevel::warn, "control",
        fmt::format("{} answers again after {:.1f} s", connections_.name(rank),
                    seconds_in(now - pulse.heard)));
    pulse.warned = false;
  }
  pulse.heard = now;
  pulse.unanswered = 0;
}

Duration Heartbeats::patience(Duration usual) const {
  const auto usual_period = Options{}.heartbeat;
  return period_ <= usual_period ? usual : usual / usual_period.count() * period_.count();
}

double Heartbeats::silent_s(int rank) const { return seconds_since(pulses_[rank].heard); }

}  // namespace ringwood
