#include "torch-bridge/device_groups.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/StringUtil.h>

#include <thread>
#include <utility>
#include <vector>

#include "collectives/device/group/island.h"
#include "torch-bridge/device_wait.h"
#include "transports/base/log.h"

namespace ringwood {
namespace {

struct KernelImage {
  std::string text;
  const void* image = nullptr;
};
KernelImage& image_of_tests() {
  static auto* const made = new KernelImage;
  return *made;
}

device::DeviceOptions options_with(std::chrono::milliseconds limit) {
  device::DeviceOptions options;
  options.limit = limit;
  if (image_of_tests().image) options.images = {&image_of_tests().image, 1};
  return options;
}

// One line for the process; every call that needs the driver gets the error.
const cuda::Driver& driver() {
  auto loaded = cuda::load();
  if (loaded) return **loaded;
  static std::once_flag once;
  std::call_once(once, [&] {
    log(LogLevel::warn, "cuda", "tensors of GPUs cannot be used: " + loaded.error().cause);
  });
  throw Error(loaded.error().code,
              loaded.error().cause + "; or move the tensors to the CPU (tensor.cpu())");
}

std::unique_ptr<cuda::Device> opened(c10::Device on, const void* data) {
  const cuda::Driver& calls = driver();
  auto device = std::make_unique<cuda::Device>(calls, on.index());
  const cuda::CurrentContext context(*device);
  unsigned kind = 0;
  if (data && (calls.memory.pointer_attribute(&kind, cuda::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                              reinterpret_cast<cuda::CUdeviceptr>(data)) !=
                   cuda::CUDA_SUCCESS ||
               kind != cuda::CU_MEMORYTYPE_DEVICE))
    throw Error(ErrorCode::unsupported,
                c10::str("the memory of ", on,
                         " is not that of NVIDIA's driver: move the tensors to "
                         "the CPU (tensor.cpu())"));
  return device;
}

}  // namespace

void use_kernel_image(std::string image) {
  image_of_tests().text = std::move(image);
  image_of_tests().image = image_of_tests().text.c_str();
}

DeviceUse::DeviceUse(c10::Device on, std::unique_ptr<cuda::Device> device,
                     const std::shared_ptr<Communicator>& group, std::chrono::milliseconds limit)
    : on_(on),
      // As the kernels of others wait for ours, it goes before the user's.
      stream_(c10::impl::VirtualGuardImpl(on.type()).getStreamFromGlobalPool(on, true)),
      device_(std::move(device)),
      group_(group),
      limit_(limit),
      calls_(device::DeviceGroup::create(*group, *device_, options_with(limit))),
      last_(stream_) {}

Status DeviceUse::enqueue(const device::DeviceCall& call, const c10::Stream& stream) {
  const c10::impl::VirtualGuardImpl guard(on_.type());
  const auto native = static_cast<cuda::CUstream>(guard.getStreamNativeHandle(stream));
  const std::lock_guard lock(mutex_);
  if (!calls_)
    return Error(ErrorCode::aborted,
                 "the process group was shut down (destroy_process_group); make a new one");
  last_ = stream;
  return calls_->enqueue(call, native);
}

Status DeviceUse::status() {
  const std::lock_guard lock(mutex_);
  if (!calls_) return {};
  return calls_->status();
}

bool DeviceUse::idle() {
  const std::lock_guard lock(mutex_);
  return !calls_ || c10::impl::VirtualGuardImpl(on_.type()).queryStream(last_);
}

void DeviceUse::end() {
  std::unique_ptr<device::DeviceGroup> last;
  {
    const std::lock_guard lock(mutex_);
    last = std::move(calls_);
  }
}

std::shared_ptr<DeviceUse> DeviceGroups::of(c10::Device on, const void* data,
                                            const std::shared_ptr<Communicator>& group,
                                            std::chrono::milliseconds limit) {
  const std::lock_guard lock(mutex_);
  if (const auto known = uses_.find(on); known != uses_.end()) return known->second;
  // A rank that cannot would leave the others waiting for it.
  auto device = device::made_by_all(device::gather_by(*group), [&] { return opened(on, data); });
  auto made = std::make_shared<DeviceUse>(on, std::move(device), group, limit);
  uses_[on] = made;
  return made;
}

void DeviceGroups::drain() {
  std::vector<std::shared_ptr<DeviceUse>> uses;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [on, use] : uses_) uses.push_back(use);
  }
  for (const auto& use : uses) {
    const c10::impl::VirtualGuardImpl guard(use->device().type());
    for (const c10::Stream& stream : {guard.getStream(use->device()), use->stream()}) {
      c10::Event given(use->device().type());
      given.record(stream);
      wait_on_host(given, *use, "barrier", Deadline::after(use->limit()));
    }
  }
}

bool DeviceGroups::idle(Deadline deadline) {
  const std::lock_guard lock(mutex_);
  for (const auto& [on, use] : uses_) {
    while (!use->idle()) {
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return true;
}

bool DeviceGroups::any() const {
  const std::lock_guard lock(mutex_);
  return !uses_.empty();
}

void DeviceGroups::end() {
  const std::lock_guard lock(mutex_);
  for (const auto& [on, use] : uses_) use->end();
  uses_.clear();
}

}  // namespace ringwood
