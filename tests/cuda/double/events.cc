#include "tests/cuda/double/events.h"

using namespace fake_cuda;

namespace {

Objects<CUevent_st>& events() { return forever<Objects<CUevent_st>>(); }

std::shared_ptr<Record> record_of(CUevent_st& event) {
  std::lock_guard lock(event.mutex);
  return event.record;
}

void wait_for(Record& record) {
  std::unique_lock lock(record.mutex);
  record.changed.wait(lock, [&] { return record.done; });
}

bool is_done(Record& record) {
  std::lock_guard lock(record.mutex);
  return record.done;
}

}  // namespace

extern "C" {

CUresult cuEventCreate(CUevent* handle, unsigned flags) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (!handle || flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
    return CUDA_ERROR_INVALID_VALUE;  // also for events between processes, which are not there
  auto event = std::make_shared<CUevent_st>();
  event->context = current_context();
  *handle = events().add(std::move(event));
  hold(Held::event, 1);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (!events().remove(handle)) return CUDA_ERROR_INVALID_HANDLE;
  hold(Held::event, -1);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto event = events().find(handle);
  const auto stream = stream_of(stream_handle);
  if (!event || !stream || event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto captured = capture_task(*stream)) return *captured;
  auto record = std::make_shared<Record>();
  {
    std::lock_guard lock(event->mutex);
    event->record = record;
  }
  append(*stream, [record] {
    std::lock_guard lock(record->mutex);
    record->done = true;
    record->changed.notify_all();
  });
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto event = events().find(handle);
  const auto stream = stream_of(stream_handle);
  if (!event || !stream) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto record = record_of(*event);
  if (const auto captured = capture_task(*stream)) return *captured;
  if (record) append(*stream, [record] { wait_for(*record); });
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto event = events().find(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  const auto record = record_of(*event);
  return !record || is_done(*record) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent handle) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto event = events().find(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  if (const auto record = record_of(*event)) wait_for(*record);
  return CUDA_SUCCESS;
}
}
