#include "collectives/operations/operation.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "collectives/plan/buffers.h"

namespace ringwood {
namespace {

// Kept apart from the success path, which must be cheap.
[[gnu::noinline]] Status failed_with(const Error& error) { return error; }

void use_storage_order(CollectiveState& state, const std::shared_ptr<const CopiedMemory>& copied) {
  CollectiveCall& call = state.draft();
  void* const copy = call.buffers.front();
  call.reordered = copied;
  call.prepares_first = !call.prepare.empty();
  state.run.reordered = copy;
  call.at_start.call([=, &state] {
    const bool stated = state.call().states_order();
    state.run.reordered = stated ? copied->memory : copy;
    if (!stated) copied->fill();
  });
  call.prepare.call_first([=, &run = state.run] {
    if (run.reordered == copy || run.agreed_order == copied->order) return;
    copied->fill();
    run.reordered = copy;
  });
  call.finish.call([=, &run = state.run] {
    if (run.reordered == copy) copied->finish();
  });
}

}  // namespace

OperationState::OperationState(std::shared_ptr<OperationDriver> driver, const char* name_,
                               Duration timeout)
    : name(name_), driver_(std::move(driver)), timeout_(timeout) {}

void CollectiveCall::state_elements(Fingerprint& f) const {
  if (parts != 0) {
    f.blocks = parts;
    f.even = Fingerprint::kPacked;
  }
  if (states_order()) f.blocks = reordered->order;
}

void CollectiveState::change(std::shared_ptr<const Plan> other) {
  // See send_from(): the old plan may send from where the new one writes.
  void* const copied = call_.own_move.bytes > 0 ? call_.own_move.to : call_.prepare.copied_to();
  void* const own = sends_from_input(other->key.args.collective) ? copied : nullptr;
  if (own && other->memory.writes_own) {
    call_.buffers[static_cast<size_t>(other->schedule.rank)] = own;
    call_.prepares_first = true;
  }
  run.footprint.clear();  // the new plan may use more
  call_.plan = std::move(other);
}

const Footprint& footprint_of(CollectiveState& state) {
  Footprint& all = state.run.footprint;
  if (all.sorted()) return all;
  const CollectiveCall& call = state.call();
  all = call.touched;
  const std::vector<BufferUse>& uses = call.plan->memory.uses;
  for (size_t i = 0; i < uses.size(); ++i) {
    all.read(call.buffers[i], uses[i].read);
    all.write(call.buffers[i], uses[i].written);
  }
  if (call.factors) all.read(call.factors->data(), call.factors->size() * sizeof(double));
  all.sort();
  return all;
}

void set_pair_counts(CollectiveCall& call) {
  const CollectiveArgs& args = call.plan->key.args;
  if (!has_blocks_of_pairs(args)) return;
  const int rank = call.plan->schedule.rank, n = call.plan->schedule.n;
  const auto first = args.blocks.begin(), middle = first + n;
  if (!has_root(args.collective)) {
    call.send_counts.assign(first, middle);
    call.recv_counts.assign(middle, middle + n);
    return;
  }
  // What the root gathers comes from the other ranks; what it scatters goes to them.
  const bool gathers = traits_of(args.collective).to == Who::root;
  std::vector<uint64_t>& sent = call.send_counts;
  std::vector<uint64_t>& expected = call.recv_counts;
  sent.assign(static_cast<size_t>(n), 0);
  expected.assign(static_cast<size_t>(n), 0);
  if (rank == args.root)
    (gathers ? expected : sent).assign(first, middle);
  else
    (gathers ? sent : expected)[static_cast<size_t>(args.root)] =
        args.blocks[static_cast<size_t>(own_chunk(args.collective, {rank, n, args.root}))];
}

void copy_own(CollectiveCall& call, void* to, const void* from, size_t bytes) {
  if (call.on.device >= 0)
    call.own_move = {to, from, bytes};
  else
    call.prepare.copy(to, from, bytes);
  call.prepares_first = false;
  call.touched.write(to, bytes);
  call.touched.read(from, bytes);
}

void premultiply_in_place(CollectiveCall& call, size_t count, DataType type, double factor) {
  call.factor = factor;
  if (call.on.device >= 0) return;
  call.prepare.scale(0, count, type, factor);
  call.touched.write(call.buffers.front(), count * size_of(type));
}

void use_copies(CollectiveState& state, const std::shared_ptr<const CopiedMemory>& copied) {
  CollectiveCall& call = state.draft();
  for (const auto& [data, bytes] : copied->read) call.touched.read(data, bytes);
  for (const auto& [data, bytes] : copied->written) call.touched.write(data, bytes);
  const bool whole = call.plan && cut_from_one_buffer(call.plan->key.args.collective);
  if (copied->order != 0 && whole && call.parts == 0 && call.at_start.empty())
    return use_storage_order(state, copied);
  if (copied->fill) call.at_start.call_first([copied] { copied->fill(); });
  if (copied->finish) call.finish.call([copied] { copied->finish(); });
}

void send_from(CollectiveCall& call, size_t own, const void* in, size_t bytes) {
  void*& block = call.buffers[own];
  if (block == in) return;
  copy_own(call, block, in, bytes);
  if (call.plan->memory.writes_own)
    call.prepares_first = true;
  else
    block = const_cast<void*>(in);
}

void premultiply(CollectiveCall& call, std::span<const size_t> counts, DataType type,
                 double factor) {
  call.factor = factor;
  if (call.on.device >= 0) return;
  const size_t elements = std::accumulate(counts.begin(), counts.end(), size_t{0});
  call.temporaries.push_back(std::make_unique<std::byte[]>(elements * size_of(type)));
  std::byte* at = call.temporaries.back().get();
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    call.at_start.copy_scaled(at, call.buffers[i], counts[i], type, factor);
    call.touched.read(call.buffers[i], counts[i] * size_of(type));
    call.buffers[i] = at;
    at += counts[i] * size_of(type);
  }
}

