#include "transports/shared_file.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>

namespace ringwood {
namespace {

constexpr uint64_t kHugePage = 2 << 20;
constexpr unsigned kNoExecSeal = 8;  // MFD_NOEXEC_SEAL, younger than many headers

}  // namespace

OwnedFd make_shared_file(const char* name) noexcept {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  OwnedFd fd(::memfd_create(name, kFlags | kNoExecSeal));
  if (!fd && errno == EINVAL) return OwnedFd(::memfd_create(name, kFlags));
  return fd;
}

bool addresses_are_limited() noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

std::byte* map_shared_file(int fd, uint64_t bytes) noexcept {
  void* reserved = ::mmap(nullptr, bytes + kHugePage, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(reserved);
  const uint64_t before = (0 - reinterpret_cast<uintptr_t>(begin)) % kHugePage;
  std::byte* const base = begin + before;
  void* mapped =
      ::mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED || ::madvise(base, bytes, MADV_DONTFORK) != 0) {
    ::munmap(begin, bytes + kHugePage);
    return nullptr;
  }
  if (before > 0) ::munmap(begin, before);
  ::munmap(base + bytes, kHugePage - before);
  ::madvise(base, bytes, MADV_HUGEPAGE);  // first touch costs a seventh
  return base;
}

}  // namespace ringwood
