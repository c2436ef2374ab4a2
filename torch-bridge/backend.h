// The c10d::Backend that init_process_group("ringwood") makes. It translates torch's calls, options
// and errors to those of a Communicator: reductions.cc, exchanges.cc, messages.cc.
//
// Overrides the names of torch 2.11 (_allgather_base, ...), which newer versions forward to. Calls
// return at once with a Work, except those with asyncOp == false, which are carried out in the
// calling thread. Threads and the end of a group: live_backend.h.
#pragma once

#include "torch-bridge/call_checks.h"
#include "torch-bridge/live_backend.h"

namespace ringwood {

// The priority of the collectives that this thread calls: ringwood.high_priority().
inline thread_local Priority priority_of_thread = Priority::normal;

class TorchBackend final : public LiveBackend {
 public:
  using LiveBackend::LiveBackend;

  Made broadcast(List& tensors, const c10d::BroadcastOptions& opts) override;
  Made allreduce(List& tensors, const c10d::AllreduceOptions& opts) override;
  // Sums. Blocks until all ranks have come: the sizes must be known before memory can be had.
  Made allreduce_sparse(List& tensors, const c10d::AllreduceOptions& opts) override;
  Made allreduce_coalesced(List& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  Made reduce(List& tensors, const c10d::ReduceOptions& opts) override;
  Made allgather(std::vector<List>& outputs, List& inputs,
                 const c10d::AllgatherOptions& opts) override;
  Made _allgather_base(at::Tensor& output, at::Tensor& input,
                       const c10d::AllgatherOptions& opts) override;
  Made allgather_coalesced(std::vector<List>& outputs, List& inputs,
                           const c10d::AllgatherOptions& opts) override;
  Made allgather_into_tensor_coalesced(List& outputs, List& inputs,
                                       const c10d::AllgatherOptions& opts) override;
  Made gather(std::vector<List>& outputs, List& inputs, const c10d::GatherOptions& opts) override;
  Made scatter(List& outputs, std::vector<List>& inputs, const c10d::ScatterOptions& opts) override;
  Made reduce_scatter(List& outputs, std::vector<List>& inputs,
                      const c10d::ReduceScatterOptions& opts) override;
  Made _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                            const c10d::ReduceScatterOptions& opts) override;
  Made reduce_scatter_tensor_coalesced(List& outputs, List& inputs,
                                       const c10d::ReduceScatterOptions& opts) override;
  Made alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                     std::vector<int64_t>& input_splits,
                     const c10d::AllToAllOptions& opts) override;
  Made alltoall(List& outputs, List& inputs, const c10d::AllToAllOptions& opts) override;
  Made send(List& tensors, int peer, int tag) override;
  Made recv(List& tensors, int peer, int tag) override;
  Made recvAnysource(List& tensors, int tag) override;
  Made barrier(const c10d::BarrierOptions& opts) override;
  // A barrier whose error names the ranks that did not come; `wait_all_ranks` has no meaning, all
  // are named always.
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

 private:
  template <class Opts>
  static CallOptions call_options(const Opts& opts, double factor = 1.0) {
    CallOptions how;
    if (opts.timeout.count() > 0) how.timeout = opts.timeout;
    how.synchronous = !opts.asyncOp;
    how.priority = priority_of_thread;
    how.factor = factor;
    return how;
  }
  using LiveBackend::placed;
  template <class Opts>
  CallOptions placed(const CallChecks& call, Tensors& memory, const Opts& opts,
                     double factor = 1.0) {
    return placed(call.device(), memory, call_options(opts, factor));
  }
  std::optional<c10::Device> device_of(const c10d::BarrierOptions& opts) const;
  // A premultiplied sum of one rank is a multiplication, which a device carries out itself.
  Reduction reduction(const CallChecks& call, const at::Tensor& tensor, const c10d::ReduceOp& op,
                      Tensors& memory) const;
  // The collectives that have several names in torch.
  Made gather_lists(Kind kind, const char* method, const std::vector<List>& outputs,
                    const List& inputs, const CallOptions& given);
  Made gather_blocks(Kind kind, const char* method, const List& outputs, const List& inputs,
                     const CallOptions& given);
  Made scatter_blocks(Kind kind, const char* method, const List& outputs, const List& inputs,
                      const c10d::ReduceScatterOptions& opts);
  Made receive(Kind kind, const char* method, List& tensors, int peer, int tag);
};

}  // namespace ringwood
