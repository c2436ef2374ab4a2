#include "tests/cuda/double/captures.h"

#include <thread>

#include "tests/cuda/double/graphs.h"

namespace fake_cuda {

struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  CUstream_st* origin = nullptr;
  bool broken = false;
  Nodes nodes;
  std::map<CUstream_st*, std::set<size_t>> last;  // of each stream that takes part
};

namespace {

struct Captures {
  std::mutex mutex;
  uint64_t next_id = 1;
  std::map<CUstream_st*, std::shared_ptr<Capture>> of;
  std::shared_ptr<Capture> find(CUstream_st& stream) const {
    const auto found = of.find(&stream);
    return found == of.end() ? nullptr : found->second;
  }
};
Captures& captures() { return forever<Captures>(); }

// A blocking stream's capture would have to wait for work of the default stream, which is in none.
bool breaks_a_blocking_capture(const Captures& all, const CUstream_st& stream) {
  bool found = false;
  for (const auto& [captured, capture] : all.of)
    if (stream.is_default && captured->blocking && captured->context == stream.context)
      found = capture->broken = true;
  return found;
}

// Whether every stream's last nodes come before the last ones of the first stream.
bool is_joined(const Capture& capture) {
  std::set<size_t> before;
  std::vector<size_t> open(capture.last.at(capture.origin).begin(),
                           capture.last.at(capture.origin).end());
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    if (!before.insert(node).second) continue;
    open.insert(open.end(), capture.nodes[node].after.begin(), capture.nodes[node].after.end());
  }
  for (const auto& [stream, last] : capture.last)
    for (const size_t node : last)
      if (before.count(node) == 0) return false;
  return true;
}

CUresult end(Captures& all, CUstream_st& stream, std::shared_ptr<Capture>& ended) {
  ended = all.find(stream);
  if (!ended) return CUDA_ERROR_ILLEGAL_STATE;
  if (ended->origin != &stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (ended->mode != CU_STREAM_CAPTURE_MODE_RELAXED && ended->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  std::erase_if(all.of, [&](const auto& entry) { return entry.second == ended; });
  if (ended->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return is_joined(*ended) ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

}  // namespace

std::optional<CUresult> capture_task(CUstream_st& stream, const Task& task) {
  Captures& all = captures();
  std::lock_guard lock(all.mutex);
  if (breaks_a_blocking_capture(all, stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  const auto capture = all.find(stream);
  if (!capture) return std::nullopt;
  if (capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto& last = capture->last[&stream];
  capture->nodes.push_back({task, last});
  last = {capture->nodes.size() - 1};
  return CUDA_SUCCESS;
}

std::optional<CUresult> capture_record(CUstream_st& stream, std::optional<CapturePoint>& event) {
  Captures& all = captures();
  std::lock_guard lock(all.mutex);
  event.reset();
  if (breaks_a_blocking_capture(all, stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  const auto capture = all.find(stream);
  if (!capture) return std::nullopt;
  if (capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  event = CapturePoint{capture, capture->last[&stream]};
  return CUDA_SUCCESS;
}

std::optional<CUresult> capture_wait(CUstream_st& stream, const std::optional<CapturePoint>& event,
                                     bool recorded) {
  Captures& all = captures();
  std::lock_guard lock(all.mutex);
  const auto here = all.find(stream);
  if (!event) {
    if (!here) return std::nullopt;
    if (!recorded) return CUDA_SUCCESS;
    here->broken = true;  // it would depend on what is outside of the graph
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  const auto there = event->capture.lock();
  if (!there || all.find(*there->origin) != there) return CUDA_ERROR_CAPTURED_EVENT;  // it is over
  if (here && here != there) {
    here->broken = there->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (there->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  all.of[&stream] = there;
  there->last[&stream].insert(event->last.begin(), event->last.end());
  return CUDA_SUCCESS;
}

bool is_captured(const std::optional<CapturePoint>& event) {
  std::lock_guard lock(captures().mutex);
  return event.has_value();
}

bool is_capturing(CUstream_st& stream) {
  std::lock_guard lock(captures().mutex);
  return captures().find(stream) != nullptr;
}

bool break_capture(CUstream_st& stream) {
  std::lock_guard lock(captures().mutex);
  const auto capture = captures().find(stream);
  if (capture) capture->broken = true;
  return capture != nullptr;
}

void forget_stream(CUstream_st& stream) {
  break_capture(stream);
  std::lock_guard lock(captures().mutex);
  captures().of.erase(&stream);
}

CUresult refuse_beside_captures() {
  const CUstreamCaptureMode mode = per_thread().capture_mode;
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  Captures& all = captures();
  std::lock_guard lock(all.mutex);
  bool disturbs = false;
  for (const auto& [stream, capture] : all.of) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool hit = own ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                         : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                               mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (hit) disturbs = capture->broken = true;
  }
  return disturbs ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

}  // namespace fake_cuda

using namespace fake_cuda;

namespace {

CUresult capture_state(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
  const auto stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(captures().mutex);
  const auto capture = captures().find(*stream);
  *status = !capture          ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (capture && id) *id = capture->id;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->is_default) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Captures& all = captures();
  std::lock_guard lock(all.mutex);
  if (all.find(*stream)) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = all.next_id++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream.get();
  capture->last[stream.get()];
  all.of[stream.get()] = std::move(capture);
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *graph = nullptr;
  std::shared_ptr<Capture> ended;
  {
    std::lock_guard lock(captures().mutex);
    if (const CUresult code = end(captures(), *stream, ended)) return code;
  }
  *graph = make_graph(std::move(ended->nodes));
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  return capture_state(handle, status, nullptr);
}

// The graph under way and its last nodes are not told.
CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (graph) *graph = nullptr;
  if (nodes) *nodes = nullptr;
  if (count) *count = 0;
  return capture_state(handle, status, id);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes,
                                   const CUgraphEdgeData** edges, size_t* count) {
  if (edges) *edges = nullptr;
  return cuStreamGetCaptureInfo_v2(handle, status, id, graph, nodes, count);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (const CUresult refused = enter(__func__)) return refused;
  std::swap(*mode, per_thread().capture_mode);
  return CUDA_SUCCESS;
}
}
