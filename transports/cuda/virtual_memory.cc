#include "transports/cuda/virtual_memory.h"

#include <fcntl.h>

#include <bit>

namespace ringwood::cuda {
namespace {

CUmemAllocationProp properties_of(const Device& device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device.ordinal()};
  // Only memory that was made so can be registered with a network card.
  properties.allocFlags.gpuDirectRDMACapable = device.facts().rdma_of_mapped ? 1 : 0;
  return properties;
}

const VirtualMemoryCalls& calls(const Device& device) { return device.driver().virtual_memory; }

}  // namespace

size_t granularity(const Device& device) {
  const CUmemAllocationProp properties = properties_of(device);
  size_t bytes = 0;
  device.require(
      calls(device).granularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
      "cuMemGetAllocationGranularity");
  return bytes;
}

Allocation Allocation::create(const Device& device, size_t bytes) {
  if (!device.facts().exports_descriptors)
    throw Error(ErrorCode::unsupported,
                device.facts().name +
                    " cannot share memory by descriptors; use a device and a driver that support "
                    "CUDA's virtual memory management");
  const CurrentContext current(device);
  const BesideCaptures beside(device);
  const CUmemAllocationProp properties = properties_of(device);
  CUmemGenericAllocationHandle handle = 0;
  device.require(calls(device).create(&handle, bytes, &properties, 0), "cuMemCreate");
  return {device, handle};
}

Allocation Allocation::import(const Device& device, int fd) {
  const CurrentContext current(device);
  const BesideCaptures beside(device);
  CUmemGenericAllocationHandle handle = 0;
  device.require(
      calls(device).import_handle(&handle, std::bit_cast<void*>(static_cast<intptr_t>(fd)),
                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      "cuMemImportFromShareableHandle");
  return {device, handle};
}

Allocation Allocation::at(const Device& device, CUdeviceptr address) {
  const CurrentContext current(device);
  CUmemGenericAllocationHandle handle = 0;
  device.require(calls(device).retain(&handle, std::bit_cast<void*>(address)),
                 "cuMemRetainAllocationHandle");
  return {device, handle};
}

Allocation::~Allocation() {
  if (handle_ != 0 && device_->driver().usable()) calls(*device_).release(handle_);
}

OwnedFd Allocation::share() const {
  const CurrentContext current(*device_);
  CUresult code = CUDA_SUCCESS;
  OwnedFd fd(open_guarded([&] {
    int made = -1;
    code =
        calls(*device_).export_handle(&made, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (code != CUDA_SUCCESS) return -1;
    ::fcntl(made, F_SETFD, FD_CLOEXEC);
    return made;
  }));
  device_->require(code, "cuMemExportToShareableHandle");
  return fd;
}

Reservation::Reservation(const Device& device, size_t bytes) : device_(&device), bytes_(bytes) {
  const CurrentContext current(device);
  device.require(calls(device).reserve(&base_, bytes, 0, 0, 0), "cuMemAddressReserve");
}

Reservation::~Reservation() {
  if (base_ != 0 && device_->driver().usable()) calls(*device_).free_addresses(base_, bytes_);
}

Mapping::Mapping(const Device& device, CUdeviceptr address, size_t bytes,
                 const Allocation& allocation)
    : device_(&device), address_(address), bytes_(bytes) {
  const CurrentContext current(device);
  device.require(calls(device).map(address, bytes, 0, allocation.handle(), 0), "cuMemMap");
}

Mapping::~Mapping() {
  if (const CurrentContext current(*device_, std::nothrow); current && address_ != 0)
    calls(*device_).unmap(address_, bytes_);
}

void Mapping::give_access() {
  const CurrentContext current(*device_);
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_->ordinal()};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  device_->require(calls(*device_).set_access(address_, bytes_, &access, 1), "cuMemSetAccess");
}

}  // namespace ringwood::cuda
