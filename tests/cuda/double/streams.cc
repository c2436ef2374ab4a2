#include "tests/cuda/double/streams.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/cuda/double/captures.h"

namespace fake_cuda {
namespace {

std::atomic<size_t> most_tasks{0};  // 0: any number

}  // namespace

std::shared_ptr<Queue> Queue::start() {
  auto queue = std::make_shared<Queue>();
  std::thread([queue] { queue->run(); }).detach();
  return queue;
}

void Queue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    {
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      before_a_task();
      task();
    }
    lock.lock();
    ++finished_;
    changed_.notify_all();
  }
}

uint64_t Queue::post(Task task) {
  std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
  return ++posted_;
}

void Queue::await_room(size_t most) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return posted_ - finished_ < most; });
}

uint64_t Queue::posted() {
  std::lock_guard lock(mutex_);
  return posted_;
}

bool Queue::finished(uint64_t number) {
  std::lock_guard lock(mutex_);
  return finished_ >= number;
}

void Queue::wait(uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ >= number; });
}

void Queue::end() {
  std::lock_guard lock(mutex_);
  ends_ = true;
  changed_.notify_all();
}

bool Queue::over() {
  std::lock_guard lock(mutex_);
  return ends_ && finished_ == posted_;
}

Objects<CUstream_st>& streams() { return forever<Objects<CUstream_st>>(); }

std::shared_ptr<CUstream_st> stream_of(CUstream handle) {
  if (handle == CU_STREAM_PER_THREAD) return nullptr;
  if (handle && handle != CU_STREAM_LEGACY) return streams().find(handle);
  const CUcontext context = current_context();
  std::lock_guard lock(context->mutex);
  if (!context->default_stream) {
    context->default_stream = std::make_shared<CUstream_st>();
    context->default_stream->context = context;
    context->default_stream->is_default = true;
  }
  return context->default_stream;
}

uint64_t append(CUstream_st& stream, Task task) {
  CUctx_st& context = *stream.context;
  std::lock_guard lock(context.mutex);  // no two streams may each wait for what the other got later
  const auto wait_for = [&](const std::shared_ptr<Queue>& other) {
    const uint64_t number = other->posted();
    if (!other->finished(number)) stream.queue->post([other, number] { other->wait(number); });
  };
  if (stream.is_default) {
    for (const auto& known : context.queues)
      if (known.blocking) wait_for(known.queue);
  } else if (stream.blocking && context.default_stream) {
    wait_for(context.default_stream->queue);
  }
  return stream.queue->post(std::move(task));
}

CUresult submit(CUstream handle, Task task) {
  const auto stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto captured = capture_task(*stream)) return *captured;
  if (const size_t most = most_tasks) stream->queue->await_room(most);
  append(*stream, std::move(task));
  return CUDA_SUCCESS;
}

void finish_all(CUctx_st& context) {
  std::vector<std::shared_ptr<Queue>> queues;
  {
    std::lock_guard lock(context.mutex);
    for (const auto& known : context.queues) queues.push_back(known.queue);
    if (context.default_stream) queues.push_back(context.default_stream->queue);
  }
  for (const auto& queue : queues) queue->wait(queue->posted());
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

void fake_cuda_queue(size_t tasks) { most_tasks = tasks; }

CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int priority) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (!handle || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  auto stream = std::make_shared<CUstream_st>();
  CUctx_st& context = *(stream->context = current_context());
  stream->blocking = flags != CU_STREAM_NON_BLOCKING;
  stream->priority = std::clamp(priority, -5, 0);
  {
    std::lock_guard lock(context.mutex);
    std::erase_if(context.queues, [](const auto& known) { return known.queue->over(); });
    context.queues.push_back({stream->queue, stream->blocking});
  }
  *handle = streams().add(std::move(stream));
  hold(Held::stream, 1);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
  return cuStreamCreateWithPriority(handle, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto stream = streams().remove(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  forget_stream(*stream);
  stream->queue->end();
  hold(Held::stream, -1);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (break_capture(*stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  // Of the default stream: what the blocking ones were given before, too.
  stream->queue->wait(stream->is_default ? append(*stream, [] {}) : stream->queue->posted());
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream handle) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (break_capture(*stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return stream->queue->finished(stream->queue->posted()) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user_data) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  return submit(handle, [=] { function(user_data); });
}
}
