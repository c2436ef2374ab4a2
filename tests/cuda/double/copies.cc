// Copies and fills, in the order of their streams.
#include <cstring>

#include "tests/cuda/double/captures.h"
#include "tests/cuda/double/memory.h"

using namespace fake_cuda;

namespace {

bool is_pinned(Tables& all, CUdeviceptr address, size_t bytes) {
  const auto found = containing(all.pinned, address, [](const Pinned& p) { return p.bytes; });
  return found != all.pinned.end() && bytes <= found->first + found->second.bytes - address;
}

bool is_pinned(const void* data, size_t bytes) {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  return is_pinned(all, reinterpret_cast<CUdeviceptr>(data), bytes);
}

// Pinned memory is the devices' too.
bool is_device_memory(CUdeviceptr address, size_t bytes) {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  return is_accessible(all, address, bytes) || is_pinned(all, address, bytes);
}

// Reserved addresses, and those of other memory's end, are no host memory either.
bool is_anybodys(CUdeviceptr address) {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  return mapping_at(all, address) == all.mapped.end() &&
         containing(all.reserved, address, [](size_t bytes) { return bytes; }) ==
             all.reserved.end();
}

bool may_be_copied(CUdeviceptr address, size_t bytes) {
  return is_device_memory(address, bytes) || is_anybodys(address);
}

CUresult submit_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return submit(stream, [=] {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
}

bool runs_at_once(CUstream handle) {
  const auto stream = stream_of(handle);
  return stream && !is_capturing(*stream);
}

// Pageable memory is read before the call returns.
CUresult to_device(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  if (is_pinned(from, bytes) || !runs_at_once(stream))
    return submit_copy(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream);
  const auto* first = static_cast<const char*>(from);
  auto copied = std::make_shared<std::vector<char>>(first, first + bytes);
  return submit(stream,
                [=] { std::memcpy(reinterpret_cast<void*>(to), copied->data(), copied->size()); });
}

// Pageable memory is written when the call returns.
CUresult to_host(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  const bool waits = !is_pinned(to, bytes) && runs_at_once(stream);
  const CUresult code = submit_copy(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream);
  if (code != CUDA_SUCCESS || !waits) return code;
  const auto object = stream_of(stream);
  object->queue->wait(object->queue->posted());
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (!may_be_copied(to, bytes) || !may_be_copied(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (is_anybodys(from) && is_device_memory(to, bytes))
    return to_device(to, reinterpret_cast<const void*>(from), bytes, stream);
  if (is_anybodys(to) && is_device_memory(from, bytes))
    return to_host(reinterpret_cast<void*>(to), from, bytes, stream);
  return submit_copy(to, from, bytes, stream);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (!is_device_memory(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return to_device(to, from, bytes, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (!is_device_memory(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return to_host(to, from, bytes, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (!is_device_memory(to, bytes) || !is_device_memory(from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return submit_copy(to, from, bytes, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (!is_device_memory(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (to % sizeof value != 0 || !is_device_memory(to, count * sizeof value))
    return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, [=] {
    for (size_t i = 0; i < count; ++i) reinterpret_cast<unsigned*>(to)[i] = value;
  });
}
}
