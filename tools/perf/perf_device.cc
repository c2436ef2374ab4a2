#include "tools/perf/perf_device.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace ringwood::tools {
namespace {

size_t place_on_host(const std::vector<HostRanks>& hosts, int rank) {
  for (const HostRanks& host : hosts)
    if (const auto it = std::ranges::find(host.ranks, rank); it != host.ranks.end())
      return static_cast<size_t>(it - host.ranks.begin());
  return 0;
}

std::byte* pointer(cuda::CUdeviceptr address) { return std::bit_cast<std::byte*>(address); }

}  // namespace

PerfDevice::PerfDevice(const CudaOptions& options, const std::vector<HostRanks>& hosts, int rank) {
  if (!options.enabled)
    throw Error(ErrorCode::unsupported, "--memory cuda: RINGWOOD_CUDA=0 switches it off: unset it");
  auto driver = cuda::load(options.library);
  if (!driver) throw std::move(driver.error());
  const size_t count = cuda::devices(**driver).size();
  device_.emplace(**driver, static_cast<int>(place_on_host(hosts, rank) % count));
  stream_.emplace(*device_);
}

DeviceBuffers::DeviceBuffers(const PerfDevice& device, size_t inputs, size_t outputs)
    : device_(device) {
  const cuda::CurrentContext current(device.device());
  in_.here.resize(inputs);
  out_.here.resize(outputs);
  for (Both* both : {&in_, &out_})
    if (!both->here.empty())
      device.device().require(
          device.device().driver().memory.allocate(&both->there, both->here.size()), "cuMemAlloc");
}

DeviceBuffers::~DeviceBuffers() {
  const cuda::CurrentContext current(device_.device(), std::nothrow);
  for (const Both* both : used()) device_.device().driver().memory.release(both->there);
}

std::vector<const DeviceBuffers::Both*> DeviceBuffers::used() const {
  std::vector<const Both*> used;
  for (const Both* both : {&in_, &out_})
    if (both->there != 0) used.push_back(both);
  return used;
}

void DeviceBuffers::use(Call& call) const {
  call.in = pointer(in_.there);
  call.out = out_.here.empty() ? call.in : pointer(out_.there);
  call.device = this;
  call.options.on = {device_.device().ordinal(), device_.stream()};
}

Call DeviceBuffers::on_host(Call call) const {
  call.in = in_.here.data();
  call.out = out_.here.empty() ? call.in : out_.here.data();
  call.device = nullptr;
  return call;
}

void DeviceBuffers::upload() const {
  const cuda::Device& device = device_.device();
  const cuda::CurrentContext current(device);
  for (const Both* both : used())
    device.require(device.driver().memory.copy_to_device(both->there, both->here.data(),
                                                         both->here.size(), device_.stream()),
                   "cuMemcpyHtoDAsync");
  device.require(device.driver().stream.synchronize(device_.stream()), "cuStreamSynchronize");
}

void DeviceBuffers::download() const {
  const cuda::Device& device = device_.device();
  const cuda::CurrentContext current(device);
  for (const Both* both : used())
    device.require(device.driver().memory.copy_to_host(both->here.data(), both->there,
                                                       both->here.size(), device_.stream()),
                   "cuMemcpyDtoHAsync");
  device.require(device.driver().stream.synchronize(device_.stream()), "cuStreamSynchronize");
}

}  // namespace ringwood::tools
