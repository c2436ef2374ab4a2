// What kernels report, and what stops them: pinned memory that a thread of the host looks at.
//
// It ends the communicator with the first report, and the kernels when the communicator has ended,
// within a few milliseconds. Thread safety: all functions.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "collectives/communicator.h"
#include "collectives/device/kernel/words.h"
#include "transports/cuda/memory.h"

namespace ringwood::device {

class Stopped final {
 public:
  // `words`: of a report, in an error. It is called by the thread.
  using Words = std::function<Error(const Report&)>;
  Stopped(const cuda::Device& device, Communicator& group, int segments, Words words);
  ~Stopped();

  // As kernels see them.
  const uint32_t* abort_word() const;
  Report* reports() const;

  // The first error of a kernel or of the communicator, if there is one: also of a kernel that has
  // just ended.
  Status status();
  // Ends the kernels that run, and every one that comes.
  void end_kernels();

 private:
  void watch();
  // True: all has ended.
  bool look();
  Report* host_report(int segment) const;

  Communicator& group_;
  const int segments_;
  const Words words_;
  cuda::PinnedMemory memory_;  // the abort word, then the reports
  std::atomic<bool> over_ = false;
  std::mutex mutex_;
  std::unique_ptr<Error> error_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace ringwood::device
