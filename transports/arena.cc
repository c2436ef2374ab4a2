#include "transports/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>

#include "transports/fork_guard.h"
#include "transports/log.h"
#include "transports/memory_left.h"
#include "transports/shared_file.h"

namespace ringwood {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = 2 << 20;
constexpr uint64_t kKeptBytes = 512 << 20;
// How often it is looked how much memory there is, at 50 us a time; what is left to others, who may
// take it between two looks.
constexpr uint64_t kLookFrom = 1 << 20, kLookEvery = 64 << 20, kMargin = 8 << 20;

uint64_t round_up(uint64_t x, uint64_t unit) { return (x + unit - 1) / unit * unit; }

// As much as the machine has; beyond the limit of file sizes the kernel would end the process.
uint64_t fitting_bytes() {
  const auto pages = static_cast<uint64_t>(std::max<long>(::sysconf(_SC_PHYS_PAGES), 1));
  const uint64_t bytes = std::min(round_up(pages * kPage, uint64_t{1} << 30), kMostSharedBytes);
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) return bytes;
  return std::min<uint64_t>(bytes, limit.rlim_cur / kHugePage * kHugePage);
}

Error no_room(uint64_t bytes, uint64_t all) {
  return {
      ErrorCode::system,
      fmt::format("no room for {} bytes in the {} bytes of memory that can be shared", bytes, all)};
}

// What errno says of reserve_pages().
std::string why_no_pages() {
  const int error = errno;
  int mode = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> mode;
  if (error != ENOMEM && error != ENOSPC) return system_message("reserving its pages", error);
  if (mode == 2)
    return "vm.overcommit_memory is 2 and no more can be committed; raise vm.overcommit_ratio, or "
           "use less";
  return "the kernel has no more pages; use less";
}

}  // namespace

Arena::Arena(OwnedFd fd, std::byte* base, uint64_t bytes)
    : fd_(std::move(fd)), base_(base), bytes_(bytes), pid_(getpid()), free_{{0, bytes}} {}

Arena::~Arena() {
  if (!forked_since(pid_)) ::munmap(base_, bytes_);
}

std::unique_ptr<Arena> Arena::make() {
  const auto none = [](const std::string& why) {
    static std::atomic<bool> told{false};
    if (!told.exchange(true))
      log(LogLevel::info, "shm", "no memory to share without copies: " + why);
    return nullptr;
  };
  const uint64_t bytes = fitting_bytes();
  if (bytes < kHugePage || addresses_are_limited()) {
    return none("addresses or file sizes are limited (ulimit -v, -f)");
  }
  OwnedFd fd = make_shared_file("ringwood-arena");
  if (!fd) return none(system_message("memfd_create"));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return none(system_message("ftruncate"));
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) return none(system_message("sealing"));
  std::byte* const base = map_shared_file(fd.get(), bytes);
  if (!base) return none(system_message("mmap"));
  close_on_fork(fd.get());
  return std::unique_ptr<Arena>(new Arena(std::move(fd), base, bytes));
}

// Never destroyed: buffers may outlive everything else in the process.
Arena* Arena::of_process() {
  static std::atomic<Arena*> current{nullptr};
  Arena* seen = current.load(std::memory_order_acquire);
  if (seen && !forked_since(seen->pid_)) return seen;
  std::unique_ptr<Arena> fresh = make();
  if (!fresh) return nullptr;
  if (current.compare_exchange_strong(seen, fresh.get())) return fresh.release();
  return seen;  // another thread was first
}

// ---- copies for forks

namespace {
std::atomic<Arena*> copied_arena{nullptr};
}

void Arena::give_copies_to_forks() {
  std::lock_guard lock(mutex_);
  if (copy_fd_ >= 0) return;
  copy_fd_ = ::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0);
  if (copy_fd_ < 0) throw Error(ErrorCode::system, system_message("fcntl"));
  copied_arena.store(this);
  static const int installed =
      pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
  (void)installed;  // it fails only without memory, and then forks get nothing
}