OperationPtr OperationState::make_persistent(bool synchronous) {
  kind_ = synchronous ? Kind::persistent_synchronous : Kind::persistent;
  done_.store(true);
  return shared_from_this();
}

Status OperationState::start() {
  if (kind_ == Kind::once)
    return Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: cannot be started again; make it with CallOptions::persistent", name));
  bool idle = true;
  if (!done_.compare_exchange_strong(idle, false))
    return Error(
        ErrorCode::invalid_argument,
        fmt::format("{} #{} is in flight: wait for it before it is started again", name, number));
  begun_.store(0, std::memory_order_relaxed);
  deadline_.store(std::numeric_limits<int64_t>::max(), std::memory_order_relaxed);
  from = -1;
  try {
    const bool synchronous = kind_ == Kind::persistent_synchronous;
    Status s = begin(*driver_, synchronous);
    if (!s) done_.store(true);
    return s && synchronous ? status() : std::move(s);
  } catch (...) {
    done_.store(true);
    throw;
  }
}

Status CollectiveState::begin(OperationDriver& driver, bool synchronous) {
  if (auto first = std::exchange(gather, nullptr))
    if (Status s = driver.submit(std::move(first), synchronous); !s) return s;
  auto self = std::static_pointer_cast<CollectiveState>(shared_from_this());
  return synchronous ? driver.call(self) : driver.submit(std::move(self), false);
}

Status MessageState::begin(OperationDriver& driver, bool synchronous) {
  auto self = std::static_pointer_cast<MessageState>(shared_from_this());
  if (Status s = driver.submit(std::move(self), synchronous); !s) return s;
  return synchronous ? driver.wait(*this) : Status();
}

Status OperationState::wait(std::chrono::milliseconds timeout) {
  const bool over = done_.load();
  if (over && !error_) return {};  // before anything needs registers
  if (!over) {
    if (timeout.count() > 0) shorten(Deadline::after(timeout));
    if (Status s = driver_->wait(*this); !s) return s;
  }
  return status();
}

Status OperationState::status() const {
  if (!done() || !error_) return {};
  return failed_with(*error_);
}

void OperationState::name_in(Error& error) const {
  if (error.collective.empty()) error.collective = name;
  if (error.sequence < 0) error.sequence = number;
}

void MessageState::name_in(Error& error) const {
  if (error.collective.empty()) error.collective = fmt::format("{} with tag {}", name, tag);
  if (error.peer < 0) error.peer = peer;
}

void OperationState::on_done(std::function<void(const Error*)> callback) {
  const Status lost = driver_->in_child();
  const Error* error;
  if (lost) {
    std::lock_guard lock(mutex_);
    if (!done_.load()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
    error = error_.get();
  } else {
    error = done() ? error_.get() : &lost.error();
  }
  try {
    callback(error);
  } catch (...) {
    driver_->callback_threw(name, number);
  }
}

void OperationState::complete(std::shared_ptr<const Error> error) {
  std::lock_guard lock(mutex_);
  if (error) error_ = std::move(error);
  // As soon as it is done it may be started again, and then has other callbacks.
  if (!callbacks_.empty())
    std::ranges::move(std::exchange(callbacks_, {}), std::back_inserter(due_));
  done_.store(true);
}

void OperationState::run_callbacks() {
  if (due_.empty()) return;
  std::vector<std::function<void(const Error*)>> callbacks;
  callbacks.swap(due_);
  std::exception_ptr thrown;
  for (auto& callback : callbacks) {
    try {
      callback(error_.get());
    } catch (...) {
      if (!thrown) thrown = std::current_exception();
    }
  }
  if (thrown) std::rethrow_exception(thrown);
}

bool OperationState::late(Clock::time_point now) {
  const int64_t at = now.time_since_epoch().count();
  int64_t begun = begun_.load(std::memory_order_relaxed);
  if (begun == 0) begun_.store(begun = at, std::memory_order_relaxed);
  return at - begun >= timeout_.count() || at >= deadline_.load(std::memory_order_relaxed);
}

void OperationState::shorten(Deadline deadline) {
  const int64_t at = deadline.at().time_since_epoch().count();
  int64_t now = deadline_.load();
  while (at < now && !deadline_.compare_exchange_weak(now, at)) {
  }
}

Clock::duration OperationState::allowed() const {
  return std::min<Duration>(timeout_, Duration(deadline_.load() - begun_.load()));
}

}  // namespace ringwood
