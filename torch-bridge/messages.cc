// Messages between two ranks, and barriers.
#include <utility>

#include "torch-bridge/backend.h"
#include "torch-bridge/call_checks.h"
#include "torch-bridge/errors.h"
#include "torch-bridge/interrupt.h"
#include "torch-bridge/tensors.h"

namespace ringwood {

using c10d::OpType;

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
  count_call();
  const Status status = guarded(*note(), [&] { return communicator()->barrier(how)->wait(); });
  rethrow_interrupt();
  if (status) return;
  TORCH_CHECK(status.error().code != ErrorCode::timeout, "Rank ", rank_,
              " timed out in monitoredBarrier after ", how.timeout.count(),
              " ms: ", status.error().message(), *note());
  raise(status.error(), *note());
}

}  // namespace ringwood