// The lock keeps the table of blocks whole.
void Arena::before_fork() {
  Arena* arena = copied_arena.load();
  if (!arena || forked_since(arena->pid_)) return;
  arena->mutex_.lock();
  arena->handover_.before_fork();
}

void Arena::after_fork_in_parent() {
  Arena* arena = copied_arena.load();
  if (!arena || forked_since(arena->pid_)) return;
  arena->handover_.wait_for_child();
  arena->mutex_.unlock();
}

// Only async-signal-safe calls. The arena object is dead here (of_process() makes another), but its
// addresses stay taken, by ordinary memory.
void Arena::after_fork_in_child() {
  Arena* arena = copied_arena.exchange(nullptr);
  if (!arena || arena->copy_fd_ < 0) return;
  if (!arena->copy_blocks()) {
    constexpr char kWhy[] = "ringwood: no memory for a forked process's copy of shared tensors\n";
    (void)!::write(2, kWhy, sizeof kWhy - 1);
    ::_exit(71);
  }
  ::close(arena->copy_fd_);
  arena->handover_.done_in_child();
}

// Where not so much ordinary memory may be mapped (vm.overcommit_memory = 2, ulimit -d), only what
// is in use becomes memory.
bool Arena::take_addresses_in_child() noexcept {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (::mmap(base_, bytes_, PROT_READ | PROT_WRITE, kFlags, -1, 0) != MAP_FAILED) return true;
  if (::mmap(base_, bytes_, PROT_NONE, kFlags, -1, 0) == MAP_FAILED) return false;
  for (const auto& [offset, block] : used_) {
    if (block.forked && ::mprotect(base_ + offset, block.bytes, PROT_READ | PROT_WRITE) != 0)
      return false;
  }
  return true;
}

bool Arena::copy_blocks() noexcept {
  if (!take_addresses_in_child()) return false;
  for (const auto& [offset, block] : used_) {
    if (!block.forked) continue;
    for (uint64_t done = 0; done < block.bytes;) {
      const ssize_t n = ::pread(copy_fd_, base_ + offset + done, block.bytes - done,
                                static_cast<off_t>(offset + done));
      if (n <= 0) return false;
      done += static_cast<uint64_t>(n);
    }
  }
  return true;
}

void Arena::keep_from_forks(const void* block) noexcept {
  const auto at = static_cast<uint64_t>(static_cast<const std::byte*>(block) - base_);
  std::lock_guard lock(mutex_);
  if (const auto found = used_.find(at); found != used_.end()) found->second.forked = false;
}

void* Arena::allocate(size_t bytes, uintptr_t like) {
  if (bytes > bytes_) throw no_room(bytes, bytes_);
  const uint64_t need = round_up(std::max<uint64_t>(bytes, 1), kPage);
  const uint64_t alignment = need >= kHugePage ? kHugePage : kPage;
  uint64_t at = 0;
  std::vector<Extents::Extent> fresh;
  {
    std::lock_guard lock(mutex_);
    at = take(need, alignment, like % alignment);
    const uint64_t there = reserved_.overlap(at, at + need);
    kept_ -= there;
    if (there == need) return base_ + at;
    fresh = reserved_.gaps(at, at + need);
  }
  std::string why;
  for (const auto& [begin, end] : fresh) {
    if (reserve(begin, end, why)) continue;
    undo(at, need, fresh);
    throw Error(ErrorCode::system,
                fmt::format("no memory for {} bytes that ranks can share: {}", bytes, why));
  }
  std::lock_guard lock(mutex_);
  reserved_.add(at, at + need);
  return base_ + at;
}

// With mutex_ held.
uint64_t Arena::take(uint64_t need, uint64_t alignment, uint64_t past) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, size] = *it;
    const uint64_t at = round_up(std::max(offset, past) - past, alignment) + past;
    if (at + need > offset + size) continue;
    free_.erase(it);
    if (at > offset) free_[offset] = at - offset;
    if (at + need < offset + size) free_[at + need] = offset + size - at - need;
    used_[at] = {need};
    return at;
  }
  throw no_room(need, bytes_);
}

