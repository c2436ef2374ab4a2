#include "collectives/nccl/device_calls.h"

#include <fmt/format.h>

#include "collectives/kernels/types.h"
#include "collectives/nccl/memory.h"

namespace ringwood::nccl {
namespace {

cuda::CUdeviceptr address(const void* data) { return reinterpret_cast<cuda::CUdeviceptr>(data); }

Collective collective_of(const Call& call) {
  switch (call.kind) {
    case Kind::all_reduce: return Collective::all_reduce;
    case Kind::reduce: return Collective::reduce;
    case Kind::broadcast: return Collective::broadcast;
    case Kind::all_gather: return Collective::all_gather;
    case Kind::reduce_scatter: return Collective::reduce_scatter;
    case Kind::all_to_all: return Collective::all_to_all;
    case Kind::gather: return Collective::gather;
    case Kind::scatter: return Collective::scatter;
    case Kind::send:
    case Kind::recv: break;
  }
  refuse_to_use(fmt::format(
      "{} of memory of a GPU is not supported yet: copy it to the CPU's, or use a collective",
      to_string(call.kind)));
}

}  // namespace

device::DeviceOptions& device_options() {
  static device::DeviceOptions options;
  return options;
}

DeviceCalls::DeviceCalls(Communicator& group, int gpu)
    : device_(device_in_use(gpu)),
      group_(device::DeviceGroup::create(group, device_, device_options())) {}

void DeviceCalls::enqueue(const Call& call) {
  device::DeviceCall made;
  made.collective = collective_of(call);
  if (needs_unsigned(call))
    refuse_to_use(
        fmt::format("{}: minimum, maximum and average of unsigned 64-bit numbers are "
                    "not supported on memory of a GPU",
                    to_string(call.kind)));
  made.count = call.count;
  made.type = call.type;
  made.op = call.op;
  made.root = call.root;
  made.factor = factor_of(call);
  const bool in_place = !in_blocks(made.collective);
  if (in_place && call.in && call.out && call.in != call.out)
    copy(address(call.out), address(call.in), call.count * size_of(call.type), call.stream);
  made.output = address(call.out ? call.out : call.in);
  made.input = in_place ? made.output : address(call.in);
  if (Status given = group_->enqueue(made, call.stream); !given) throw Error(given.error());
}

void DeviceCalls::copy(cuda::CUdeviceptr to, cuda::CUdeviceptr from, size_t bytes,
                       cuda::CUstream stream) {
  const cuda::CurrentContext current(device_);
  device_.require(device_.driver().memory.copy(to, from, bytes, stream), "cuMemcpyAsync");
}

}  // namespace ringwood::nccl
