#include "tests/cuda/double/captures.h"

#include <map>
#include <thread>

namespace fake_cuda {
namespace {

struct Capture {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  bool broken = false;
};

struct Captures {
  std::mutex mutex;
  std::map<CUstream_st*, Capture> of;
  Capture* find(CUstream_st& stream) {
    const auto found = of.find(&stream);
    return found == of.end() ? nullptr : &found->second;
  }
};
Captures& captures() { return forever<Captures>(); }

}  // namespace

std::optional<CUresult> capture_task(CUstream_st& stream) {
  Captures& all = captures();
  std::lock_guard lock(all.mutex);
  // A blocking stream's capture would have to wait for work of the default stream, which is in no
  // capture.
  if (stream.is_default)
    for (auto& [captured, capture] : all.of)
      if (captured->blocking && captured->context == stream.context) {
        capture.broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
  const Capture* const capture = all.find(stream);
  if (!capture) return std::nullopt;
  return capture->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

bool is_capturing(CUstream_st& stream) {
  std::lock_guard lock(captures().mutex);
  return captures().find(stream) != nullptr;
}

bool break_capture(CUstream_st& stream) {
  std::lock_guard lock(captures().mutex);
  Capture* const capture = captures().find(stream);
  if (capture) capture->broken = true;
  return capture != nullptr;
}

void forget_stream(CUstream_st& stream) {
  std::lock_guard lock(captures().mutex);
  captures().of.erase(&stream);
}

CUresult refuse_beside_captures() {
  const CUstreamCaptureMode mode = per_thread().capture_mode;
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  Captures& all = captures();
  std::lock_guard lock(all.mutex);
  bool disturbs = false;
  for (auto& [stream, capture] : all.of) {
    const bool own = capture.thread == std::this_thread::get_id();
    const bool hit = own ? capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED
                         : capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                               mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (hit) disturbs = capture.broken = true;
  }
  return disturbs ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->is_default) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Captures& all = captures();
  std::lock_guard lock(all.mutex);
  if (all.find(*stream)) return CUDA_ERROR_ILLEGAL_STATE;
  all.of[stream.get()] = {mode, std::this_thread::get_id(), false};
  return CUDA_SUCCESS;
}

// There is never a graph.
CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *graph = nullptr;
  Captures& all = captures();
  std::lock_guard lock(all.mutex);
  const auto found = all.of.find(stream.get());
  if (found == all.of.end()) return CUDA_ERROR_ILLEGAL_STATE;
  const bool broken = found->second.broken;
  all.of.erase(found);
  return broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(captures().mutex);
  const Capture* const capture = captures().find(*stream);
  *status = !capture          ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (const CUresult refused = enter(__func__)) return refused;
  std::swap(*mode, per_thread().capture_mode);
  return CUDA_SUCCESS;
}
}
