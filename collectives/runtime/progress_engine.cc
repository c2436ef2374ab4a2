#include "collectives/runtime/progress_engine.h"

#include <chrono>
#include <functional>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "collectives/runtime/observed.h"
#include "collectives/tuner/tuner.h"
#include "transports/base/result.h"
#include "transports/cuda/group_devices.h"
#include "transports/cuda/loaded_driver.h"

namespace ringwood {
namespace {

// Often enough for a person at a keyboard; a check may cost a turn of an interpreter's lock.
constexpr Duration kInterruptPeriod = std::chrono::milliseconds(200);
// While another thread drives, the deadline of a shutdown is checked this often.
constexpr Duration kShutdownPause = std::chrono::milliseconds(10);

}  // namespace

ProgressEngine::ProgressEngine(const Options& options)
    : queue_(options.in_flight),
      waiter_(options),
      error_([this] {
        role_.wake_all();
        observed_->trace->write_soon(error_.get()->message());
      }),
      watchdog_(error_, options.heartbeat),
      observed_(std::make_unique<Observed>(options)),
      role_(waiter_, queue_),
      follower_(role_, queue_, options) {}

std::shared_ptr<ProgressEngine> ProgressEngine::create(std::shared_ptr<Store> store, int rank,
                                                       int size, const Options& options,
                                                       const std::string& name, TunerSetup* setup) {
  std::shared_ptr<ProgressEngine> engine(new ProgressEngine(options));
  ProgressEngine* const e = engine.get();
  Control::Handlers handlers;
  cuda::LoadedDriver::look(options.cuda.library);
  handlers.op_status = [e, library = options.cuda.library] {
    cuda::LoadedDriver::look(library);
    e->follower_.note_pace();
    return e->observed_->status.op_statuses();
  };
  handlers.report = [e] {
    const auto error = e->error_.get();
    return e->observed_->watched.report(e->observed_->status.op_statuses(),
                                        error ? error->message() : "");
  };
  handlers.failed = [e](const Error& error) { e->error_.set(error); };
  handlers.left = [e](int who) { e->watchdog_.left(who); };
  handlers.prepare = std::bind_front(&ParameterFollower::prepare, &e->follower_);
  handlers.commit = std::bind_front(&ParameterFollower::commit, &e->follower_);
  handlers.abandon = std::bind_front(&ParameterFollower::abandon, &e->follower_);
  NetworkWatch& network = e->follower_.network();
  handlers.paths = std::bind_front(&NetworkWatch::look, &network);
  handlers.reported = std::bind_front(&NetworkWatch::reported, &network);
  handlers.next_change = std::bind_front(&NetworkWatch::next_change, &network);
  handlers.trace = [e](const TraceDone& done) {
    const auto error = e->error_.get();
    e->observed_->trace->print_soon(error ? error->message() : "", done);
  };
  handlers.clock = [e](const ClockSample& sample) { e->observed_->trace->note_clock(sample); };
  e->mesh_ =
      make_mesh(std::move(store), rank, size, options, std::move(handlers),
                setup ? setup->announcement() : "", setup ? setup->links() : LinkAgreement{});
  if (setup) setup->read(*e->mesh_);
  set_up(*e->mesh_,
         [&] { setup ? setup->agree(*e->mesh_) : agree_on_network(*e->mesh_, options); });
  e->waiter_.use(*e->mesh_);
  e->error_.use(*e->mesh_);
  RecordedGroup recorded{name, e->mesh_->session, rank, size, e->mesh_->host_numbers, {}};
  for (int peer = 0; peer < size; ++peer) recorded.ways.push_back(e->mesh_->way_to(peer));
  e->observed_->trace->begin(std::move(recorded), e->queue_.calls(), parameters_of(*e->mesh_));
  e->device_calls_ = std::make_unique<DeviceCalls>(
      make_group_devices(options.cuda, e->mesh_->in_flight, e->mesh_->wait_set->doorbell_fd()));
  e->work_ = std::make_unique<InFlight>(*e->mesh_, options, e->observed_->status,
                                        e->observed_->trace->recorder(), *e->device_calls_);
  e->observed_->watched.use(*e->mesh_, e->observed_->trace->recorder());
  network.use(*e->mesh_, [e] {
    const std::shared_ptr<Planner> planner = e->follower_.planner();
    return planner ? planner->in_use() : TunerInUse{};
  });
  return engine;
}

// Handlers run until the control connection is gone, and the role is in use until its
// thread has ended.
ProgressEngine::~ProgressEngine() {
  role_.join();
  if (mesh_) mesh_->control.reset();
  follower_.stop();
}

// ---- calls --------------------------------------------------------------------------------------

Status ProgressEngine::refusal() const {
  if (error_.is_set()) [[unlikely]]
    return *error_.get();
  if (queue_.closed()) [[unlikely]]
    return Error(ErrorCode::aborted, "the communicator was shut down");
  return {};
}

template <class State>
Status ProgressEngine::enqueue(std::shared_ptr<State> operation, bool synchronous) {
  if (forked_since(mesh_->process)) return health();
  {
    EngineLock held = role_.lock();
    if (Status s = refusal(); !s) return s;
    if constexpr (std::is_same_v<State, CollectiveState>)
      if (!queue_.admits(held, *operation)) [[unlikely]]
        if (Status s = admit(held, *operation); !s) return s;
    if (Status s = need_driver(held, synchronous); !s) return s;
    queue_.push(held, std::move(operation));
    if (!synchronous) role_.notify_progress_thread(held);
  }
  waiter_.wake();
  return {};
}

Status ProgressEngine::need_driver(EngineLock& held, bool synchronous) {
  if (synchronous || role_.has_progress_thread(held)) return {};
  try {
    role_.start_progress_thread(held, weak_from_this(), [this] {
      drive(true, [this] { return queue_.idle() || role_.wanted(); });
    });
  } catch (Error& error) {
    held.unlock();
    return error_.end(std::move(error));
  }
  return {};
}

Status ProgressEngine::admit(EngineLock& held, CollectiveState& operation) try {
  Clock::time_point asked;
  std::shared_ptr<const Plan> barrier;  // of a measurement, before the operation
  while (!queue_.admits(held, operation)) {
    const uint64_t number = queue_.next_number(held);
    bool late = false;
    const auto over = [&] {
      late = operation.late(Clock::now());
      return late || queue_.open(number) || queue_.closed() || error_.is_set();
    };
    const auto measured = follower_.measurement_due(held);
    if (queue_.open(number) && measured && (!barrier || barrier->epoch != *measured)) {
      held.unlock();
      barrier = follower_.barrier_of(*measured);
    } else if (queue_.open(number)) {
      const uint32_t epoch = queue_.epochs(held).enter(number);
      if (measured) follower_.measure(held, std::exchange(barrier, nullptr), shared_from_this());
      held.unlock();
      const Plan& plan = *operation.call().plan;
      if (epoch != plan.epoch) operation.change(follower_.planner()->plan_again(plan, epoch));
    } else {
      held.unlock();
      role_.wait_until(
          Waiter::kLongestSleep, over, [&] { drive(false, over); },
          [&] { check_interrupt(asked); });
    }
    held.lock();
    if (Status s = refusal(); !s) return s;
    if (late && !queue_.open(number)) {
      held.unlock();
      throw Error(ErrorCode::timeout,
                  fmt::format("not begun within {:.1f} s: rank 0 has not ended a change of "
                              "parameters",
                              seconds_in(operation.allowed())));
    }
  }
  return {};
} catch (...) {
  if (held.owns_lock()) held.unlock();
  Error error = caught_error();
  error.collective = operation.name;
  return error_.end(std::move(error));
}

Status ProgressEngine::submit(std::shared_ptr<CollectiveState> operation, bool synchronous) {
  if (operation->call().on.device >= 0) [[unlikely]]
    return submit_on_device(std::move(operation), synchronous);
  return enqueue(std::move(operation), synchronous);
}

Status ProgressEngine::submit(std::shared_ptr<MessageState> message, bool synchronous) {
  if (message->on_device()) [[unlikely]]
    return submit_on_device(std::move(message), synchronous);
  return enqueue(std::move(message), synchronous);
}

Status ProgressEngine::wait(OperationState& operation) {
  if (forked_since(mesh_->process)) return health();
  Clock::time_point asked;
  const auto done = [&] { return operation.done(); };
  role_.wait_until(
      Waiter::kLongestSleep, done, [&] { drive(false, done); }, [&] { check_interrupt(asked); });
  return {};
}

Status ProgressEngine::call(const std::shared_ptr<CollectiveState>& operation) {
  const bool on_host = operation->call().on.device < 0;
  if (on_host && call_alone([&](const EngineLock&) { return operation.get(); })) return {};
  if (Status s = submit(operation, true); !s) return s;
  return wait(*operation);
}

void ProgressEngine::drive_alone(CollectiveState& operation) {
  work_->collectives.begin_unshared(operation);
  drive(false, [&] { return operation.done(); });
  work_->collectives.end_unshared();
  queue_.end_alone();
  try {
    operation.run_callbacks();
  } catch (...) {
    error_.report_callback(operation);
  }
  role_.give_back();
}

Status ProgressEngine::in_child() const {
  if (!forked_since(mesh_->process)) return {};
  return Error(ErrorCode::unsupported,
               "this process was forked from the one that made the group and cannot use it: create "
               "a new group");
}

Status ProgressEngine::health() const {
  if (Status lost = in_child(); !lost) return lost;
  const EngineLock held = role_.lock();
  return refusal();
}

void ProgressEngine::abort(const std::string& reason) {
  if (forked_since(mesh_->process)) return;
  (void)error_.end(Error(ErrorCode::aborted, reason));
}

void ProgressEngine::check_interrupt(Clock::time_point& asked) {
  const auto now = Clock::now();
  if (asked == Clock::time_point{}) asked = now;
  if (!interrupted || now - asked < kInterruptPeriod) return;
  asked = now;
  std::string reason;
  try {
    reason = interrupted();
  } catch (...) {
    reason = "the interrupt check threw: " + caught_error().cause;
  }
  if (!reason.empty()) abort(reason);
}

// ---- the driver's -------------------------------------------------------------------------------

template <class Done>
void ProgressEngine::drive(bool patient, Done done) {
  Waiter::Idling idling = waiter_.begin(patient);
  Clock::time_point asked;
  Operations finished;
  finished.swap(spare_);
  const auto busy = [this] { return queue_.fresh() || error_.is_set(); };
  const auto look = [&](Clock::time_point now, bool slept) {
    watchdog_.look(now, slept, *work_);
    if (slept && !patient) check_interrupt(asked);
  };
  while (true) {
    bool progressed = false;
    iterate(progressed, finished);
    if (!finished.empty()) deliver(finished, nullptr);
    if (done()) break;
    if (progressed)
      idling.iterations = 0;
    else
      waiter_.pause(idling, busy, look);
  }
  waiter_.end();
  spare_.swap(finished);
}

void ProgressEngine::iterate(bool& progressed, Operations& finished) try {
  if (queue_.acknowledge()) take();
  if (error_.is_set()) {
    if (!finished.empty()) deliver(finished, nullptr);  // before
    drop(finished);
    if (!finished.empty()) deliver(finished, error_.get());
    return;
  }
  if (error_.reported()) return;  // the group's error is on its way
  try {
    if (Status s = work_->collectives.step(progressed, finished); !s)
      return error_.report(std::move(s.error()), work_->collectives.stepped());
  } catch (...) {
    return error_.report(caught_error(), work_->collectives.stepped());
  }
  // Before a sleep every source must be watched.
  if (waiter_.armed() || work_->messages.active())
    if (Status s = work_->messages.step(waiter_.armed(), progressed, finished); !s)
      error_.report(std::move(s.error()), nullptr);
  if (progressed) watchdog_.moved();
} catch (...) {
  error_.report(caught_error(), nullptr);
}

// Everything from the queue.
void ProgressEngine::take() {
  std::vector<std::shared_ptr<MessageState>> messages;
  {
    const EngineLock held = role_.lock();
    queue_.take(held, messages);
    queue_.take(held, taken_);
  }
  for (auto& message : messages) work_->messages.add(std::move(message));
  work_->collectives.add(taken_);
  taken_.clear();
}

// The group has ended. The links are aborted first, so that no buffer is touched any more.
void ProgressEngine::drop(Operations& dropped) {
  if (!std::exchange(links_aborted_, true))
    for (Peer& peer : mesh_->peers)
      for (auto& link : peer.link)
        if (link) link->abort();
  work_->collectives.drop(dropped);
  work_->messages.drop(dropped);
}

// All of them are completed before any callback runs.
void ProgressEngine::deliver(Operations& finished, const std::shared_ptr<const Error>& error) {
  Operations mine = std::exchange(finished, {});  // a callback may drive
  size_t queued = 0;
  for (auto& op : mine) {
    op->complete(error);
    if (!work_->collectives.unshared(*op)) ++queued;
  }
  queue_.completed(queued);
  // A callback may ask whether anything is pending.
  if (work_->collectives.unshared_done()) queue_.end_alone();
  role_.notify_others();
  for (auto& op : mine) {
    try {
      op->run_callbacks();
    } catch (...) {
      error_.report_callback(*op);
    }
  }
  mine.clear();
  if (finished.empty()) finished.swap(mine);
}

// ---- the end ------------------------------------------------------------------------------------

Status ProgressEngine::shutdown(std::chrono::milliseconds timeout) {
  if (forked_since(mesh_->process)) return health();
  if (!queue_.close(role_.lock())) return {};
  const Deadline deadline = Deadline::after(timeout);
  const auto over = [&] { return queue_.idle() || error_.is_set() || deadline.passed(); };
  // Called from a callback, nothing more can finish.
  if (!role_.mine(role_.lock()))
    role_.wait_until(
        kShutdownPause, over, [&] { drive(false, over); }, [] {});
  Status result;
  if (!queue_.idle())
    result = Error(ErrorCode::aborted,
                   fmt::format("{} operations were given up by shutdown", queue_.pending()));
  mesh_->control->leave();
  if (!queue_.idle()) {
    error_.set(
        Error(ErrorCode::aborted, "the communicator was shut down with this operation pending"));
    const auto idle = [this] { return queue_.idle(); };
    role_.wait_until(
        kShutdownPause, idle, [&] { drive(false, idle); }, [] {});
  }
  role_.stop();
  observed_->trace->write("");
  return result;
}

}  // namespace ringwood
