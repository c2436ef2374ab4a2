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
#include "torch-bridge/device/streams.h"
#include "torch-bridge/device/unseen_error.h"
#include "torch-bridge/flight_recorder.h"
#include "transports/base/options.h"

namespace ringwood {

class CallbackThreads;
class Tensors;

class LiveBackend : public c10d::Backend {
 public:
  using Made = c10::intrusive_ptr<c10d::Work>;
  using List = std::vector<at::Tensor>;

  LiveBackend(std::unique_ptr<Communicator> communicator, c10::intrusive_ptr<Options> options,
              CudaOptions cuda);
  ~LiveBackend() override;

  const std::string getBackendName() const override { return "ringwood"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  // Memory that the ranks of a host read in place (shared.h).
  std::shared_ptr<c10::Allocator> getMemAllocator() override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  // Of the CPU only, which has no index.
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return index < 0; }
  // Counts the calls that were begun; equal on all ranks that call the same.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return recorded_.begun; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  c10d::ErrorType getError() override;
  void abort() override { abort_with("abort() was called"); }
  // Fails what is pending and what follows, on all ranks. Nothing after shutdown() and in a forked
  // child.
  void abort_with(const std::string& reason);
  // Raises the error of a call on a device that nobody was told, when all is released.
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
  // The options of a call with tensors of that device, and where `memory` is to make copies: on
  // the CPU as they were, else on a stream of the device.
  CallOptions placed(c10::Device device, Tensors& memory, CallOptions how, StreamUse use = {});
  // Throws in a forked child.
  void usable() const;
  // For a call: throws after shutdown and in a forked child.
  std::shared_ptr<Communicator> communicator() const;
  void count_call() { ++recorded_.begun; }
  UnseenError& unseen() const { return *unseen_; }

 private:
  // `number`: of its kind, collective or message.
  Made run_now(Kind kind, uint64_t number, const CallOptions& how, const List& inputs,
               Tensors tensors, c10::function_ref<Operations(Communicator&)> start);
  // run_now() on the stream that `tensors` are placed on (device/).
  Made run_on_stream(Kind kind, const List& inputs, Tensors tensors,
                     const std::shared_ptr<Communicator>& communicator,
                     FlightRecorder::Ticket ticket,
                     c10::function_ref<Operations(Communicator&)> start);
  // Calls `start`; what it throws ends the group, because other ranks may have begun.
  void begin(const Kind& kind, FlightRecorder::Ticket ticket, c10::function_ref<void()> start);
  std::shared_ptr<Communicator> live() const;  // null: shut down
  void dump_failure(Communicator& communicator) const;
  // All that this group costs; nothing in a forked child.
  void give_back() noexcept;

  const int made_by_;  // process id
  const CudaOptions cuda_;
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
  DeviceStreams streams_;
  const std::shared_ptr<UnseenError> unseen_ = std::make_shared<UnseenError>();
  mutable std::mutex mutex_;                    // of the pointer, not of what it points to
  std::shared_ptr<Communicator> communicator_;  // null: shut down
};

}  // namespace ringwood
