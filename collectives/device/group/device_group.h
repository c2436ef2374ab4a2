// The collectives of a group on tensors of GPUs: launches the interpreter (kernel/interpret.h) with
// the programs of the plan that is chosen, on the stream that the caller gives.
//
// One device per rank. Calls return at once: what they do happens in the order of their stream, as
// with NCCL. All ranks make the same calls in the same order; calls on different streams are
// chained by events. A kernel that is stopped, by another call of a peer, a limit, or a death that
// the group's control connections notice, ends the communicator with an error that names the rank,
// the call, its sequence and the peer; every later call returns it. Buffers in memory of allocate()
// are read and written where they lie; others are copied by the kernel to memory that peers map.
//
// In a capture of a graph a call records its launch. The first call of its shape and size is
// refused there, since it has to upload its program.
//
// Thread safety: all functions. Errors: set-up throws, calls return them. The Communicator and the
// Device must outlive it. Sizes are bytes, counts elements.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "collectives/communicator.h"
#include "collectives/schedule/collective.h"
#include "transports/cuda/device.h"

namespace ringwood::device {

struct DeviceOptions {
  size_t arena_bytes = size_t{64} << 20;     // of each rank; what allocate() gives is part of it
  size_t staging_bytes = size_t{8} << 20;    // for the input of a call, and for its output
  int segments = 16;                         // blocks of a launch, at most
  uint32_t packet_bytes = 128 << 10;         // of a segment
  std::chrono::milliseconds limit{0};        // of a kernel's wait; 0: five minutes
  std::span<const void* const> images = {};  // of kernels; empty: those of this build
};

struct DeviceCall {
  Collective collective{};
  cuda::CUdeviceptr input = 0, output = 0;  // in place: the same, and only `output` counts
  size_t count = 0;                         // of the buffer, or of a block
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  double factor = 1;           // of PREMUL_SUM
  std::string algorithm = "";  // ""; chosen
  int segments = 0;            // 0: chosen
  int packets = -1;            // 0, 1; -1: chosen
};

class DeviceGroup {
 public:
  // Collective. Throws an error that all ranks get.
  static std::unique_ptr<DeviceGroup> create(Communicator& group, const cuda::Device& device,
                                             const DeviceOptions& options = {});
  // Waits for its kernels, until the communicator ends.
  virtual ~DeviceGroup() = default;

  virtual Status enqueue(const DeviceCall& call, cuda::CUstream stream) = 0;
  // The first error of a kernel or of the communicator.
  virtual Status status() = 0;
  // The host waits for what the stream has been given, or for the first error.
  virtual Status wait(cuda::CUstream stream) = 0;
  // Memory that all peers map; 256 B aligned. 0: the arena is full. It is freed with the group.
  virtual cuda::CUdeviceptr allocate(size_t bytes) = 0;
};

}  // namespace ringwood::device
