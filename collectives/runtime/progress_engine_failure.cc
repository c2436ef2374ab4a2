// The half of the engine that deals with errors: reporting them, waiting for the group's verdict,
// settling everything.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "collectives/buffers.h"
#include "collectives/runtime/progress_engine.h"
#include "transports/control_verdict.h"
#include "transports/fork_guard.h"
#include "transports/log.h"
#include "transports/net.h"
#include "transports/wait_set.h"

namespace ringwood {
namespace {

// A peer that said goodbye has flushed what it sent; what has not come by then never will.
constexpr Duration kDepartedGrace = std::chrono::milliseconds(500);
// Between two looks at the clock counts at most so much: a rank that was busy elsewhere, stopped or
// starved has not looked, and may have all of it in its buffers.
constexpr Duration kMostInVain = std::chrono::milliseconds(100);

// Of a heartbeat, until a collective that waits says for whom: 5 s.
constexpr int kLatePeriods = 20;

// Often enough for a person at a keyboard; to ask may cost a turn of an interpreter's lock.
constexpr Duration kInterruptPeriod = std::chrono::milliseconds(200);

// In a catch clause.
Error thrown_by_callback() {
  Error error = caught_error();
  error.cause = "a callback of the operation threw: " + error.cause;
  return error;
}

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

void ProgressEngine::fail_everything(Settled& settled) {
  if (!settled.empty()) deliver(settled, nullptr);  // these were finished before
  std::shared_ptr<const Error> error;
  {
    std::lock_guard lock(mutex_);
    error = failure_;
    for (auto& op : queue_) settled.push_back(op);
    queue_.clear();
  }
  if (!links_aborted_) {
    links_aborted_ = true;
    for (Peer& peer : mesh_->peers)
      for (auto& link : peer.link)
        if (link) link->abort();
  }
  if (current_ && adopted_)
    for (const auto& bytes : memory(*current_->plan, current_->buffers))
      adopted_->withdraw(bytes.data(), bytes.size());
  if (current_) settled.push_back(std::move(current_));
  current_ = nullptr;
  executor_->drop();
  messages_->drop(settled);
  if (!settled.empty()) deliver(settled, error);
}

void ProgressEngine::report(Error error, const OperationState* operation) {
  if (std::exchange(reported_, true)) return;  // the first error wins
  if (error.rank < 0) error.rank = mesh_->rank;
  if (error.host.empty()) error.host = host_name();
  if (error.transport.empty() && error.peer >= 0 && error.code != ErrorCode::mismatch)
    error.transport = mesh_->peers[error.peer].transport;
  if (operation) {
    if (error.collective.empty()) error.collective = operation->name;
    if (error.sequence < 0) error.sequence = operation->number;
  }
  mesh_->control->fail(std::move(error));
}

void ProgressEngine::run_callbacks(OperationState& operation) {
  try {
    operation.run_callbacks();
  } catch (...) {
    report(thrown_by_callback(), &operation);
  }
}

void ProgressEngine::callback_threw(const OperationState& operation) {
  Error error = thrown_by_callback();
  error.collective = operation.name;
  error.sequence = operation.number;
  (void)end_group(std::move(error));
}

// The running one, or one that is queued behind it with less patience.
std::shared_ptr<CollectiveState> ProgressEngine::late_collective(Clock::time_point now) const {
  if (current_ && current_->late(now)) return current_;
  std::lock_guard lock(mutex_);
  for (const auto& operation : queue_)
    if (operation->late(now)) return operation;
  return nullptr;
}

void ProgressEngine::check_interrupt(Clock::time_point& asked) {
  const auto now = Clock::now();
  if (asked == Clock::time_point{}) asked = now;
  if (!interrupted || now - asked < kInterruptPeriod) return;
  asked = now;
  if (const std::string reason = interrupted(); !reason.empty()) abort(reason);
}

void ProgressEngine::check_clock() try {
  const auto now = Clock::now();
  const int departures = departures_.load();
  if (moved_ || departures != known_departures_) in_vain_ = Duration::zero();
  if (moved_) told_ = false;
  moved_ = false;
  known_departures_ = departures;
  const bool long_in_vain = in_vain_ >= kDepartedGrace;  // and in the pass since the last look
  in_vain_ += std::min<Duration>(now - checked_, kMostInVain);
  checked_ = now;
  if (reported_ || failed_.load()) return;
  if (departures > 0 && long_in_vain) check_departed();
  if (!told_ && current_ && in_vain_ >= kLatePeriods * options_.heartbeat) tell_who_is_late();
  if (auto operation = late_collective(now)) {
    std::vector<int> peers;
    const std::string waiting = executor_->waiting_for(&peers);
    Error error(
        ErrorCode::timeout,
        fmt::format("not finished within {:.1f} s; {}waiting for {}", seconds(operation->allowed()),
                    operation == current_ ? "" : "queued behind an earlier operation, ",
                    waiting.empty() ? "its turn" : waiting));
    if (!peers.empty()) error.peer = peers.front();
    return report(std::move(error), operation.get());
  }
  if (auto message = messages_->late(now)) {
    Error error(
        ErrorCode::timeout,
        fmt::format("not finished within {:.1f} s: tag {}, {} bytes, {}",
                    seconds(message->allowed()), message->tag, message->bytes,
                    message->peer < 0 ? "from any rank"
                                      : fmt::format("{} rank {}", message->sending ? "to" : "from",
                                                    message->peer)));
    error.peer = message->peer;
    report(std::move(error), message.get());
  }
} catch (...) {
  report(caught_error(), nullptr);
}

// Lateness is no error before the operation's deadline, but somebody may be looking for the reason.
void ProgressEngine::tell_who_is_late() {
  told_ = true;
  const std::string waiting = executor_->waiting_for();
  if (waiting.empty()) return;
  log(LogLevel::warn, "collective",
      fmt::format("{} #{} has waited {:.1f} s for {}; it goes on until {:.0f} s have passed",
                  current_->name, current_->number, seconds(in_vain_), waiting,
                  seconds(current_->allowed())));
}

// A rank that left in good order is an error only for those who still wait for it.
void ProgressEngine::check_departed() {
  std::vector<int> departed;
  {
    std::lock_guard lock(departed_mutex_);
    departed = departed_;
  }
  std::vector<int> awaited;
  if (current_) executor_->waiting_for(&awaited);
  for (int rank : departed) {
    const bool here = std::find(awaited.begin(), awaited.end(), rank) != awaited.end();
    if (!here && !messages_->needs(rank)) continue;
    Error error(ErrorCode::peer_lost, left_text(rank));
    error.peer = rank;
    return report(std::move(error), here ? current_.get() : nullptr);
  }
}

void ProgressEngine::fail_locally(const Error& error) {
  {
    std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = std::make_shared<const Error>(error);
    failed_.store(true);
    changed_.notify_all();
  }
  if (WaitSet* const bell = bell_.load()) bell->ring();
}

void ProgressEngine::failed(const Error& error) { fail_locally(error); }

void ProgressEngine::left(int rank) {
  {
    std::lock_guard lock(departed_mutex_);
    departed_.push_back(rank);
  }
  departures_.fetch_add(1);
}

Standing ProgressEngine::standing() const {
  Standing s;
  s.inside = inside_.load();
  if (!begun_.load()) {
    s.text = "nothing yet";
    return s;
  }
  const Fingerprint standing = standing_.read();
  s.sequence = static_cast<int64_t>(standing.sequence);
  s.text = describe(standing);
  return s;
}

Status ProgressEngine::health() const {
  if (forked_since(mesh_->process))
    return Error(ErrorCode::unsupported,
                 "this process was forked from the one that made the group and cannot use it; make "
                 "a group of its own");
  std::lock_guard lock(mutex_);
  return ended();
}

Status ProgressEngine::ended() const {
  if (failure_) return *failure_;
  if (closed_) return Error(ErrorCode::aborted, "the communicator was shut down");
  return {};
}

// Any thread.
Status ProgressEngine::end_group(Error error) {
  error.rank = mesh_->rank;
  error.host = host_name();
  mesh_->control->fail(error);
  fail_locally(error);
  return error;
}

void ProgressEngine::abort(const std::string& reason) {
  if (forked_since(mesh_->process)) return;
  (void)end_group(Error(ErrorCode::aborted, reason));
}

}  // namespace ringwood
