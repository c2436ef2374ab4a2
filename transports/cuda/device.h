// The devices of this process, and a device that is in use.
//
// Devices are known by their UUID: ordinals differ between processes (CUDA_VISIBLE_DEVICES). The
// context is the device's primary one, which all libraries of a process share.
//
// Thread safety: all functions of a Device; a CurrentContext belongs to its thread. Errors: thrown.
// In a child of fork() nothing but destruction is allowed. Sizes are bytes.
#pragma once

#include <array>
#include <compare>
#include <new>
#include <string>
#include <vector>

#include "transports/cuda/driver.h"

namespace ringwood::cuda {

struct Uuid {
  std::array<unsigned char, 16> bytes{};
  auto operator<=>(const Uuid&) const = default;
  // "GPU-fa5ece00-0000-0000-0000-000000000001", as nvidia-smi writes it.
  std::string text() const;
};

// What does not change while the process runs.
struct DeviceFacts {
  int ordinal = 0;
  Uuid uuid;
  std::string name;
  std::string pci;  // "0000:3b:00.0", as in sysfs
  int sm = 0;       // compute capability: 90 is 9.0
  size_t bytes = 0;
  bool registers_host_memory = false;
};

DeviceFacts facts_of(const Driver& driver, int ordinal);
std::vector<DeviceFacts> devices(const Driver& driver);

// A device whose primary context this object keeps. Must outlive what is made on it.
class Device {
 public:
  Device(const Driver& driver, int ordinal);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  const Driver& driver() const { return driver_; }
  const DeviceFacts& facts() const { return facts_; }
  int ordinal() const { return facts_.ordinal; }
  CUcontext context() const { return context_; }

  // Throws the Error of a call that failed here.
  void require(CUresult code, const char* call) const;

 private:
  const Driver& driver_;
  const DeviceFacts facts_;
  CUcontext context_ = nullptr;
};

// Makes the device's context the current one of this thread; the end of the scope restores the one
// before. Most calls are about the current context, and destroying a stream or event is too.
class CurrentContext {
 public:
  explicit CurrentContext(const Device& device);
  // For destructors: false in a child of fork(), or when the driver refuses; what the device holds
  // is then left alone.
  CurrentContext(const Device& device, std::nothrow_t) noexcept;
  explicit operator bool() const { return pushed_; }
  // Why not.
  Status status() const;
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext();

 private:
  const Device& device_;
  bool pushed_ = false;
  CUresult code_ = CUDA_ERROR_NOT_INITIALIZED;  // of a child of fork()
};

// While any thread of the process captures a stream in the global mode, the driver refuses calls
// like cuEventQuery and cuMemHostRegister in all threads, and breaks that capture. What is done
// here on the side belongs to no capture, and says so for the length of a scope, in its thread.
class BesideCaptures {
 public:
  explicit BesideCaptures(const Device& device) noexcept;
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;
  ~BesideCaptures();

 private:
  const Device& device_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // outside: that of before
  bool exchanged_ = false;
};

}  // namespace ringwood::cuda
