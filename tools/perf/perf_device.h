// Buffers of a measured operation in memory of a CUDA device. Each has its bytes on the host too,
// where they are written and read outside of what is timed.
//
// Not thread-safe. Errors: thrown.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tools/gather.h"
#include "tools/perf/perf_operations.h"
#include "transports/base/options.h"
#include "transports/cuda/handles.h"

namespace ringwood::tools {

// The device of this rank, and a stream of its own there: the ranks of a host take its devices in
// turn.
class PerfDevice final {
 public:
  // Loads CUDA. Throws Error(unsupported) where there is none, or it is switched off.
  PerfDevice(const CudaOptions& options, const std::vector<HostRanks>& hosts, int rank);

  const cuda::Device& device() const { return *device_; }
  cuda::CUstream stream() const { return stream_->get(); }

 private:
  std::optional<cuda::Device> device_;
  std::optional<cuda::Stream> stream_;
};

class DeviceBuffers final {
 public:
  // `outputs`: 0 where the operation works in place. Sizes: bytes.
  DeviceBuffers(const PerfDevice& device, size_t inputs, size_t outputs);
  ~DeviceBuffers();
  DeviceBuffers(const DeviceBuffers&) = delete;
  DeviceBuffers& operator=(const DeviceBuffers&) = delete;

  // Makes it a call on these buffers, which have to outlive it.
  void use(Call& call) const;
  // The same call on the bytes on the host.
  Call on_host(Call call) const;
  // The host's bytes to the device and back. Both wait.
  void upload() const;
  void download() const;

 private:
  struct Both {
    cuda::CUdeviceptr there = 0;
    mutable std::vector<std::byte> here;
  };
  std::vector<const Both*> used() const;

  const PerfDevice& device_;
  Both in_, out_;
};

}  // namespace ringwood::tools
