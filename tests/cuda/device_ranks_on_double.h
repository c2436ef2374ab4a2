// Ranks of a device group on the double of the driver: what a test of collectives on GPUs needs.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "collectives/device/group/device_group.h"
#include "tests/support/ranks.h"
#include "transports/cuda/handles.h"
#include "transports/cuda/memory.h"

namespace ringwood::testing {

// The driver of this process, with kernels of device programs. Not before a fork().
inline const cuda::Driver& double_with_kernels() {
  static const cuda::Driver* const driver = [] {
    ::setenv("FAKE_CUDA_KERNELS", DEVICE_KERNELS, 1);
    auto loaded = cuda::load_from(CUDA_DOUBLE);
    if (!loaded) throw Error(loaded.error());
    return *loaded;
  }();
  return *driver;
}

// The double takes any text of PTX for an image; what runs is the host's build of the kernels.
inline device::DeviceOptions with_any_image(device::DeviceOptions options = {}) {
  static const void* const images[] = {".version 9.0\n.target sm_80\n.address_size 64\n"};
  options.images = images;
  return options;
}

// A rank with a device, a stream, and memory on it.
class DeviceRank final {
 public:
  DeviceRank(Communicator& group, int ordinal, const device::DeviceOptions& options = {})
      : device(double_with_kernels(), ordinal),
        stream(device),
        calls(device::DeviceGroup::create(group, device, with_any_image(options))) {}

  // Of the user's own, which peers do not map.
  cuda::CUdeviceptr plain(size_t bytes) {
    arenas_.push_back(std::make_unique<cuda::DeviceArena>(device, std::max<size_t>(bytes, 1)));
    return arenas_.back()->base();
  }
  void write(cuda::CUdeviceptr to, std::span<const std::byte> bytes, cuda::CUstream on) {
    const cuda::CurrentContext current(device);
    device.require(device.driver().memory.copy_to_device(to, bytes.data(), bytes.size(), on),
                   "cuMemcpyHtoDAsync");
  }
  std::vector<std::byte> read(cuda::CUdeviceptr from, size_t bytes) {
    const cuda::CurrentContext current(device);
    std::vector<std::byte> to(bytes);
    device.require(device.driver().memory.copy_to_host(to.data(), from, bytes, stream.get()),
                   "cuMemcpyDtoHAsync");
    stream.synchronize();
    return to;
  }
  Status run(const device::DeviceCall& call) {
    Status given = calls->enqueue(call, stream.get());
    return given ? calls->wait(stream.get()) : std::move(given);
  }

  const cuda::Device device;
  const cuda::Stream stream;
  std::unique_ptr<device::DeviceGroup> calls;

 private:
  std::vector<std::unique_ptr<cuda::DeviceArena>> arenas_;
};

}  // namespace ringwood::testing
