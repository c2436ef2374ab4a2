// Copies and fills, and the words that streams write and wait for, in the order of their streams.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/cuda/double/captures.h"
#include "tests/cuda/double/memory.h"

using namespace fake_cuda;

namespace {

uint32_t word_at(char* at) {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(at))
      .load(std::memory_order_acquire);
}

bool has_come(uint32_t word, uint32_t value, unsigned how) {
  return how == CU_STREAM_WAIT_VALUE_GEQ ? static_cast<int32_t>(word - value) >= 0 : word == value;
}

bool runs_at_once(CUstream handle) {
  const auto stream = stream_of(handle);
  return stream && !is_capturing(*stream);
}

}  // namespace

extern "C" {

// Pageable memory is read before the call returns, and the call waits for what is before it.
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  char* const at = seen_by_device(to, bytes);
  if (!at || !from) return CUDA_ERROR_INVALID_VALUE;
  if (is_pinned(from, bytes) || !runs_at_once(stream))
    return submit(stream, [=] { std::memcpy(at, from, bytes); });
  const auto* first = static_cast<const char*>(from);
  auto copied = std::make_shared<std::vector<char>>(first, first + bytes);
  return submit(stream, [=] { std::memcpy(at, copied->data(), copied->size()); });
}

// Pageable memory is written when the call returns.
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const char* const at = seen_by_device(from, bytes);
  if (!at || !to) return CUDA_ERROR_INVALID_VALUE;
  const bool waits = !is_pinned(to, bytes) && runs_at_once(stream);
  const CUresult code = submit(stream, [=] { std::memcpy(to, at, bytes); });
  if (code != CUDA_SUCCESS || !waits) return code;
  const auto object = stream_of(stream);
  object->queue->wait(object->queue->posted());
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  char* const into = seen_by_device(to, bytes);
  const char* const at = seen_by_device(from, bytes);
  if (!into || !at) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, [=] { std::memmove(into, at, bytes); });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  char* const at = seen_by_device(to, bytes);
  if (!at) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, [=] { std::memset(at, value, bytes); });
}

// All that was written before it in the stream is seen by whoever sees the word.
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned flags) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  char* const at = seen_by_device(address, sizeof value);
  if (!at || address % sizeof value != 0 || flags != CU_STREAM_WRITE_VALUE_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, [=] {
    std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(at))
        .store(value, std::memory_order_release);
  });
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned flags) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  char* const at = seen_by_device(address, sizeof value);
  if (!at || address % sizeof value != 0 || flags > CU_STREAM_WAIT_VALUE_EQ)
    return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, [=] {
    while (!has_come(word_at(at), value, flags))
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
}
}
