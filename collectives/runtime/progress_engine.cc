#include "collectives/runtime/progress_engine.h"

#include <sched.h>
#include <unistd.h>

#include <fmt/format.h>

#include "collectives/buffers.h"
#include "transports/fork_guard.h"
#include "transports/thread.h"
#include "transports/wait_set.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ringwood {
namespace {

void cpu_relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Beyond this nobody is about to answer, and sleeping costs less than it delays.
constexpr Duration kYielding = std::chrono::microseconds(150);
// A service thread shares its core with the user's computation: it gives way sooner.
constexpr Duration kPatientYielding = std::chrono::microseconds(20);
constexpr Duration kLongestSleep = std::chrono::milliseconds(100);
}  // namespace

ProgressEngine::ProgressEngine(const Options& options) : options_(options) {}

std::shared_ptr<ProgressEngine> ProgressEngine::create(std::shared_ptr<Store> store, int rank,
                                                       int size, const Options& options,
                                                       const std::string& announcement) {
  std::shared_ptr<ProgressEngine> engine(new ProgressEngine(options));
  ProgressEngine* e = engine.get();
  Control::Handlers handlers{[e] { return e->standing(); },
                             [e](const Error& error) { e->failed(error); },
                             [e](int who) { e->left(who); }};
  engine->mesh_ =
      make_mesh(std::move(store), rank, size, options, std::move(handlers), announcement);
  engine->bell_.store(engine->mesh_->wait_set.get());
  engine->executor_ = std::make_unique<Executor>(*engine->mesh_);
  engine->messages_ = std::make_unique<PointToPoint>(*engine->mesh_);
  if (options.adopt > 0 && engine->mesh_->ranks_on_this_host > 1)
    engine->adopted_ = Adopted::of_process();
  engine->may_spin_ = engine->mesh_->ranks_on_this_host <= engine->mesh_->cores_on_this_host;
  engine->spin_ = std::chrono::microseconds(options.spin_us >= 0 ? options.spin_us : 200);
  return engine;
}

ProgressEngine::~ProgressEngine() {
  // The last handle may die in a callback, that is, in the progress thread itself.
  if (service_.joinable()) {
    if (service_.get_id() == std::this_thread::get_id())
      service_.detach();
    else
      service_.join();
  }
  if (mesh_) mesh_->control.reset();
}

// ---- calls
// ------------------------------------------------------------------------------------------------

void ProgressEngine::wake_driver() {
  if (sleeping_.load()) mesh_->wait_set->ring();
}

// With mutex_ held.
void ProgressEngine::stamp(CollectiveState& op) {
  op.number = static_cast<int64_t>(sequence_);
  op.fingerprint = op.plan->fingerprint;
  op.fingerprint.sequence = sequence_++;
}

template <class Queue, class State>
Status ProgressEngine::enqueue(Queue& queue, State state, bool synchronous) {
  if (forked_since(mesh_->process)) return health();
  {
    std::unique_lock lock(mutex_);
    if (Status s = ended(); !s) return s;
    if (!synchronous && !service_.joinable()) {
      try {
        service_ = start_thread("ringwood", [this, self = weak_from_this()] { serve(self); });
      } catch (Error& error) {
        lock.unlock();
        return end_group(std::move(error));
      }
    }
    if constexpr (std::is_same_v<State, std::shared_ptr<CollectiveState>>) stamp(*state);
    pending_.fetch_add(1);
    queue.push_back(std::move(state));
    new_work_.store(true);
    if (!synchronous && !driven_) changed_.notify_all();
  }
  wake_driver();
  return {};
}

Status ProgressEngine::submit(std::shared_ptr<CollectiveState> operation, bool synchronous) {
  return enqueue(queue_, std::move(operation), synchronous);
}

Status ProgressEngine::submit(std::shared_ptr<MessageState> message, bool synchronous) {
  return enqueue(new_messages_, std::move(message), synchronous);
}

Status ProgressEngine::wait(OperationState& operation) {
  if (forked_since(mesh_->process)) return health();
  Clock::time_point asked;
  std::unique_lock lock(mutex_);
  waiters_.fetch_add(1);
  while (!operation.done()) {
    const bool nested = driven_ && driver_ == std::this_thread::get_id();  // called from a callback
    if (driven_ && !nested) {
      if (service_drives_.load()) wake_driver();
      if (changed_.wait_for(lock, kLongestSleep) == std::cv_status::timeout) {
        lock.unlock();
        check_interrupt(asked);
        lock.lock();
      }
      continue;
    }
    driven_ = true;
    driver_ = std::this_thread::get_id();
    lock.unlock();
    drive(false, [&] { return operation.done(); });
    lock.lock();
    if (!nested) driven_ = false;
  }
  if (waiters_.fetch_sub(1) > 1 || !idle()) changed_.notify_all();
  return {};
}

