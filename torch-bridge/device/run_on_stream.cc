// Calls with tensors of a device: on a stream, in its order. Only c10's interfaces for all devices
// are used here; that the memory is of NVIDIA's driver is checked by the communicator.
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "torch-bridge/device/call_outcome.h"
#include "torch-bridge/device/stream_work.h"
#include "torch-bridge/errors.h"
#include "torch-bridge/live_backend.h"
#include "torch-bridge/tensors.h"
#include "transports/cuda/loaded_driver.h"

namespace ringwood {

CallOptions LiveBackend::placed(c10::Device device, Tensors& memory, CallOptions how,
                                StreamUse use) {
  if (device.is_cpu()) return how;
  usable();  // a forked child must not touch the device
  const c10::impl::VirtualGuardImpl guard(device.type());
  // An event would make the stream that waits for it a part of the graph.
  cuda::LoadedDriver::look(cuda_.library);
  if (cuda::LoadedDriver::captures(guard.getStreamNativeHandle(guard.getStream(device))))
    raise(Error(ErrorCode::unsupported,
                "the stream is being captured into a CUDA graph, which cannot have this call: the "
                "host takes part in it; make the call outside of the capture"),
          *note());
  const c10::Stream on =
      std::exchange(how.synchronous, false) ? guard.getStream(device) : streams_.of(device, use);
  how.on = {device.index(), guard.getStreamNativeHandle(on)};
  memory.on(on);
  return how;
}

LiveBackend::Made LiveBackend::run_on_stream(Kind kind, const List& inputs, Tensors tensors,
                                             const std::shared_ptr<Communicator>& communicator,
                                             FlightRecorder::Ticket ticket,
                                             c10::function_ref<Operations(Communicator&)> start) {
  const c10::Stream on = *tensors.stream();
  const c10::impl::VirtualGuardImpl guard(on.device_type());
  const c10::Stream user = guard.getStream(on.device());
  const auto outcome = std::make_shared<CallOutcome>(communicator, unseen_, ticket);
  const bool blocks = cuda_.blocking_wait || kind.type == c10d::OpType::BARRIER;
  auto work =
      c10::make_intrusive<StreamWork>(rank_, kind.type, kind.title, inputs, tensors.outputs(),
                                      on.device(), outcome, note(), blocks);
  const auto queue = [&] {
    const c10::DeviceGuard here(on.device());
    if (on != user) {
      c10::Event given(on.device_type());
      given.record(user);
      given.block(on);
      tensors.each([&](const at::Tensor& tensor) {
        if (tensor.has_storage() && tensor.storage().nbytes() > 0)
          guard.recordDataPtrOnStream(tensor.storage().data_ptr(), on);
      });
    }
    const c10::StreamGuard current(on);
    tensors.fill_by_stream();
    outcome->follow(start(*communicator));
    tensors.finish_by_stream();
    work->queued(on);
  };
  begin(kind, ticket, queue);
  work->raise_if_failed();
  return work;
}

}  // namespace ringwood
