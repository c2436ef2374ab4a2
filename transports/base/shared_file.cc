#include "transports/base/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

namespace ringwood {
namespace {

constexpr uint64_t kHugePage = 2 << 20;
constexpr unsigned kNoExecSeal = 8;  // MFD_NOEXEC_SEAL, younger than many headers
constexpr int kPopulateWrite = 23;   // MADV_POPULATE_WRITE, likewise
// Small, because fallocate() begins anew after every signal.
constexpr uint64_t kStep = 2 << 20;

// Through the mapping, because fallocate() does not know its huge pages; before Linux 5.14 by
// fallocate().
bool populate(int fd, std::byte* data, uint64_t offset, uint64_t bytes) noexcept {
  if (::madvise(data, bytes, kPopulateWrite) == 0) return true;
  if (errno == EFAULT) errno = ENOMEM;  // it means that touching the page would be a SIGBUS
  return errno == EINVAL &&
         ::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0;
}

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

bool reserve_pages(int fd, std::byte* data, uint64_t offset, uint64_t bytes) noexcept {
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t step = std::min(bytes - done, kStep);
    if (populate(fd, data + done, offset + done, step)) {
      done += step;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace ringwood
