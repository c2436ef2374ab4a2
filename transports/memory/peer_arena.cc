#include "transports/memory/peer_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

#include "transports/base/shared_file.h"

namespace ringwood {
namespace {

// Ranks that are threads of one process order their accesses by atomics in segments that each of
// them maps for itself. The thread sanitizer knows memory by its address, so for it the data must
// be mapped as often as the atomics are.
#if defined(__SANITIZE_THREAD__)
constexpr bool kShared = false;
#else
constexpr bool kShared = true;
#endif

// The arenas mapped in one process; a fork inherits no mapping, and a mutex that may be locked.
struct Known {
  const int pid = current_pid();
  std::mutex mutex;
  std::map<std::tuple<dev_t, ino_t>, std::weak_ptr<const PeerArena>> arenas;
};

// Never destroyed: links may outlive everything else in the process.
Known& known_here() {
  static std::atomic<Known*> current{nullptr};
  Known* seen = current.load(std::memory_order_acquire);
  if (seen && !forked_since(seen->pid)) return *seen;
  auto fresh = std::make_unique<Known>();
  if (current.compare_exchange_strong(seen, fresh.get())) return *fresh.release();
  return *seen;  // another thread was first
}

}  // namespace

std::shared_ptr<const PeerArena> PeerArena::of(OwnedFd fd) {
  struct stat file {};
  const bool exists = fd && ::fstat(fd.get(), &file) == 0;
  Known& known = known_here();
  std::lock_guard lock(known.mutex);
  std::erase_if(known.arenas, [](const auto& entry) { return entry.second.expired(); });
  const auto found = known.arenas.find({file.st_dev, file.st_ino});
  if (kShared && exists && found != known.arenas.end())
    if (auto arena = found->second.lock()) return arena;
  const std::shared_ptr<PeerArena> arena(new PeerArena);
  arena->map(fd.get());
  if (arena->mapped()) known.arenas[{file.st_dev, file.st_ino}] = arena;
  return arena;
}

PeerArena::~PeerArena() {
  if (base_ && !forked_since(pid_)) ::munmap(base_, bytes_);
}

void PeerArena::map(int fd) noexcept {
  struct stat file {};
  const int seals = fd >= 0 ? ::fcntl(fd, F_GET_SEALS) : -1;
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd, &file) != 0) return;
  const auto bytes = static_cast<uint64_t>(file.st_size);
  if (bytes == 0 || bytes > kMaxSharedBytes || addresses_are_limited()) return;
  base_ = map_shared_file(fd, bytes);
  if (!base_) return;
  bytes_ = bytes;
  pid_ = current_pid();
}

std::byte* PeerArena::at(uint64_t offset, size_t bytes) const noexcept {
  if (offset >= bytes_ || bytes > bytes_ - offset) return nullptr;
  return base_ + offset;
}

}  // namespace ringwood
