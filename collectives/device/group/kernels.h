// The kernels of a device, loaded all at once: to load one while another spins may wait for ever.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transports/cuda/handles.h"

namespace ringwood::device {

class Kernels final {
 public:
  // Throws Error(unsupported) where this build has none.
  Kernels(const cuda::Device& device, std::span<const void* const> images);

  cuda::CUfunction get(const std::string& name) const { return functions_.at(name); }
  static constexpr int kThreads = 512;  // of a block

 private:
  std::vector<std::unique_ptr<cuda::Module>> modules_;
  std::map<std::string, cuda::CUfunction> functions_;
};

}  // namespace ringwood::device
