#include "tests/ghost/ghost_driver.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "transports/base/error.h"

namespace ghost {

namespace cuda = ringwood::cuda;

const cuda::Driver& driver() {
  static const cuda::Driver* const loaded = [] {
    const char* const file = std::getenv("GHOST_DRIVER");
    TORCH_CHECK(file, "ghost: GHOST_DRIVER names no library");
    auto found = cuda::load_from(file);
    TORCH_CHECK(found.ok(), "ghost: ", found.error().message());
    return *found;
  }();
  return *loaded;
}

void* entry(const char* name) {
  (void)driver();
  void* const library = ::dlopen(std::getenv("GHOST_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  return ::dlsym(library, name);
}

void* on_host(const void* data) {
  static const auto find = entry<void* (*)(const void*)>("fake_cuda_on_host");
  return data ? find(data) : nullptr;
}

DeviceIndex device_count() noexcept {
  try {
    int count = 0;
    driver().device.get_count(&count);
    return static_cast<DeviceIndex>(count);
  } catch (...) {
    return 0;
  }
}

const cuda::Device& device(DeviceIndex index) {
  static std::mutex mutex;
  static auto* const devices = new std::map<DeviceIndex, std::unique_ptr<cuda::Device>>;
  const std::lock_guard lock(mutex);
  auto& made = (*devices)[index];
  if (!made) made = std::make_unique<cuda::Device>(driver(), index);
  return *made;
}

cuda::Stream& stream(DeviceIndex index, StreamId id) {
  static std::mutex mutex;
  static auto* const streams =
      new std::map<std::pair<DeviceIndex, StreamId>, std::unique_ptr<cuda::Stream>>;
  const cuda::Device& on = device(index);
  const std::lock_guard lock(mutex);
  auto& made = (*streams)[{index, id}];
  if (!made) made = std::make_unique<cuda::Stream>(on);
  return *made;
}

DeviceIndex& current_device() {
  thread_local DeviceIndex index = 0;
  return index;
}

StreamId& current_stream(DeviceIndex index) {
  thread_local std::map<DeviceIndex, StreamId> streams;
  return streams[index];
}

}  // namespace ghost