bool ProgressEngine::take_role_for(const std::shared_ptr<CollectiveState>& operation,
                                   Status& refused) {
  std::lock_guard lock(mutex_);
  refused = ended();
  if (!refused || driven_ || !idle()) return false;
  stamp(*operation);
  pending_.store(1, std::memory_order_relaxed);
  driven_ = true;
  driver_ = std::this_thread::get_id();
  // The caller holds it: counting one more holder would cost two locked instructions.
  current_ = std::shared_ptr<CollectiveState>(std::shared_ptr<void>(), operation.get());
  return true;
}

Status ProgressEngine::call(const std::shared_ptr<CollectiveState>& operation) {
  if (forked_since(mesh_->process)) return health();
  Status refused;
  if (!take_role_for(operation, refused)) {
    if (!refused) return refused;
    if (Status s = submit(operation, true); !s) return s;
    return wait(*operation);
  }
  unshared_ = operation.get();
  drive(false, [&] { return operation->done(); });
  unshared_ = nullptr;
  // Whoever finds the role taken has counted as a waiter, or its work as pending, before.
  driven_.store(false, std::memory_order_seq_cst);
  if (waiters_.load() > 0 || !idle()) [[unlikely]] {
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  return {};
}

// Whoever drives may hold the last handle on the engine, in a callback: it must outlive the drive.
void ProgressEngine::serve(const std::weak_ptr<ProgressEngine>& self) {
  std::shared_ptr<ProgressEngine> kept;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (idle() || driven_ || waiters_.load() > 0) {
      changed_.wait(lock);
      continue;
    }
    driven_ = true;
    driver_ = std::this_thread::get_id();
    service_drives_.store(true);
    lock.unlock();
    kept = self.lock();
    drive(true, [&] { return idle() || waiters_.load() > 0; });
    lock.lock();
    service_drives_.store(false);
    driven_ = false;
    changed_.notify_all();
    if (stopping_) break;
    lock.unlock();
    kept.reset();
    if (self.expired()) return;
    lock.lock();
  }
  lock.unlock();  // before `kept`, with which the mutex may go
}

// ---- the loop
// ------------------------------------------------------------------------------------------------

template <class Until>
void ProgressEngine::drive(bool patient, Until until) {
  const Duration spinning = may_spin_ && !patient ? spin_ : Duration::zero();
  // Who asks for no spinning wants the core for something else.
  const Duration yielding = options_.spin_us == 0
                                ? Duration::zero()
                                : spinning + (patient ? kPatientYielding : kYielding);
  bool armed = false;
  unsigned idle_passes = 0;
  Clock::time_point idle_since, asked;
  Settled settled;
  while (true) {
    bool progressed = false;
    progress(armed, progressed, settled);
    if (!settled.empty()) deliver(settled, nullptr);
    if (until()) break;
    if (progressed) {
      idle_passes = 0;
      continue;
    }
    // The first passes are free of the clock: most answers come within them.
    const auto now = ++idle_passes % 16 ? Clock::time_point{} : Clock::now();
    if (idle_passes == 16) idle_since = now;
    if (!armed && !may_spin_ && now == Clock::time_point{}) {
      sched_yield();  // whoever has the answer may be waiting for this very core
      continue;
    }
    if (now != Clock::time_point{} && now - checked_ > std::chrono::milliseconds(1)) check_clock();
    if (armed) {
      if (!new_work_.load() && !failed_.load()) mesh_->wait_set->wait(kLongestSleep);
      mesh_->disarm();
      sleeping_.store(false);
      armed = false;
      check_clock();
      if (!patient) check_interrupt(asked);
      idle_passes = 0;
      continue;
    }
    if (now == Clock::time_point{} || now - idle_since < spinning) {
      cpu_relax();
    } else if (now - idle_since < yielding) {
      sched_yield();
      idle_passes = 31;  // look at the clock again at once: a yield may have taken a time slice
    } else {
      // Armed first, then one more pass, so that no arrival falls between.
      sleeping_.store(true);
      mesh_->arm();
      armed = true;
    }
  }
  if (armed) {
    mesh_->disarm();
    sleeping_.store(false);
  }
}

void ProgressEngine::take_work() {
  if (!new_work_.load(std::memory_order_relaxed) || !new_work_.exchange(false)) return;
  std::lock_guard lock(mutex_);
  for (auto& message : new_messages_) messages_->add(std::move(message));
  new_messages_.clear();
}

