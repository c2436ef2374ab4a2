// Messages between two ranks, and barriers.
#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>
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
  const CallOptions how = LiveBackend::placed(call.device(), memory, {}, {StreamUse::Kind::send});
  return run(
      {OpType::SEND, "ringwood:send", {}, peer}, how, tensors, std::move(memory),
      [&](Communicator& group) -> Operations {
        return {group.send(data.data, data.count, type, peer, static_cast<uint64_t>(tag), how)};
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
  const CallOptions how =
      LiveBackend::placed(call.device(), memory, {}, {StreamUse::Kind::receive, peer});
  return run(
      std::move(kind), how, tensors, std::move(memory), [&](Communicator& group) -> Operations {
        return {group.recv(data.data, data.count, type, peer, static_cast<uint64_t>(tag), how)};
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

// What a barrier waits for beside the ranks: torch tells a backend a device by its number alone.
std::optional<c10::Device> TorchBackend::device_of(const c10d::BarrierOptions& opts) const {
  if (opts.device && !opts.device->is_cpu()) return opts.device;
  const auto type = opts.device_ids.empty() ? std::nullopt : at::getAccelerator();
  if (type) return c10::Device(*type, static_cast<c10::DeviceIndex>(opts.device_ids[0]));
  return getBoundDeviceId();
}

// With a device, also for what its current stream has been given.
TorchBackend::Made TorchBackend::barrier(const c10d::BarrierOptions& opts) {
  Tensors memory;
  CallOptions how = call_options(opts);
  if (const auto device = device_of(opts)) {
    const c10::impl::VirtualGuardImpl guard(device->type());
    how = LiveBackend::placed(device->has_index() ? *device : guard.getDevice(), memory,
                              std::move(how));
  }
  return run({OpType::BARRIER, "ringwood:barrier"}, how, {}, std::move(memory),
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
  unseen().seen();
  TORCH_CHECK(status.error().code != ErrorCode::timeout, "Rank ", rank_,
              " timed out in monitoredBarrier after ", how.timeout.count(),
              " ms: ", status.error().message(), *note());
  raise(status.error(), *note());
}

}  // namespace ringwood
