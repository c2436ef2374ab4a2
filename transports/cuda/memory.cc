#include "transports/cuda/memory.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>

namespace ringwood::cuda {
namespace {

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Sizes come from other processes.
size_t sum_of(const std::vector<size_t>& sizes) {
  constexpr size_t kMaxBytes = size_t{1} << 46;
  size_t sum = 0;
  for (const size_t bytes : sizes) {
    if (bytes == 0 || bytes > kMaxBytes || (sum += bytes) > kMaxBytes)
      throw Error(ErrorCode::internal, fmt::format("{} bytes of a peer's memory were to be mapped; "
                                                   "do all ranks run the same version?",
                                                   bytes));
  }
  return sum;
}

MappedRow own_row(const Device& device, size_t bytes) {
  const size_t all = rounded(std::max<size_t>(bytes, 1), granularity(device));
  std::vector<Allocation> allocations;
  allocations.push_back(Allocation::create(device, all));
  return {device, std::move(allocations), {all}};
}

MappedRow peer_row(const Device& device, std::span<const SharedPart> parts) {
  std::vector<Allocation> allocations;
  std::vector<size_t> bytes;
  for (const SharedPart& part : parts) {
    allocations.push_back(Allocation::import(device, part.fd.get()));
    bytes.push_back(part.bytes);
  }
  return {device, std::move(allocations), bytes};
}

}  // namespace

MappedRow::MappedRow(const Device& device, std::vector<Allocation> allocations,
                     const std::vector<size_t>& bytes)
    : allocations_(std::move(allocations)), reservation_(device, sum_of(bytes)) {
  mappings_.reserve(bytes.size());
  CUdeviceptr next = reservation_.base();
  for (size_t i = 0; i < bytes.size(); ++i) {
    mappings_.emplace_back(device, next, bytes[i], allocations_[i]);
    mappings_.back().give_access();
    next += bytes[i];
  }
}

void MappedRow::leave() noexcept {
  for (Mapping& mapping : mappings_) mapping.leave();
  reservation_.leave();
  for (Allocation& allocation : allocations_) allocation.leave();
}

DeviceArena::DeviceArena(const Device& device, size_t bytes) : row_(own_row(device, bytes)) {}

PeerArena::PeerArena(const Device& device, std::span<const SharedPart> parts)
    : row_(peer_row(device, parts)) {}

SharedRange share_range(const Device& device, CUdeviceptr data, size_t bytes) {
  SharedRange shared;
  const CUdeviceptr end = data + std::max<size_t>(bytes, 1);
  for (CUdeviceptr at = data; at < end;) {
    CUdeviceptr base = 0;
    size_t length = 0;
    {
      const CurrentContext current(device);
      device.require(device.driver().memory.address_range(&base, &length, at),
                     "cuMemGetAddressRange");
    }
    if (shared.parts.empty()) shared.offset = at - base;
    shared.parts.push_back({Allocation::at(device, at).share(), length});
    at = base + length;
  }
  return shared;
}

PinnedMemory::PinnedMemory(const Device& device, size_t bytes) : device_(device), bytes_(bytes) {
  const CurrentContext current(device);
  const BesideCaptures beside(device);
  const MemoryCalls& memory = device.driver().memory;
  device.require(
      memory.host_allocate(&data_, bytes, kMemHostAllocPortable | kMemHostAllocDeviceMap),
      "cuMemHostAlloc");
  if (const CUresult code = memory.host_device_pointer(&on_device_, data_, 0);
      code != CUDA_SUCCESS) {
    memory.host_free(data_);
    device.require(code, "cuMemHostGetDevicePointer");
  }
  std::memset(data_, 0, bytes);
}

PinnedMemory::~PinnedMemory() {
  const BesideCaptures beside(device_);
  if (const CurrentContext current(device_, std::nothrow); current)
    device_.driver().memory.host_free(data_);
}

}  // namespace ringwood::cuda