// False: there is not so much memory; some of it may have been taken. The block is its caller's
// alone, so nothing is locked.
bool Arena::reserve(uint64_t begin, uint64_t end, std::string& why) {
  for (uint64_t at = begin; at < end;) {
    const uint64_t bytes = std::min(end - at, kLookEvery);
    // Beyond a control group's limit the kernel says nothing: it ends a process.
    if (seen_.fetch_add(bytes) + bytes >= kLookFrom) {
      seen_ = 0;
      const MemoryLeft left = memory_left();
      if (left.bytes < bytes + kMargin) {
        why = fmt::format("{} has {} bytes of memory left; raise its limit, or use less",
                          left.limit, left.bytes);
        return false;
      }
    }
    if (!reserve_pages(fd_.get(), base_ + at, at, bytes)) {
      why = why_no_pages();
      return false;
    }
    at += bytes;
  }
  return true;
}

void Arena::undo(uint64_t at, uint64_t need, const std::vector<Extents::Extent>& fresh) noexcept {
  for (const auto& [begin, end] : fresh) give_pages_back(begin, end - begin);
  std::lock_guard lock(mutex_);
  used_.erase(at);
  kept_ += reserved_.overlap(at, at + need);
  add_free(at, need);
}

void Arena::release(void* data) noexcept {
  if (forked_since(pid_)) return;  // nor is the lock to be trusted there
  const auto at = static_cast<uint64_t>(static_cast<std::byte*>(data) - base_);
  uint64_t bytes = 0;
  bool keep = true;
  {
    std::lock_guard lock(mutex_);
    const auto found = used_.find(at);
    if (found == used_.end() || found->second.quarantined) return;
    bytes = found->second.bytes;
    used_.erase(found);
    keep = kept_ + bytes <= kKeptBytes;
    if (keep) kept_ += bytes;
  }
  if (!keep) give_pages_back(at, bytes);
  std::lock_guard lock(mutex_);
  if (!keep) reserved_.remove(at, at + bytes);
  add_free(at, bytes);
}

// They are not free meanwhile, so nobody can be given them.
void Arena::give_pages_back(uint64_t offset, uint64_t bytes) noexcept {
  std::lock_guard lock(watching_);
  for (PageWatcher* watcher : watchers_) watcher->pages_go(offset, bytes);
  ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
}

void Arena::add_free(uint64_t at, uint64_t bytes) {
  auto next = free_.lower_bound(at);
  if (next != free_.end() && next->first == at + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == at) {
      before->second += bytes;
      return;
    }
  }
  free_[at] = bytes;
}

std::optional<Arena::Block> Arena::block_of(const void* data, size_t bytes) noexcept {
  const auto offset = offset_of(data, bytes);
  if (!offset) return std::nullopt;
  std::lock_guard lock(mutex_);
  auto found = used_.upper_bound(*offset);
  if (found == used_.begin()) return std::nullopt;
  --found;
  if (*offset + bytes > found->first + found->second.bytes) return std::nullopt;
  return Block{found->first, found->second.bytes};
}

void Arena::watch(PageWatcher& watcher) {
  std::lock_guard lock(watching_);
  watchers_.push_back(&watcher);
}

void Arena::unwatch(PageWatcher& watcher) noexcept {
  std::lock_guard lock(watching_);
  std::erase(watchers_, &watcher);
}

void Arena::quarantine(const void* data) noexcept {
  const auto at = static_cast<uint64_t>(static_cast<const std::byte*>(data) - base_);
  std::lock_guard lock(mutex_);
  for (auto& [offset, block] : used_) {
    if (at >= offset && at - offset < block.bytes) block.quarantined = true;
  }
}

bool Arena::in_quarantine(const void* data) noexcept {
  const auto at = static_cast<uint64_t>(static_cast<const std::byte*>(data) - base_);
  std::lock_guard lock(mutex_);
  const auto found = used_.find(at);
  return found != used_.end() && found->second.quarantined;
}

}  // namespace ringwood
