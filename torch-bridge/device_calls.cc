#include "torch-bridge/device_calls.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/irange.h>

#include <utility>

#include "torch-bridge/device_work.h"

namespace ringwood {
namespace {

using c10d::OpType;
using device::DeviceCall;

cuda::CUdeviceptr address(const at::Tensor& tensor) {
  return reinterpret_cast<cuda::CUdeviceptr>(tensor.const_data_ptr());
}

// Of all of a list, one after the other, on the current stream.
at::Tensor flat_like(const at::Tensor& one, size_t count) {
  return at::empty({static_cast<int64_t>(count) * one.numel()}, one.options());
}
at::Tensor part(const at::Tensor& flat, const at::Tensor& like, size_t index) {
  return flat.narrow(0, static_cast<int64_t>(index) * like.numel(), like.numel())
      .view(like.sizes());
}
at::Tensor joined(const std::vector<at::Tensor>& list) {
  at::Tensor flat = flat_like(list[0], list.size());
  for (const auto i : c10::irange(list.size())) part(flat, list[i], i).copy_(list[i]);
  return flat;
}
void take_apart(const at::Tensor& flat, const std::vector<at::Tensor>& list) {
  for (const auto i : c10::irange(list.size())) list[i].copy_(part(flat, list[i], i));
}

}  // namespace

DeviceCalls::DeviceCalls(const char* method, Caller caller, std::shared_ptr<DeviceUse> use)
    : checks_(method, caller.note, use->device()),
      caller_(std::move(caller)),
      use_(std::move(use)) {}

DeviceCalls::Made DeviceCalls::run(Kind kind, const List& inputs, const List& outputs,
                                   Enqueue enqueue) {
  const c10::Device device = use_->device();
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream user = guard.getStream(device);
  const c10::Stream on = caller_.synchronous ? user : use_->stream();
  if (on != user) {
    c10::Event given(device.type());
    given.record(user);
    given.block(on);
    for (const List* list : {&inputs, &outputs})
      for (const at::Tensor& tensor : *list)
        guard.recordDataPtrOnStream(tensor.storage().data_ptr(), on);
  }
  auto work = c10::make_intrusive<DeviceWork>(caller_.rank, kind.type, kind.title, inputs, outputs,
                                              use_, caller_.note, caller_.number);
  {
    const c10::StreamGuard current(on);
    // Allows to write to inference tensors, too, and to leaves that need gradients.
    const c10::InferenceMode any_tensor;
    guarded(*caller_.note, [&] { enqueue(on); });
    work->queued(on);
  }
  return work;
}

void DeviceCalls::give(DeviceCall call, const c10::Stream& stream) {
  if (Status given = use_->enqueue(std::move(call), stream); !given) throw Error(given.error());
}

DeviceCall DeviceCalls::call(Collective collective, const at::Tensor& input,
                             const at::Tensor& output, int64_t count, DataType type) const {
  DeviceCall made{collective};
  made.input = address(input);
  made.output = address(output);
  made.count = static_cast<size_t>(count);
  made.type = type;
  return made;
}

// What a call of lists needs on a device. The other ranks may have called already.
void DeviceCalls::equal(const List& tensors, const at::Tensor& like) const {
  for (const auto i : c10::irange(tensors.size())) {
    checks_.placed(tensors[i]);
    checks_.same_type(like, tensors[i], i);
    if (tensors[i].sizes() == like.sizes()) continue;
    const std::string why = c10::str(
        "on devices all tensors of a list have to be of one size, and "
        "tensor ",
        i, " is not: pad it, or move all to the CPU");
    if (const auto group = use_->communicator())
      group->abort(c10::str(checks_.method(), " was refused on this rank: ", why));
    checks_.refuse(why);
  }
}

// One tensor that holds a block for each rank, and one of a block.
void DeviceCalls::blocks(const at::Tensor& whole, const at::Tensor& block) const {
  checks_.dense(whole);
  checks_.dense(block);
  checks_.same_type(whole, block, 0);
  TORCH_CHECK_VALUE(whole.numel() == block.numel() * caller_.size,
                    "ProcessGroupRingwood::", checks_.method(),
                    ": one tensor has to be as large as the other times ", caller_.size,
                    ", the size of the group", checks_.note());
}

DeviceCalls::Made DeviceCalls::all_reduce(Kind kind, const List& tensors,
                                          const c10d::ReduceOp& op) {
  std::vector<DeviceCall> calls;
  for (const at::Tensor& tensor : tensors) {
    checks_.dense(tensor);
    const Reduction by = checks_.reduced(tensor, op);
    calls.push_back(call(Collective::all_reduce, tensor, tensor, tensor.numel(), by.type));
    calls.back().op = by.op;
    calls.back().factor = by.factor;
  }
  return run(kind, {}, tensors, [&](const c10::Stream& on) {
    for (const DeviceCall& one : calls) give(one, on);
  });
}

DeviceCalls::Made DeviceCalls::reduce(const at::Tensor& tensor, const c10d::ReduceOp& op,
                                      int root) {
  checks_.dense(tensor);
  const Reduction by = checks_.reduced(tensor, op);
  DeviceCall one = call(Collective::reduce, tensor, tensor, tensor.numel(), by.type);
  one.op = by.op;
  one.factor = by.factor;
  one.root = root;
  return run({OpType::REDUCE, "ringwood:reduce"}, {}, {tensor},
             [&](const c10::Stream& on) { give(one, on); });
}

DeviceCalls::Made DeviceCalls::broadcast(const at::Tensor& tensor, int root) {
  checks_.dense(tensor);
  DeviceCall one =
      call(Collective::broadcast, tensor, tensor, tensor.numel(), checks_.moved(tensor));
  one.root = root;
  return run({OpType::BROADCAST, "ringwood:broadcast"}, {}, {tensor},
             [&](const c10::Stream& on) { give(one, on); });
}

DeviceCalls::Made DeviceCalls::gather_lists(Kind kind, const std::vector<List>& outputs,
                                            const List& inputs) {
  List all;
  for (const auto i : c10::irange(inputs.size())) {
    checks_.dense(inputs[i]);
    equal(outputs[i], inputs[i]);
    all.insert(all.end(), outputs[i].begin(), outputs[i].end());
  }
  return run(kind, inputs, all, [&](const c10::Stream& on) {
    for (const auto i : c10::irange(inputs.size())) {
      const at::Tensor in = inputs[i].contiguous();
      const at::Tensor flat = flat_like(in, outputs[i].size());
      give(call(Collective::all_gather, in, flat, in.numel(), checks_.moved(in)), on);
      take_apart(flat, outputs[i]);
    }
  });
}

DeviceCalls::Made DeviceCalls::gather_blocks(Kind kind, const List& outputs, const List& inputs) {
  for (const auto i : c10::irange(inputs.size())) blocks(outputs[i], inputs[i]);
  return run(kind, inputs, outputs, [&](const c10::Stream& on) {
    for (const auto i : c10::irange(inputs.size()))
      give(call(Collective::all_gather, inputs[i], outputs[i], inputs[i].numel(),
                checks_.moved(inputs[i])),
           on);
  });
}

DeviceCalls::Made DeviceCalls::scatter_list(const at::Tensor& output, const List& inputs,
                                            const c10d::ReduceOp& op) {
  checks_.dense(output);
  equal(inputs, output);
  const Reduction by = checks_.reduced(output, op);
  return run({OpType::REDUCE_SCATTER, "ringwood:reduce_scatter"}, inputs, {output},
             [&](const c10::Stream& on) {
               const at::Tensor flat = joined(inputs);
               DeviceCall one =
                   call(Collective::reduce_scatter, flat, output, output.numel(), by.type);
               one.op = by.op;
               one.factor = by.factor;
               give(one, on);
             });
}

DeviceCalls::Made DeviceCalls::scatter_blocks(Kind kind, const List& outputs, const List& inputs,
                                              const c10d::ReduceOp& op) {
  std::vector<DeviceCall> calls;
  for (const auto i : c10::irange(inputs.size())) {
    blocks(inputs[i], outputs[i]);
    const Reduction by = checks_.reduced(inputs[i], op);
    calls.push_back(
        call(Collective::reduce_scatter, inputs[i], outputs[i], outputs[i].numel(), by.type));
    calls.back().op = by.op;
    calls.back().factor = by.factor;
  }
  return run(kind, inputs, outputs, [&](const c10::Stream& on) {
    for (const DeviceCall& one : calls) give(one, on);
  });
}

DeviceCalls::Made DeviceCalls::exchange_blocks(const at::Tensor& output, const at::Tensor& input) {
  checks_.dense(input);
  checks_.dense(output);
  checks_.same_type(input, output, 0);
  if (input.numel() != output.numel()) checks_.wrong_size(input, output, 0);
  return run({OpType::ALLTOALL_BASE, "ringwood:all_to_all"}, {input}, {output},
             [&](const c10::Stream& on) {
               give(call(Collective::all_to_all, input, output, input.numel() / caller_.size,
                         checks_.moved(input)),
                    on);
             });
}

DeviceCalls::Made DeviceCalls::exchange_lists(const List& outputs, const List& inputs) {
  equal(inputs, inputs[0]);
  equal(outputs, inputs[0]);
  return run(
      {OpType::ALLTOALL, "ringwood:all_to_all"}, inputs, outputs, [&](const c10::Stream& on) {
        const at::Tensor in = joined(inputs), out = flat_like(inputs[0], inputs.size());
        give(call(Collective::all_to_all, in, out, inputs[0].numel(), checks_.moved(in)), on);
        take_apart(out, outputs);
      });
}

DeviceCalls::Made DeviceCalls::gather(const List& list, const at::Tensor& input, int root) {
  checks_.dense(input);
  equal(list, input);
  return run({OpType::GATHER, "ringwood:gather"}, {input}, list, [&](const c10::Stream& on) {
    const at::Tensor in = input.contiguous();
    const at::Tensor flat = flat_like(in, list.size());
    DeviceCall one = call(Collective::gather, in, flat, in.numel(), checks_.moved(in));
    one.root = root;
    give(one, on);
    take_apart(flat, list);
  });
}

DeviceCalls::Made DeviceCalls::scatter(const at::Tensor& output, const List& list, int root) {
  checks_.dense(output);
  equal(list, output);
  return run({OpType::SCATTER, "ringwood:scatter"}, list, {output}, [&](const c10::Stream& on) {
    const at::Tensor flat = list.empty() ? flat_like(output, 0) : joined(list);
    DeviceCall one = call(Collective::scatter, flat, output, output.numel(), checks_.moved(output));
    one.root = root;
    give(one, on);
  });
}

}  // namespace ringwood
