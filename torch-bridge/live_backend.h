// The life of a torch process group: its communicator from init_process_group to
// destroy_process_group, its errors, its memory, and how a call becomes a Work. backend.h has the
// calls.
//
// Any thread may call; the caller arranges the order between threads. Destruction and shutdown work
// with and without the GIL, and in a forked child, where every other call throws.
//
// shutdown(), that is destroy_process_group, releases a group's sockets, threads and shared memory,
// even if references to the group or to a finished Work remain; every later call is an error.
#pragma once

#include <c10/util/FunctionRef.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "collectives/communicator.h"

namespace ringwood {

class CallbackThreads;
class Tensors;

class LiveBackend : public c10d::Backend {
 public:
  using Made = c10::intrusive_ptr<c10d::Work>;
  using List = std::vector<at::Tensor>;

  LiveBackend(std::unique_ptr<Communicator> communicator, c10::intrusive_ptr<Options> options);
  ~LiveBackend() override;

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

 protected:
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
  // Throws in a forked child.
  void usable() const;
  // For a call: throws after shutdown and in a forked child.
  std::shared_ptr<Communicator> communicator() const;
  void count_call() { ++recorded_.begun; }

 private:
  // `number`: of its kind, collective or message.
  Made run_now(Kind kind, uint64_t number, const CallOptions& how, const List& inputs,
               Tensors tensors, c10::function_ref<Operations(Communicator&)> start);
  std::shared_ptr<Communicator> live() const;  // null: shut down
  void dump_failure(Communicator& communicator) const;
  // All that this group costs; nothing in a forked child.
  void give_back() noexcept;

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

}  // namespace ringwood
