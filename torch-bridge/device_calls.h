// The calls on tensors of a device: checked, put on a stream, and given to the device's executor.
//
// A call with asyncOp == false runs on the caller's current stream. Others run on the stream of the
// DeviceUse, which waits by an event for what the caller's stream has been given; the allocator is
// told that the tensors are used there. Lists, and tensors whose elements are not in one run, go
// through a copy on the stream of the call.
//
// An object is one call. Errors: what is wrong with the tensors as CallChecks says it, ours as
// torch's (errors.h).
#pragma once

#include <c10/util/FunctionRef.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "torch-bridge/call_checks.h"
#include "torch-bridge/device_groups.h"

namespace ringwood {

inline bool on_device(const at::Tensor& tensor) {
  const c10::DeviceType type = tensor.device().type();
  return type == c10::DeviceType::CUDA || type == c10::DeviceType::PrivateUse1;
}
inline bool on_device(const std::vector<at::Tensor>& tensors) {
  return !tensors.empty() && on_device(tensors[0]);
}
// Where the tensors of a call have to be: all where the first is.
inline c10::Device device_of(const std::vector<at::Tensor>& tensors) {
  return on_device(tensors) ? tensors[0].device() : c10::Device(at::kCPU);
}

class DeviceCalls final {
 public:
  using Made = c10::intrusive_ptr<c10d::Work>;
  using List = std::vector<at::Tensor>;
  struct Caller {
    int rank, size;
    bool synchronous;
    uint64_t number;  // of the call in its group
    std::shared_ptr<const std::string> note;
  };
  struct Kind {
    c10d::OpType type;
    const char* title;
  };

  DeviceCalls(const char* method, Caller caller, std::shared_ptr<DeviceUse> use);

  Made all_reduce(Kind kind, const List& tensors, const c10d::ReduceOp& op);
  Made reduce(const at::Tensor& tensor, const c10d::ReduceOp& op, int root);
  Made broadcast(const at::Tensor& tensor, int root);
  // By input: the list of one output for each rank.
  Made gather_lists(Kind kind, const std::vector<List>& outputs, const List& inputs);
  Made gather_blocks(Kind kind, const List& outputs, const List& inputs);
  Made scatter_list(const at::Tensor& output, const List& inputs, const c10d::ReduceOp& op);
  Made scatter_blocks(Kind kind, const List& outputs, const List& inputs, const c10d::ReduceOp& op);
  Made exchange_blocks(const at::Tensor& output, const at::Tensor& input);
  Made exchange_lists(const List& outputs, const List& inputs);
  // `list`: of the root; empty on the others.
  Made gather(const List& list, const at::Tensor& input, int root);
  Made scatter(const at::Tensor& output, const List& list, int root);

 private:
  using Enqueue = c10::function_ref<void(const c10::Stream&)>;
  Made run(Kind kind, const List& inputs, const List& outputs, Enqueue enqueue);
  void give(device::DeviceCall call, const c10::Stream& stream);
  device::DeviceCall call(Collective collective, const at::Tensor& input, const at::Tensor& output,
                          int64_t count, DataType type) const;
  void equal(const List& tensors, const at::Tensor& like) const;
  void blocks(const at::Tensor& whole, const at::Tensor& block) const;

  const CallChecks checks_;
  const Caller caller_;
  const std::shared_ptr<DeviceUse> use_;
};

}  // namespace ringwood
