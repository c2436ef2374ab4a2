// Whether a pointer is memory of a device, for calls that are to have memory of the host: the
// host's first access would be a segmentation fault.
//
// Only a process that has the driver has such pointers, and nothing here loads it: a process
// without CUDA stays one. It is looked for when a group is made and with its heartbeats.
//
// Thread safety: all functions. In a child of fork() nothing is asked any more.
#pragma once

#include <atomic>
#include <span>
#include <string>

namespace ringwood::cuda {

class LoadedDriver final {
 public:
  // Costs microseconds. `library`: as Options::cuda.library.
  static void look(const std::string& library) noexcept;
  // It was seen in this process, or in the one that this was forked from.
  static bool known() noexcept { return known_.load(std::memory_order_acquire); }
  // The ordinal of the device whose memory it is, which the host cannot access; -1: none.
  static int device_of(const void* address) noexcept;
  // Whether the CUstream is being captured into a graph; false where it cannot be told, as where no
  // driver is known.
  static bool captures(void* stream) noexcept;
  // Throws Error(invalid_argument) for the first of them that is memory of a device.
  static void refuse(const char* what, std::span<void* const> buffers);

 private:
  static std::atomic<bool> known_;
};

}  // namespace ringwood::cuda
