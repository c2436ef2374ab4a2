#include "transports/verbs/rail/device_memory.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>

#include "transports/base/error.h"
#include "transports/base/log.h"

namespace ringwood::verbs {
namespace {

std::string memory_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return "the memlock limit is unlimited";
  return fmt::format(
      "the memlock limit is {} KiB: raise it (ulimit -l unlimited, "
      "/etc/security/limits.conf, docker --ulimit memlock=-1), or lower "
      "RINGWOOD_VERBS_RING_BYTES",
      limit.rlim_cur >> 10);
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  if (port_.inherited()) return;
  registrations_.reset();
  if (rings_) port_.library().dereg_mr(rings_);
  if (domain_) port_.library().dealloc_pd(domain_);
}

bool DeviceMemory::open(std::string& why) {
  domain_ = port_.library().alloc_pd(port_.context());
  if (!domain_) why = fmt::format("{}: {}", port_.address().name, system_message("ibv_alloc_pd"));
  return domain_ != nullptr;
}

bool DeviceMemory::register_rings(std::shared_ptr<std::byte> data, size_t bytes, std::string& why) {
  constexpr int kAccess =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING;
  rings_ = port_.library().reg_mr_iova2(domain_, data.get(), bytes,
                                        reinterpret_cast<uintptr_t>(data.get()), kAccess);
  data_ = std::move(data);
  if (rings_) return true;
  const int error = errno;
  why = fmt::format("{}: {} bytes could not be registered: {}; {}", port_.address().name, bytes,
                    system_message("ibv_reg_mr", error), memory_limit());
  return false;
}

void DeviceMemory::register_arena(size_t most_bytes) {
  Arena* const arena = most_bytes > 0 ? Arena::of_process() : nullptr;
  if (!arena) return;
  Registrations::Registrar registrar;
  registrar.add = [this](std::byte* data, size_t bytes, Registration& made) {
    // Writable, so that addresses without pages get pages of their own, not the page of zeros.
    ibv_mr* region =
        port_.library().reg_mr_iova2(domain_, data, bytes, reinterpret_cast<uintptr_t>(data),
                                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
    made.handle = region;
    if (region) made.key = region->lkey;
    return region != nullptr;
  };
  registrar.remove = [this](void* handle) {
    port_.library().dereg_mr(static_cast<ibv_mr*>(handle));
  };
  registrar.refused = [this](size_t bytes, int error) {
    static std::atomic<bool> told{false};
    if (told.exchange(true)) return;
    log(LogLevel::warn, "verbs",
        fmt::format("{}: {} bytes of shared buffers could not be registered and are copied: {}; {}",
                    port_.address().name, bytes, system_message("ibv_reg_mr", error),
                    memory_limit()));
  };
  registrations_ = std::make_unique<Registrations>(*arena, std::move(registrar),
                                                   Registrations::Bounds{.bytes = most_bytes});
}

}  // namespace ringwood::verbs
