// What the ghost device (README.md) has of the driver: devices, streams, and what is current in a
// thread.
//
// The driver is the library that the environment variable GHOST_DRIVER names, the double of
// tests/cuda/double. It is loaded at the first use, so not before a fork(), and never unloaded.
//
// Thread safety: all functions; what is current belongs to the thread. Errors: thrown.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "transports/cuda/handles.h"

namespace ghost {

using c10::DeviceIndex;
using c10::StreamId;
using ringwood::cuda::CUdeviceptr;

inline constexpr auto kGhost = c10::DeviceType::PrivateUse1;
// Streams of a device: 0, the default one, then those of normal and those of high priority.
inline constexpr int kPool = 8;
inline constexpr int kStreams = 1 + 2 * kPool;

const ringwood::cuda::Driver& driver();
// 0: there is no driver.
DeviceIndex device_count() noexcept;
const ringwood::cuda::Device& device(DeviceIndex index);
ringwood::cuda::Stream& stream(DeviceIndex index, StreamId id);

// An entry of it that the product does not use.
void* entry(const char* name);
template <class Function>
Function entry(const char* name) {
  return reinterpret_cast<Function>(entry(name));
}
// Where the host finds memory of a device: the device's own addresses fault there.
void* on_host(const void* data);

// Both are read and set.
DeviceIndex& current_device();
StreamId& current_stream(DeviceIndex index);
inline ringwood::cuda::Stream& current(DeviceIndex index) {
  return stream(index, current_stream(index));
}

}  // namespace ghost
