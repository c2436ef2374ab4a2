// Capture of streams into graphs. A captured task is a node that comes after the last nodes of its
// stream; an event that is recorded during a capture is a point in it, and a stream that waits for
// one joins the capture.
//
// Thread safety: all functions; one mutex for all captures.
#pragma once

#include <map>
#include <optional>

#include "tests/cuda/double/streams.h"

namespace fake_cuda {

struct Node {
  Task task;
  std::set<size_t> after;
};
using Nodes = std::vector<Node>;

struct Capture;
struct CapturePoint {
  std::weak_ptr<Capture> capture;
  std::set<size_t> last;
};

// Of a call on a stream that may be captured: nothing if it is not, and else the call's result.
std::optional<CUresult> capture_task(CUstream_st& stream, const Task& task);
std::optional<CUresult> capture_record(CUstream_st& stream, std::optional<CapturePoint>& event);
// `recorded`: outside of a capture, at least once.
std::optional<CUresult> capture_wait(CUstream_st& stream, const std::optional<CapturePoint>& event,
                                     bool recorded);
bool is_captured(const std::optional<CapturePoint>& event);
bool is_capturing(CUstream_st& stream);
// Of a call that no captured stream allows: true if this one was, and it is of no use any more.
bool break_capture(CUstream_st& stream);
// The stream is being destroyed: its capture is of no use any more.
void forget_stream(CUstream_st& stream);
// Of a call that may disturb a capture of this or another thread, as that thread's mode says:
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and what it disturbs is of no use any more.
CUresult refuse_beside_captures();

}  // namespace fake_cuda