void ProgressEngine::progress(bool armed, bool& progressed, Settled& settled) try {
  take_work();
  if (failed_.load()) return fail_everything(settled);
  if (reported_) return;  // the verdict is on its way
  try {
    if (Status s = run_collective(progressed, settled); !s)
      return report(std::move(s.error()), current_.get());
  } catch (...) {
    return report(caught_error(), current_.get());
  }
  if (armed || messages_->active())
    if (Status s = messages_->step(armed, progressed, settled); !s)
      report(std::move(s.error()), nullptr);
  if (progressed) moved_ = true;
} catch (...) {
  report(caught_error(), nullptr);
}

Status ProgressEngine::run_collective(bool& progressed, Settled& settled) {
  if (!current_) {
    std::lock_guard lock(mutex_);
    if (queue_.empty()) return {};
    current_ = std::move(queue_.front());
    queue_.pop_front();
  }
  CollectiveState& op = *current_;
  if (executor_->idle()) {
    if (adopted_) adopt(op);
    executor_->start({op.plan.get(), op.fingerprint, op.buffers, op.send_counts, op.recv_counts,
                      op.prepare && op.holds, op.factors.get()});
    // While the first words are on their way.
    standing_.post(op.fingerprint);
    begun_.store(true, std::memory_order_relaxed);
    inside_.store(true, std::memory_order_release);
  }
  if (Status s = executor_->step(progressed); !s) return s;
  if (op.prepare && !op.prepared && executor_->agreed()) {
    op.prepare();
    op.prepared = progressed = true;
    executor_->release();
  }
  if (!executor_->idle()) return {};
  inside_.store(false, std::memory_order_release);
  if (current_.get() == unshared_) {  // nobody else can have asked to be told
    current_->settle_unshared();
    current_ = nullptr;
    pending_.fetch_sub(1);
    return {};
  }
  settled.push_back(std::move(current_));
  current_ = nullptr;
  return {};
}

// The buffers are ours from now on, until the operation is settled.
void ProgressEngine::adopt(const CollectiveState& op) {
  if (op.plan->protocol != Protocol::queued) return;
  for (const auto& bytes : sent_memory(*op.plan, op.buffers))
    if (bytes.size() >= options_.adopt) adopted_->used(bytes.data(), bytes.size());
}

void ProgressEngine::deliver(Settled& settled, const std::shared_ptr<const Error>& error) {
  Settled mine;
  mine.swap(settled);
  for (auto& op : mine) op->settle(error);
  pending_.fetch_sub(static_cast<int>(mine.size()));
  const bool others = waiters_.load() > (service_drives_.load() || unshared_ ? 0 : 1);
  if (others || stopping_) {
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  for (auto& op : mine) run_callbacks(*op);
}

// ---- the end
// ------------------------------------------------------------------------------------------------

Status ProgressEngine::shutdown(std::chrono::milliseconds timeout) {
  {
    std::unique_lock lock(mutex_);
    if (closed_) return {};
    closed_ = true;
  }
  const Deadline deadline = Deadline::after(timeout);
  Status result;
  while (!idle() && !failed_.load() && !deadline.passed()) {
    std::unique_lock lock(mutex_);
    if (driven_ && driver_ == std::this_thread::get_id())
      break;  // from a callback: nothing more can finish
    if (driven_) {
      if (service_drives_.load()) wake_driver();
      changed_.wait_for(lock, std::chrono::milliseconds(10));
      continue;
    }
    driven_ = true;
    driver_ = std::this_thread::get_id();
    lock.unlock();
    drive(false, [&] { return idle() || failed_.load() || deadline.passed(); });
    lock.lock();
    driven_ = false;
    changed_.notify_all();
  }
  if (!idle())
    result = Error(ErrorCode::aborted,
                   fmt::format("{} operations were given up by shutdown", pending_.load()));
  mesh_->control->leave();
  if (!idle())
    fail_locally(
        Error(ErrorCode::aborted, "the communicator was shut down with this operation pending"));
  {
    // What is left is settled here, unless a waiter does it.
    std::unique_lock lock(mutex_);
    while (!idle() && driven_ && driver_ != std::this_thread::get_id()) {
      wake_driver();
      changed_.wait_for(lock, std::chrono::milliseconds(10));
    }
    if (!idle()) {
      const bool nested = driven_;
      driven_ = true;
      lock.unlock();
      Settled settled;
      take_work();
      fail_everything(settled);
      lock.lock();
      driven_ = nested;
    }
    stopping_ = true;
    changed_.notify_all();
  }
  if (service_.joinable() && service_.get_id() != std::this_thread::get_id()) service_.join();
  return result;
}

}  // namespace ringwood
