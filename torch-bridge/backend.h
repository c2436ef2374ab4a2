// The c10d::Backend that init_process_group("ringwood") makes. It translates torch's calls, options
// and errors to those of a Communicator.
//
// Overrides the names of torch 2.11 (_allgather_base, ...), which newer versions forward to. Calls
// return at once with a Work, except those with asyncOp == false, which are carried out in the
// calling thread. Any thread may call; the caller arranges the order between threads. Destruction
// and shutdown work with and without the GIL, and in a forked child, where every other call throws.
//
// shutdown(), that is destroy_process_group, releases a group's sockets, threads and shared memory,
// even if references to the group or to a finished Work remain; every later call is an error.
#pragma once

#include <c10/util/FunctionRef.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <tuple>
#include <vector>

#include "collectives/communicator.h"

namespace ringwood {

// The priority of the collectives that this thread calls: ringwood.high_priority().
inline thread_local Priority priority_of_thread = Priority::normal;

class CallbackThreads;
class Tensors;
struct Reduction;
class Work;

class TorchBackend final : public c10d::Backend {
 public:
  using Made = c10::intrusive_ptr<c10d::Work>;
  using List = std::vector<at::Tensor>;

  TorchBackend(std::unique_ptr<Communicator> communicator, c10::intrusive_ptr<Options> options);
  ~TorchBackend() override;

  const std::string getBackendName() const override { return "ringwood"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  // Memory that the ranks of a host read in place (shared.h).
  std::shared_ptr<c10::Allocator> getMemAllocator() override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  // Counts the calls that were begun; equal on all ranks that call the same.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return recorded_.begun; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  c10d::ErrorType getError() override;
  void abort() override { abort_with("abort() was called"); }
  // Fails what is pending and what follows, on all ranks. Nothing after shutdown() and in a forked
  // child.
  void abort_with(const std::string& reason);
  void shutdown() override;
  // Called instead of the destructor while a weak reference is held (bind.cc holds one).
  void release_resources() override { give_back(); }
  // shutdown(), and the callbacks that are under way may end.
  void leave_at_exit(std::chrono::milliseconds most);
  // What is appended to all errors: group_note(). Fixed by the first call, since torch gives a
  // group its description only after it is made.
  const std::shared_ptr<const std::string>& note() const;

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
  using Operations = std::vector<OperationPtr>;
  struct Kind {
    c10d::OpType type;
    const char* title;                                 // for the profiler
    std::function<void()> afterwards = {};             // makes the outputs from what has arrived
    int peer = -1;                                     // of a message
    c10::IntArrayRef in_splits = {}, out_splits = {};  // for the profiler
    bool reduces = false;                              // of two kinds of the type COALESCED
  };
  // A Work for the operations that `start` begins; `tensors` are all that they touch. The call is
  // recorded, and shown to a profiler (run.cc).
  Made run(Kind kind, const CallOptions& how, const List& inputs, Tensors tensors,
           c10::function_ref<Operations(Communicator&)> start);
  // `number`: of its kind, collective or message.
  Made run_now(Kind kind, uint64_t number, const CallOptions& how, const List& inputs,
               Tensors tensors, c10::function_ref<Operations(Communicator&)> start);
  void usable() const;
  std::shared_ptr<Communicator> held() const;  // null: shut down
  // The same for a call; throws instead.
  std::shared_ptr<Communicator> communicator() const;
  void dump_failure(Communicator& communicator) const;
  // All that this group costs; nothing in a forked child.
  void give_back() noexcept;

  template <class Opts>
  static CallOptions call_options(const Opts& opts, double factor = 1.0) {
    CallOptions how;
    if (opts.timeout.count() > 0) how.timeout = opts.timeout;
    how.synchronous = !opts.asyncOp;
    how.priority = priority_of_thread;
    how.factor = factor;
    return how;
  }
  // The collectives that have several names in torch.
  Made gather_lists(Kind kind, const char* method, const std::vector<List>& outputs,
                    const List& inputs, const CallOptions& how);
  Made gather_blocks(Kind kind, const char* method, const List& outputs, const List& inputs,
                     const CallOptions& how);
  Made scatter_blocks(Kind kind, const char* method, const List& outputs, const List& inputs,
                      const c10d::ReduceScatterOptions& opts);
  Made receive(Kind kind, const char* method, List& tensors, int peer, int tag);

  const int made_by_;  // process id
  c10::intrusive_ptr<Options> options_;
  std::shared_ptr<CallbackThreads> callbacks_;
  struct {
    std::atomic<uint64_t> begun{0}, collectives{0}, messages{0};
    // Set with noted_.
    mutable int group = 0;  // in the flight recorder
    mutable uint64_t rank_in_job = 0;
  } recorded_;
  mutable struct {
    std::once_flag once;
    std::shared_ptr<const std::string> text;
  } noted_;
  mutable std::mutex mutex_;                    // of the pointer, not of what it points to
  std::shared_ptr<Communicator> communicator_;  // null: shut down
};

// The options of one part of a call, which has gone through these copies, if any.
inline CallOptions with(CallOptions how, std::shared_ptr<const CopiedMemory> copied) {
  how.copied = std::move(copied);
  return how;
}

// What `begin` makes of each part of a call. Several parts are a group of calls, so that small ones
// go together.
template <class Parts, class Begin>
std::vector<OperationPtr> begin_all(Communicator& group, const Parts& parts, Begin&& begin) {
  std::optional<GroupOfCalls> together;
  if (parts.size() > 1) together.emplace(group);
  std::vector<OperationPtr> all;
  for (const auto& part : parts) all.push_back(std::apply(begin, part));
  return all;
}

}  // namespace ringwood
