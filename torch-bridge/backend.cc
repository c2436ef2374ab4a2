// The life of the backend, and the calls on single tensors. Calls on lists and blocks are in
// lists.cc.
#include "torch-bridge/backend.h"

#include <unistd.h>

#include <utility>

#include "torch-bridge/call_checks.h"
#include "torch-bridge/errors.h"
#include "torch-bridge/flight_recorder.h"
#include "torch-bridge/gil.h"
#include "torch-bridge/interrupt.h"
#include "torch-bridge/shared.h"
#include "torch-bridge/sparse.h"
#include "torch-bridge/tensors.h"
#include "torch-bridge/work.h"
#include "transports/base/fork_guard.h"

namespace ringwood {

using c10d::OpType;

TorchBackend::TorchBackend(std::unique_ptr<Communicator> communicator,
                           c10::intrusive_ptr<Options> options)
    : c10d::Backend(communicator->rank(), communicator->size()),
      made_by_(getpid()),
      options_(std::move(options)),
      callbacks_(CallbackThreads::start()),
      communicator_(std::move(communicator)) {
  communicator_->set_interrupt_check(&run_signal_handlers);
  init();
}

TorchBackend::~TorchBackend() { give_back(); }

void TorchBackend::give_back() noexcept {
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

const std::shared_ptr<const std::string>& TorchBackend::note() const {
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

std::shared_ptr<Communicator> TorchBackend::held() const {
  const std::lock_guard lock(mutex_);
  return communicator_;
}

std::shared_ptr<Communicator> TorchBackend::communicator() const {
  usable();
  if (auto communicator = held()) return communicator;
  throw Error(ErrorCode::aborted,
              "the process group was shut down (destroy_process_group); make a new one");
}

void TorchBackend::usable() const {
  TORCH_CHECK(!forked_since(made_by_),
              "ProcessGroupRingwood: this process was forked after the group was made; the "
              "group belongs to its parent, process ",
              made_by_, ". Make a new group here.", *note());
}

std::shared_ptr<c10::Allocator> TorchBackend::getMemAllocator() {
  return {std::shared_ptr<void>(), &ArenaAllocator::instance()};
}

at::Tensor TorchBackend::allocateTensor(long size, at::TensorOptions options) {
  return shared_tensor(size, options);
}

void TorchBackend::setTimeout(std::chrono::milliseconds timeout) {
  guarded(*note(), [&] { communicator()->set_timeout(timeout); });
  options_->timeout = timeout;
}

c10d::ErrorType TorchBackend::getError() {
  usable();
  const auto communicator = held();
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

void TorchBackend::abort_with(const std::string& reason) {
  if (forked_since(made_by_)) return;
  const WithoutGil released;
  if (const auto communicator = held()) guarded(*note(), [&] { communicator->abort(reason); });
}

// A rank that made no call since then has had no failed one, but its calls are wanted, too.
void TorchBackend::dump_failure(Communicator& communicator) const {
  if (note() && !communicator.health())
    FlightRecorder::instance().dump_failure(recorded_.rank_in_job);
}

void TorchBackend::shutdown() {
  if (forked_since(made_by_)) return;
  const WithoutGil released;
  // What could not be finished has told its own Work; ending a group after an error is no second
  // error.
  if (const auto communicator = held()) {
    dump_failure(*communicator);
    guarded(*note(), [&] { (void)communicator->shutdown().ok(); });
  }
  give_back();
  rethrow_interrupt();
}

void TorchBackend::leave_at_exit(std::chrono::milliseconds most) {
  if (forked_since(made_by_)) return;
  const WithoutGil released;
  const Deadline deadline = Deadline::after(most);
  if (const auto communicator = held()) {
    dump_failure(*communicator);
    guarded(*note(), [&] { (void)communicator->shutdown(most).ok(); });
  }
  callbacks_->drain(std::chrono::milliseconds(deadline.left_ms()));
  give_back();
}

TorchBackend::Made TorchBackend::broadcast(List& tensors, const c10d::BroadcastOptions& opts) {
  const CallChecks call("broadcast", *this);
  Tensors memory;
  call.root(opts.rootRank, size_);
  call.root_tensor(opts.rootTensor);
  const at::Tensor& tensor = call.single(tensors);
  const bool root = rank_ == opts.rootRank;
  if (root)
    call.placed(tensor);
  else
    call.written(tensor);
  const DataType type = call.moved(tensor);
  const Block data = memory.update(tensor, root, !root);
  const CallOptions how = with(call_options(opts), memory.take_copied());
  return run(
      {OpType::BROADCAST, "ringwood:broadcast"}, how, tensors, std::move(memory),
      [&](Communicator& group) -> Operations {
        return {group.broadcast(data.data, data.count, type, static_cast<int>(opts.rootRank), how)};
      });
}

TorchBackend::Made TorchBackend::allreduce(List& tensors, const c10d::AllreduceOptions& opts) {
  const CallChecks call("allreduce", *this);
  Tensors memory;
  const at::Tensor& tensor = call.single(tensors);
  if (tensor.is_sparse()) return allreduce_sparse(tensors, opts);
  call.written(tensor);
  const Reduction by = call.reduced(tensor, opts.reduceOp);
  const Block data = memory.update(tensor);
  const CallOptions how = with(call_options(opts, by.factor), memory.take_copied());
  return run({OpType::ALLREDUCE, "ringwood:all_reduce"}, how, tensors, std::move(memory),
             [&](Communicator& group) -> Operations {
               return {group.all_reduce(data.data, data.count, by.type, by.op, how)};
             });
}

TorchBackend::Made TorchBackend::allreduce_coalesced(List& tensors,
                                                     const c10d::AllreduceCoalescedOptions& opts) {
  const CallChecks call("allreduce_coalesced", *this);
  Tensors memory;
  call.require(!tensors.empty(), "requires non-empty tensor list");
  std::vector<Reduction> reductions;
  for (const at::Tensor& tensor : tensors) {
    call.written(tensor);
    reductions.push_back(call.reduced(tensor, opts.reduceOp));
  }
  call.distinct(tensors);
  std::vector<std::tuple<Block, Reduction, CallOptions>> parts;
  for (auto& [block, copied] : memory.update_parts(tensors)) {
    const Reduction& by = reductions[parts.size()];
    parts.emplace_back(block, by, with(call_options(opts, by.factor), std::move(copied)));
  }
  const CallOptions how = std::get<CallOptions>(parts[0]);
  return run({OpType::ALLREDUCE_COALESCED, "ringwood:all_reduce"}, how, tensors, std::move(memory),
             [&](Communicator& group) {
               return begin_all(group, parts, [&](const auto& data, auto& by, auto& part) {
                 return group.all_reduce(data.data, data.count, by.type, by.op, part);
               });
             });
}

TorchBackend::Made TorchBackend::allreduce_sparse(List& tensors,
                                                  const c10d::AllreduceOptions& opts) {
  const CallChecks call("allreduce_sparse", *this);
  const at::Tensor& tensor = call.single(tensors);
  call.require(tensor.is_sparse(), "requires a sparse COO tensor");
  call.require(tensor.device().type() == at::kCPU, "unsupported device type");
  call.require(tensor.dim() <= SparseSum::kMaxDimensions, "too many dimensions");
  call.require(opts.reduceOp.op_ == c10d::ReduceOp::SUM,
               "unsupported reduction operation: sparse tensors can only be summed");
  const DataType type = call.reduced(tensor, opts.reduceOp).type;
  usable();
  auto sum = std::make_shared<SparseSum>(tensor, size_);
  CallOptions how = call_options(opts);
  how.synchronous = true;
  how.copied = sum->reading();
  const ConstBlock shape = sum->shape();
  const Status met = guarded(*note(), [&] {
    return communicator()
        ->all_gather(shape.data, sum->shapes(), shape.count, DataType::int64, how)
        ->wait();
  });
  rethrow_interrupt();
  if (!met) raise(met.error(), *note());
  sum->allocate(call);

  Tensors memory;
  const ConstBlock indices = memory.read(sum->indices()), values = memory.read(sum->values());
  const auto all_indices = memory.write(sum->all_indices()),
             all_values = memory.write(sum->all_values());
  memory.set_outputs({tensor});
  memory.own(sum);
  how.synchronous = !opts.asyncOp;
  how.copied = SparseSum::writing(sum, 2);
  return run({OpType::_ALLREDUCE_SPARSE, "ringwood:sparse_all_reduce"}, how, tensors,
             std::move(memory), [&](Communicator& group) -> Operations {
               return {group.all_gather(indices, all_indices, DataType::int64, how),
                       group.all_gather(values, all_values, type, how)};
             });
}

TorchBackend::Made TorchBackend::reduce(List& tensors, const c10d::ReduceOptions& opts) {
  const CallChecks call("reduce", *this);
  Tensors memory;
  call.root(opts.rootRank, size_);
  call.root_tensor(opts.rootTensor);
  const at::Tensor& tensor = call.single(tensors);
  const bool root = rank_ == opts.rootRank;
  if (root)
    call.written(tensor);
  else
    call.placed(tensor);
  const Reduction by = call.reduced(tensor, opts.reduceOp);
  const Block data = memory.update(tensor, true, root);
  const CallOptions how = with(call_options(opts, by.factor), memory.take_copied());
  return run({OpType::REDUCE, "ringwood:reduce"}, how, tensors, std::move(memory),
             [&](Communicator& group) -> Operations {
               return {group.reduce(data.data, data.count, by.type, by.op,
                                    static_cast<int>(opts.rootRank), how)};
             });
}

TorchBackend::Made TorchBackend::send(List& tensors, int peer, int tag) {
  const CallChecks call("send", *this);
  Tensors memory;
  const at::Tensor& tensor = call.single(tensors);
  call.placed(tensor);
  call.peer(peer, size_);
  call.require(tag >= 0, "Tag must be nonnegative");
  const DataType type = call.moved(tensor);
  const ConstBlock data = memory.read(tensor);
  if (const auto copied = memory.take_copied()) copied->fill();
  return run({OpType::SEND, "ringwood:send", {}, peer}, {}, tensors, std::move(memory),
             [&](Communicator& group) -> Operations {
               return {group.send(data.data, data.count, type, peer, static_cast<uint64_t>(tag))};
             });
}

TorchBackend::Made TorchBackend::receive(Kind kind, const char* method, List& tensors, int peer,
                                         int tag) {
  const CallChecks call(method, *this);
  Tensors memory;
  const at::Tensor& tensor = call.single(tensors);
  call.written(tensor);
  call.require(tag >= 0, "Tag must be nonnegative");
  const DataType type = call.moved(tensor);
  const Block data = memory.write(tensor);
  if (const auto copied = memory.take_copied()) kind.afterwards = copied->finish;
  return run(std::move(kind), {}, tensors, std::move(memory),
             [&](Communicator& group) -> Operations {
               return {group.recv(data.data, data.count, type, peer, static_cast<uint64_t>(tag))};
             });
}

TorchBackend::Made TorchBackend::recv(List& tensors, int peer, int tag) {
  CallChecks("recv", *this).peer(peer, size_);
  return receive({OpType::RECV, "ringwood:recv", {}, peer}, "recv", tensors, peer, tag);
}

TorchBackend::Made TorchBackend::recvAnysource(List& tensors, int tag) {
  return receive({OpType::RECVANYSOURCE, "ringwood:recvAnySource"}, "recvAnysource", tensors,
                 kAnySource, tag);
}

TorchBackend::Made TorchBackend::barrier(const c10d::BarrierOptions& opts) {
  const CallOptions how = call_options(opts);
  return run({OpType::BARRIER, "ringwood:barrier"}, how, {}, Tensors(),
             [&](Communicator& group) -> Operations { return {group.barrier(how)}; });
}

void TorchBackend::monitoredBarrier(const c10d::BarrierOptions& opts, bool) {
  usable();
  CallOptions how = call_options(opts);
  if (opts.timeout != c10d::kUnsetTimeout)
    how.timeout = std::max(opts.timeout, std::chrono::milliseconds(1));
  ++recorded_.begun;
  const Status status = guarded(*note(), [&] { return communicator()->barrier(how)->wait(); });
  rethrow_interrupt();
  if (status) return;
  TORCH_CHECK(status.error().code != ErrorCode::timeout, "Rank ", rank_,
              " timed out in monitoredBarrier after ", how.timeout.count(),
              " ms: ", status.error().message(), *note());
  raise(status.error(), *note());
}

}  // namespace ringwood
