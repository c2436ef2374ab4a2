#include "transports/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>
#include <mutex>

#include "transports/base/fork_guard.h"
#include "transports/cuda/check.h"

namespace ringwood::cuda {
namespace {

constexpr const char* kInstall =
    "install NVIDIA's driver; in a container, start it with NVIDIA's container toolkit "
    "(docker run --gpus all)";

Error no_driver(std::string why) { return {ErrorCode::unsupported, std::move(why)}; }

// Asked before the table is filled: an old driver is to be told by its version, not by what it
// lacks.
Result<int> version_of(void* library, const char* file) {
  const auto ask = reinterpret_cast<CUresult (*)(int*)>(::dlsym(library, "cuDriverGetVersion"));
  if (!ask)
    return no_driver(
        fmt::format("{} has no cuDriverGetVersion: it is not NVIDIA's driver; {}", file, kInstall));
  int version = 0;
  if (ask(&version) != CUDA_SUCCESS || version < kOldestDriver)
    return no_driver(fmt::format(
        "{} supports CUDA {}, and {} is needed; install NVIDIA's driver 525 or a newer one", file,
        version_text(version), version_text(kOldestDriver)));
  return version;
}

Result<std::unique_ptr<Driver>> filled(void* library, const char* file) {
  auto version = version_of(library, file);
  if (!version) return std::move(version.error());
  auto driver = std::make_unique<Driver>();
  driver->version = *version;
  driver->pid = current_pid();
  if (const std::string missing = fill(*driver, library); !missing.empty())
    return no_driver(
        fmt::format("{} has no {}, although it supports CUDA {}; reinstall NVIDIA's driver, or "
                    "remove the library that stands in for it",
                    file, missing, version_text(*version)));
  return driver;
}

// Null: there is at least one device.
Status initialise(const Driver& driver) {
  if (const CUresult code = driver.init(0); code != CUDA_SUCCESS)
    return failure(driver, code, "cuInit");
  int devices = 0;
  if (const CUresult code = driver.device.get_count(&devices); code != CUDA_SUCCESS)
    return failure(driver, code, "cuDeviceGetCount");
  if (devices == 0) return failure(driver, CUDA_ERROR_NO_DEVICE, "cuDeviceGetCount");
  return {};
}

Error in_a_fork() {
  return no_driver(
      "CUDA was initialised before this process was forked, and a forked process cannot use it; "
      "start processes with spawn, or fork them before the first use of a GPU");
}

}  // namespace

bool Driver::usable() const noexcept { return !forked_since(pid); }

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Result<const Driver*> load_from(const char* file) {
  void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) return no_driver(fmt::format("{}; {}", ::dlerror(), kInstall));
  auto driver = filled(library, file);
  if (!driver) {
    ::dlclose(library);
    return std::move(driver.error());
  }
  // From here on the library may have threads: it stays, also if it is of no use.
  if (Status status = initialise(**driver); !status) {
    status.error().code = ErrorCode::unsupported;
    return std::move(status.error());
  }
  return driver->release();
}

Result<const Driver*> load(const std::string& file) {
  static std::mutex mutex;
  static const Driver* driver = nullptr;
  std::lock_guard lock(mutex);
  if (driver && !driver->usable()) return in_a_fork();
  if (!driver) {
    auto loaded = load_from(file.empty() ? "libcuda.so.1" : file.c_str());
    if (!loaded) return loaded;
    driver = *loaded;
  }
  return driver;
}

}  // namespace ringwood::cuda
