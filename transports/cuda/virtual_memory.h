// The three parts of the driver's virtual memory, each with one owner: an allocation (memory
// without an address), a reservation (addresses without memory), and a mapping of the one at the
// other. They are ended in the order mapping, reservation, allocation: declare them the other way
// round.
//
// What a kernel still uses when it is unmapped faults, and the device's context is lost. leave()
// gives a part up without ending it: for memory that a peer may still use after an error.
//
// Movable; thread safety: different objects. Errors: thrown. In a child of fork() nothing but
// destruction is allowed. A Device must outlive what is made on it.
#pragma once

#include <utility>

#include "transports/base/owned_fd.h"
#include "transports/cuda/device.h"

namespace ringwood::cuda {

// Sizes of allocations and mappings are multiples of this (2 MiB on today's devices).
size_t granularity(const Device& device);

class Allocation {
 public:
  // Memory of the device that can be exported as a descriptor. `bytes`: a multiple of the
  // granularity. What it holds is not defined.
  static Allocation create(const Device& device, size_t bytes);
  // Memory of any process, also this one. The descriptor stays the caller's.
  static Allocation import(const Device& device, int fd);
  // That which is mapped at the address. Error(system): nothing is, or it cannot be told.
  static Allocation at(const Device& device, CUdeviceptr address);

  Allocation(Allocation&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, 0)) {}
  Allocation& operator=(Allocation&&) = delete;
  ~Allocation();

  CUmemGenericAllocationHandle handle() const { return handle_; }
  // A new descriptor, not inherited by forks; the memory lives as long as it does.
  OwnedFd share() const;
  void leave() noexcept { handle_ = 0; }

 private:
  Allocation(const Device& device, CUmemGenericAllocationHandle handle)
      : device_(&device), handle_(handle) {}
  const Device* device_;
  CUmemGenericAllocationHandle handle_;
};

class Reservation {
 public:
  Reservation(const Device& device, size_t bytes);
  Reservation(Reservation&& other) noexcept
      : device_(other.device_), base_(std::exchange(other.base_, 0)), bytes_(other.bytes_) {}
  Reservation& operator=(Reservation&&) = delete;
  ~Reservation();

  CUdeviceptr base() const { return base_; }
  size_t bytes() const { return bytes_; }
  void leave() noexcept { base_ = 0; }

 private:
  const Device* device_;
  CUdeviceptr base_ = 0;
  size_t bytes_;
};

class Mapping {
 public:
  // All of `allocation`, which is `bytes` long, at `address`; without access.
  Mapping(const Device& device, CUdeviceptr address, size_t bytes, const Allocation& allocation);
  Mapping(Mapping&& other) noexcept
      : device_(other.device_), address_(std::exchange(other.address_, 0)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping();

  // Readable and writable for the device.
  void give_access();
  void leave() noexcept { address_ = 0; }

 private:
  const Device* device_;
  CUdeviceptr address_;
  size_t bytes_;
};

}  // namespace ringwood::cuda
