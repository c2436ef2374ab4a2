// Capture of streams: what is allowed beside one, and what is not. Captured work is dropped: a
// program that captures nothing of its own never replays a graph.
//
// Thread safety: all functions; one mutex for all captures.
#pragma once

#include <optional>

#include "tests/cuda/double/streams.h"

namespace fake_cuda {

// Of a call that gives the stream work: nothing if it is not captured, and else the call's result.
std::optional<CUresult> capture_task(CUstream_st& stream);
bool is_capturing(CUstream_st& stream);
// Of a call that no captured stream allows: true if this one was, and it is of no use any more.
bool break_capture(CUstream_st& stream);
// The stream is being destroyed.
void forget_stream(CUstream_st& stream);
// Of a call that may disturb a capture of this or another thread, as that thread's mode says:
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and what it disturbs is of no use any more.
CUresult refuse_beside_captures();

}  // namespace fake_cuda
