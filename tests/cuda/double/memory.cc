#include "tests/cuda/double/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace fake_cuda {
namespace {

constexpr uint64_t kMagic = 0x6664616b65637564;
constexpr size_t kAboutBytes = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

void* pointer(CUdeviceptr at) { return reinterpret_cast<void*>(at); }

bool keep_from_forks(CUdeviceptr at, size_t bytes) {
  return ::madvise(pointer(at), bytes, MADV_DONTFORK) == 0;
}

// A device's memory is used up by what its own process has made.
std::array<std::atomic<size_t>, 64> g_used;

}  // namespace

std::shared_ptr<Pages> Pages::make(size_t bytes, int physical_device, unsigned handle_types) {
  if (bytes > kDeviceBytes || (g_used[physical_device] += bytes) > kDeviceBytes) {
    if (bytes <= kDeviceBytes) g_used[physical_device] -= bytes;
    return nullptr;
  }
  const About about{kMagic, bytes, physical_device, handle_types};
  const int fd = ::memfd_create("fake-cuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes + kAboutBytes)) == 0 &&
      ::pwrite(fd, &about, sizeof about, static_cast<off_t>(bytes)) == sizeof about &&
      ::fcntl(fd, F_ADD_SEALS, kSeals) == 0)
    return std::shared_ptr<Pages>(new Pages(fd, about));
  if (fd >= 0) ::close(fd);
  g_used[physical_device] -= bytes;
  return nullptr;
}

std::shared_ptr<Pages> Pages::of(int fd) {
  struct stat file {};
  About about;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(fd, &file) != 0) return nullptr;
  const off_t at = file.st_size - static_cast<off_t>(kAboutBytes);
  if (at <= 0 || ::pread(fd, &about, sizeof about, at) != sizeof about || about.magic != kMagic ||
      about.bytes != static_cast<uint64_t>(at))
    return nullptr;
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (own < 0) return nullptr;
  g_used[about.physical_device] += about.bytes;
  return std::shared_ptr<Pages>(new Pages(own, about));
}

Pages::~Pages() {
  ::close(fd_);
  g_used[about_.physical_device] -= about_.bytes;
}

Tables& tables() { return forever<Tables>(); }

bool is_accessible(Tables& all, CUdeviceptr address, size_t bytes) {
  for (CUdeviceptr at = address; at < address + bytes;) {
    const auto found = mapping_at(all, at);
    if (found == all.mapped.end() || found->second.most_access() == 0) return false;
    at = found->first + found->second.bytes;
  }
  return true;
}

CUdeviceptr reserve_addresses(size_t bytes, size_t alignment) {
  const size_t room = bytes + alignment;
  void* at = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<CUdeviceptr>(at);
  const CUdeviceptr aligned = round_up(begin, alignment);
  if (aligned > begin) ::munmap(at, aligned - begin);
  if (begin + room > aligned + bytes)
    ::munmap(pointer(aligned + bytes), begin + room - aligned - bytes);
  keep_from_forks(aligned, bytes);
  return aligned;
}

bool show_pages(CUdeviceptr at, const Pages& pages, size_t bytes) {
  return ::mmap(pointer(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, pages.fd(), 0) !=
             MAP_FAILED &&
         keep_from_forks(at, bytes);
}

bool hide_pages(CUdeviceptr at, size_t bytes) {
  return ::mmap(pointer(at), bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED &&
         keep_from_forks(at, bytes);
}

bool protect(CUdeviceptr at, size_t bytes, int access) {
  const int allowed = access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                      : access == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                   : PROT_NONE;
  return ::mprotect(pointer(at), bytes, allowed) == 0;
}

std::optional<CUdeviceptr> map_anywhere(std::shared_ptr<Pages> pages, size_t asked_for,
                                        Origin origin, CUdevice device) {
  const size_t bytes = pages->bytes();
  const CUdeviceptr at = reserve_addresses(bytes, kGranularity);
  if (at == 0) return std::nullopt;
  constexpr int kAll = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (!show_pages(at, *pages, bytes) || !protect(at, bytes, kAll)) {
    ::munmap(pointer(at), bytes);
    return std::nullopt;
  }
  Tables& all = tables();
  all.mapped[at] = {std::move(pages), bytes, asked_for, origin, all.next_id++, {{device, kAll}}};
  return at;
}

bool unmap_anywhere(CUdeviceptr at, Origin origin) {
  Tables& all = tables();
  const auto found = all.mapped.find(at);
  if (found == all.mapped.end() || found->second.origin != origin) return false;
  // The addresses stay taken by nothing: whoever still uses them faults, also when the process maps
  // other memory. Reserved addresses are all that this costs.
  hide_pages(at, found->second.bytes);
  all.mapped.erase(found);
  return true;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  CUdevice device = 0;
  if (const CUresult code = cuCtxGetDevice(&device)) return code;
  *free = kDeviceBytes - std::min<size_t>(kDeviceBytes, g_used[visible_devices()[device]]);
  *total = kDeviceBytes;
  return CUDA_SUCCESS;
}
