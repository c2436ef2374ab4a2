#include "transports/cuda/loaded_driver.h"

#include <dlfcn.h>
#include <link.h>

#include <string_view>

#include <fmt/format.h>

#include "transports/base/fork_guard.h"
#include "transports/cuda/driver.h"
#include "transports/cuda/pointer_place.h"

namespace ringwood::cuda {
namespace {

using Attributes = decltype(MemoryCalls::pointer_attributes);
using IsCapturing = decltype(StreamCalls::is_capturing);
std::atomic<Attributes> attributes{nullptr};
std::atomic<IsCapturing> is_capturing{nullptr};
std::atomic<int> seen_by{0};  // the process

struct Wanted {
  const std::string& library;
  std::string found;
};

// Of dl_iterate_phdr(): goes on as long as 0 is returned.
int is_wanted(dl_phdr_info* loaded, size_t, void* data) {
  auto& wanted = *static_cast<Wanted*>(data);
  const std::string_view path = loaded->dlpi_name;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with("libcuda.so") && (wanted.library.empty() || path != wanted.library))
    return 0;
  wanted.found = path;
  return 1;
}

}  // namespace

std::atomic<bool> LoadedDriver::known_{false};

// By the loader's list, as to ask for a library by its name would look for its file.
void LoadedDriver::look(const std::string& library) noexcept {
  if (known()) return;
  Wanted wanted{library, {}};
  ::dl_iterate_phdr(is_wanted, &wanted);
  if (wanted.found.empty()) return;
  // The handle is kept: whoever has loaded it could unload it.
  void* const handle = ::dlopen(wanted.found.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return;
  attributes = reinterpret_cast<Attributes>(::dlsym(handle, "cuPointerGetAttributes"));
  is_capturing = reinterpret_cast<IsCapturing>(::dlsym(handle, "cuStreamIsCapturing"));
  seen_by = current_pid();
  known_ = attributes.load() != nullptr;
}

int LoadedDriver::device_of(const void* address) noexcept {
  if (!address || forked_since(seen_by)) return -1;
  const PointerPlace place = place_of(attributes, address);
  return place.code == CUDA_SUCCESS && place.of_device ? place.ordinal : -1;
}

bool LoadedDriver::captures(void* stream) noexcept {
  const IsCapturing ask = is_capturing;
  if (!known() || !ask || forked_since(seen_by)) return false;
  CUstreamCaptureStatus status{};
  return ask(static_cast<CUstream>(stream), &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void LoadedDriver::refuse(const char* what, std::span<void* const> buffers) {
  for (const void* buffer : buffers)
    if (const int device = device_of(buffer); device >= 0)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: a buffer is memory of device {}, and the call is for memory of "
                              "the host: name the device and its stream in CallOptions::on",
                              what, device));
}

}  // namespace ringwood::cuda
