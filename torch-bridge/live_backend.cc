#include "torch-bridge/live_backend.h"

#include <unistd.h>

#include <utility>

#include "torch-bridge/errors.h"
#include "torch-bridge/flight_recorder.h"
#include "torch-bridge/gil.h"
#include "torch-bridge/interrupt.h"
#include "torch-bridge/shared.h"
#include "torch-bridge/work.h"
#include "transports/base/fork_guard.h"

namespace ringwood {

LiveBackend::LiveBackend(std::unique_ptr<Communicator> communicator,
                         c10::intrusive_ptr<Options> options, CudaOptions cuda)
    : c10d::Backend(communicator->rank(), communicator->size()),
      made_by_(getpid()),
      cuda_(std::move(cuda)),
      options_(std::move(options)),
      callbacks_(CallbackThreads::start()),
      communicator_(std::move(communicator)) {
  communicator_->set_interrupt_check(&run_signal_handlers);
  init();
}

LiveBackend::~LiveBackend() { give_back(); }

void LiveBackend::give_back() noexcept {
  if (forked_since(made_by_)) {
    // Its threads live in the parent only: nothing here can end it. Nor may anything wait for
    // mutex_, which the fork may have caught locked.
    new std::shared_ptr<Communicator>(std::move(communicator_));
    return;
  }
  if (noted_.text) FlightRecorder::instance().end_group(recorded_.group);
  std::shared_ptr<Communicator> last;
  {
    const std::lock_guard lock(mutex_);
    last = std::move(communicator_);
  }
  if (!last) return;
  callbacks_->end_when_idle();
  const WithoutGil released;
  last.reset();
}

const std::shared_ptr<const std::string>& LiveBackend::note() const {
  std::call_once(noted_.once, [this] {
    noted_.text = std::make_shared<const std::string>(
        group_note(options_->group_name, getGroupDesc(), options_->global_ranks_in_group));
    std::vector<uint64_t> ranks = options_->global_ranks_in_group;
    for (int rank = 0; ranks.size() < static_cast<size_t>(size_); ++rank)
      ranks.push_back(static_cast<uint64_t>(rank));
    recorded_.group =
        FlightRecorder::instance().add_group({options_->group_name, getGroupDesc(), rank_, ranks});
    recorded_.rank_in_job = ranks[static_cast<size_t>(rank_)];
  });
  return noted_.text;
}

std::shared_ptr<Communicator> LiveBackend::live() const {
  const std::lock_guard lock(mutex_);
  return communicator_;
}

std::shared_ptr<Communicator> LiveBackend::communicator() const {
  usable();
  if (auto communicator = live()) return communicator;
  throw Error(ErrorCode::aborted,
              "the process group was shut down (destroy_process_group); make a new one");
}

void LiveBackend::usable() const {
  TORCH_CHECK(!forked_since(made_by_),
              "ProcessGroupRingwood: this process was forked after the group was made; the "
              "group belongs to its parent, process ",
              made_by_, ". Make a new group here.", *note());
}

std::shared_ptr<c10::Allocator> LiveBackend::getMemAllocator() {
  return {std::shared_ptr<void>(), &ArenaAllocator::instance()};
}

at::Tensor LiveBackend::allocateTensor(long size, at::TensorOptions options) {
  return shared_tensor(size, options);
}

void LiveBackend::setTimeout(std::chrono::milliseconds timeout) {
  guarded(*note(), [&] { communicator()->set_timeout(timeout); });
  options_->timeout = timeout;
}

c10d::ErrorType LiveBackend::getError() {
  usable();
  const auto communicator = live();
  if (!communicator) return c10d::ErrorType::COMM_ERROR;
  const Status health = communicator->health();
  if (health) return c10d::ErrorType::SUCCESS;
  switch (health.error().code) {
    case ErrorCode::timeout: return c10d::ErrorType::TIMEOUT;
    case ErrorCode::peer_lost:
    case ErrorCode::mismatch: return c10d::ErrorType::REMOTE_ERROR;
    default: return c10d::ErrorType::COMM_ERROR;
  }
}

void LiveBackend::abort_with(const std::string& reason) {
  if (forked_since(made_by_)) return;
  unseen_->seen();  // the caller knows
  const WithoutGil released;
  if (const auto communicator = live()) guarded(*note(), [&] { communicator->abort(reason); });
}

// A rank that made no call since then has had no failed one, but its calls are wanted, too.
void LiveBackend::dump_failure(Communicator& communicator) const {
  if (note() && !communicator.health())
    FlightRecorder::instance().dump_failure(recorded_.rank_in_job);
}

void LiveBackend::shutdown() {
  if (forked_since(made_by_)) return;
  const WithoutGil released;
  // What could not be finished has told its own Work; ending a group after an error is no second
  // error.
  if (const auto communicator = live()) {
    dump_failure(*communicator);
    guarded(*note(), [&] { (void)communicator->shutdown().ok(); });
  }
  give_back();
  rethrow_interrupt();
  if (const auto error = unseen_->take()) raise(*error, *note());
}

void LiveBackend::leave_at_exit(std::chrono::milliseconds most) {
  if (forked_since(made_by_)) return;
  const WithoutGil released;
  const Deadline deadline = Deadline::after(most);
  if (const auto communicator = live()) {
    dump_failure(*communicator);
    guarded(*note(), [&] { (void)communicator->shutdown(most).ok(); });
  }
  callbacks_->drain(std::chrono::milliseconds(deadline.left_ms()));
  give_back();
  if (const auto error = unseen_->take())
    log(LogLevel::error, "torch", "a call on a device has failed: " + error->message() + *note());
}

}  // namespace ringwood
