#include "tests/cuda/double/contexts.h"

#include <pthread.h>

#include <algorithm>
#include <array>

namespace fake_cuda {
namespace {

// By device; as many as there may be.
struct Primaries {
  std::array<CUctx_st, 64> of;
  Primaries() {
    for (size_t i = 0; i < of.size(); ++i) of[i].device = static_cast<CUdevice>(i);
  }
};

CUresult state_of(CUcontext context) {
  std::lock_guard lock(context->mutex);
  return context->retained > 0 ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

bool is_context(CUcontext context) {
  const auto& all = forever<Primaries>().of;
  return std::any_of(all.begin(), all.end(), [&](const CUctx_st& one) { return &one == context; });
}

}  // namespace

PerThread& per_thread() {
  static const pthread_key_t key = [] {
    pthread_key_t made = 0;
    ::pthread_key_create(&made, [](void* data) { delete static_cast<PerThread*>(data); });
    return made;
  }();
  auto* found = static_cast<PerThread*>(::pthread_getspecific(key));
  if (!found) ::pthread_setspecific(key, found = new PerThread);
  return *found;
}

CUcontext current_context() {
  const auto& stack = per_thread().contexts;
  return stack.empty() ? nullptr : stack.back();
}

CUresult current_context_state() {
  const CUcontext context = current_context();
  return context ? state_of(context) : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  CUctx_st& primary = forever<Primaries>().of[device];
  std::lock_guard lock(primary.mutex);
  ++primary.retained;
  hold(Held::context, 1);
  *context = &primary;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  CUctx_st& primary = forever<Primaries>().of[device];
  std::lock_guard lock(primary.mutex);
  if (primary.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --primary.retained;
  hold(Held::context, -1);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (!context || !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  per_thread().contexts.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (const CUresult refused = enter(__func__)) return refused;
  auto& stack = per_thread().contexts;
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context) *context = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (context && !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  auto& stack = per_thread().contexts;
  if (!stack.empty()) stack.pop_back();
  if (context) stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (const CUresult refused = enter(__func__)) return refused;
  *context = current_context();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  *device = current_context()->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}
}
