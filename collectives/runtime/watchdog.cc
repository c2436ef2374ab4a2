#include "collectives/runtime/watchdog.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "transports/base/log.h"
#include "transports/base/result.h"
#include "transports/control/explain_error.h"

namespace ringwood {
namespace {

// A peer that said goodbye has flushed what it sent; what has not arrived by then never will.
constexpr Duration kDepartedGrace = std::chrono::milliseconds(500);
// The time between two looks at the clock counts at most this much: a rank that was busy elsewhere,
// stopped or starved has not looked, and may have everything in its buffers already.
constexpr Duration kMaxInVain = std::chrono::milliseconds(100);
// CUDA is asked so often, which takes a microsecond.
constexpr Duration kDevicePeriod = std::chrono::seconds(1);
// Heartbeats until a waiting collective names the late peers in the log: 5 s.
constexpr int kLatePeriods = 20;

Error late(const CollectiveState& operation, const InFlight& work) {
  const WaitList waits = work.collectives.waits(operation);
  const bool queued = !work.collectives.under_way(operation);
  Error error(ErrorCode::timeout, fmt::format("not finished within {:.1f} s; {}waiting for {}",
                                              seconds_in(operation.allowed()),
                                              queued ? "queued behind an earlier operation, " : "",
                                              waits.text().empty() ? "its turn" : waits.text()));
  if (!waits.peers().empty()) error.peer = waits.peers().front();
  return error;
}

Error late(const MessageState& message) {
  const std::string peer_words =
      message.peer < 0 ? "from any rank"
                       : fmt::format("{} rank {}", message.sending ? "to" : "from", message.peer);
  return Error(ErrorCode::timeout,
               fmt::format("not finished within {:.1f} s: {} bytes {}",
                           seconds_in(message.allowed()), message.bytes, peer_words));
}

}  // namespace

void Watchdog::left(int rank) {
  {
    std::lock_guard lock(mutex_);
    if (std::ranges::find(departed_, rank) != departed_.end()) return;
    departed_.push_back(rank);
  }
  departures_.fetch_add(1);
}

void Watchdog::look(Clock::time_point now, bool slept, InFlight& work) {
  work.collectives.note_waiting(now);
  if (!slept && now - looked_ <= kPeriod) return;
  if (!slept) work.mesh.look_for_ends();  // a sleep begins with that
  check(now, work);
}

void Watchdog::check(Clock::time_point now, const InFlight& work) try {
  const int departures = departures_.load();
  const bool long_in_vain = count_in_vain(now, departures) >= kDepartedGrace;
  if (error_.reported() || error_.is_set()) return;
  if (departures > 0 && long_in_vain) check_departed(work);
  if (long_in_vain && work.messages.from_any()) check_all_gone(work);
  if (!named_ && !work.collectives.served().empty() && in_vain_ >= kLatePeriods * heartbeat_)
    name_who_is_late(work);
  check_deadlines(now, work);
  if (now - asked_devices_ >= kDevicePeriod) check_devices(now, work);
} catch (...) {
  error_.report(caught_error(), nullptr);
}

Duration Watchdog::count_in_vain(Clock::time_point now, int departures) {
  if (moved_ || departures != known_departures_) in_vain_ = Duration::zero();
  if (moved_) named_ = false;
  moved_ = false;
  known_departures_ = departures;
  const Duration before = in_vain_;  // excludes the iteration since then
  in_vain_ += std::min<Duration>(now - looked_, kMaxInVain);
  looked_ = now;
  return before;
}

void Watchdog::check_deadlines(Clock::time_point now, const InFlight& work) {
  if (auto operation = work.collectives.late(now))
    error_.report(late(*operation, work), operation.get());
  else if (auto message = work.messages.late(now))
    error_.report(late(*message), message.get());
}

// One that has failed does nothing any more, and says so only if it is asked.
void Watchdog::check_devices(Clock::time_point now, const InFlight& work) {
  asked_devices_ = now;
  std::vector<int> asked;
  const auto failed = [&](int device, const OperationState& operation) {
    if (device < 0 || std::ranges::count(asked, device) > 0) return false;
    asked.push_back(device);
    Status s = work.devices.devices().copies(device).health();
    if (!s) error_.report(std::move(s.error()), &operation);
    return !s;
  };
  for (const Track* track : work.collectives.served())
    if (failed(track->current->call().on.device, *track->current)) return;
  for (const MessageState* message : work.messages.on_devices())
    if (failed(message->on.device, *message)) return;
}

void Watchdog::name_who_is_late(const InFlight& work) {
  named_ = true;
  for (const Track* track : work.collectives.served()) {
    const CollectiveState& operation = *track->current;
    const std::string waiting = track->runner.waits().text();
    if (waiting.empty()) continue;
    log(LogLevel::warn, "collective",
        fmt::format("{} #{} has waited {:.1f} s for {}; its timeout is {:.0f} s", operation.name,
                    operation.number, seconds_in(in_vain_), waiting,
                    seconds_in(operation.allowed())));
  }
}

void Watchdog::check_departed(const InFlight& work) {
  std::vector<int> departed;
  {
    std::lock_guard lock(mutex_);
    departed = departed_;
  }
  for (int rank : departed) {
    const OperationState* here = nullptr;
    for (const Track* track : work.collectives.served()) {
      const WaitList waits = track->runner.waits();
      if (!here && std::ranges::find(waits.peers(), rank) != waits.peers().end())
        here = track->current.get();
    }
    if (!here && !work.messages.needs(rank)) continue;
    if (!here) here = work.messages.with(rank);
    Error error(ErrorCode::peer_lost, left_text(rank));
    error.peer = rank;
    return error_.report(std::move(error), here);
  }
}

// Rank 0 tells who has left, and where it has left itself, the links do.
void Watchdog::check_all_gone(const InFlight& work) {
  int present = 0;
  {
    std::lock_guard lock(mutex_);
    for (int rank = 0; rank < work.mesh.size && present < 2; ++rank)
      present += std::ranges::find(departed_, rank) == departed_.end() && !work.messages.gone(rank);
  }
  if (present > 1) return;  // itself, and another one
  error_.report(Error(ErrorCode::peer_lost,
                      "a receive from any rank can get nothing: every other "
                      "rank has left the group"),
                work.messages.from_any());
}

}  // namespace ringwood
