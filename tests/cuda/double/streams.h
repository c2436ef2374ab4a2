// Streams: a queue each, with a thread that carries it out. An event is a state that streams hold a
// share of, so it may be destroyed while they wait for it; a stream too, which then ends by itself.
//
// The default stream (null) waits for the blocking streams of its context and they for it, as
// NVIDIA describes. Thread safety: all functions. Lock order: captures (captures.h), context,
// queue.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>

#include "tests/cuda/double/contexts.h"

namespace fake_cuda {

using Task = std::function<void()>;

class Queue : public std::enable_shared_from_this<Queue> {
 public:
  static std::shared_ptr<Queue> start();
  // The number of the task: tasks are done when as many are finished.
  uint64_t post(Task task);
  uint64_t posted();
  bool finished(uint64_t number);
  void wait(uint64_t number);
  // Its thread ends when all tasks are done.
  void end();
  bool over();  // it has
  // Waits while it is full.
  void await_room(size_t most);

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  uint64_t posted_ = 0, finished_ = 0;
  bool ends_ = false;
};

}  // namespace fake_cuda

struct CUstream_st {
  CUcontext context = nullptr;
  bool blocking = false, is_default = false;
  int priority = 0;
  std::shared_ptr<fake_cuda::Queue> queue = fake_cuda::Queue::start();
};

namespace fake_cuda {

Objects<CUstream_st>& streams();
// The stream that a handle means in the current context. Null: there is none.
std::shared_ptr<CUstream_st> stream_of(CUstream handle);
// Puts a task into the stream, behind what the rules of the default stream put before it.
uint64_t append(CUstream_st& stream, Task task);
// The same, or nowhere if the stream is captured (captures.h).
CUresult submit(CUstream handle, Task task);
// Waits until every stream of the context has done what it was given.
void finish_all(CUctx_st& context);

}  // namespace fake_cuda
