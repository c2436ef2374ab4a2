#include "transports/memory/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "transports/base/fork_guard.h"
#include "transports/base/log.h"
#include "transports/base/shared_file.h"

namespace ringwood {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = 2 << 20;

uint64_t round_up(uint64_t x, uint64_t unit) { return (x + unit - 1) / unit * unit; }

// As much as the machine has; beyond the file size limit the kernel would end the process.
uint64_t fitting_bytes() {
  const auto pages = static_cast<uint64_t>(std::max<long>(::sysconf(_SC_PHYS_PAGES), 1));
  const uint64_t bytes = std::min(round_up(pages * kPage, uint64_t{1} << 30), kMaxSharedBytes);
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) return bytes;
  return std::min<uint64_t>(bytes, limit.rlim_cur / kHugePage * kHugePage);
}

Error no_room(uint64_t bytes, uint64_t all) {
  return {
      ErrorCode::system,
      fmt::format("no room for {} bytes in the {} bytes of memory that can be shared", bytes, all)};
}

}  // namespace

Arena::Arena(OwnedFd fd, std::byte* base, uint64_t bytes)
    : fd_(std::move(fd)),
      base_(base),
      bytes_(bytes),
      pid_(getpid()),
      blocks_(bytes),
      supply_(fd_.get(), base),
      copies_({base, bytes}, fd_.get(), blocks_, mutex_) {}

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

void* Arena::allocate(size_t bytes, uintptr_t like) {
  if (bytes > bytes_) throw no_room(bytes, bytes_);
  const uint64_t need = round_up(std::max<uint64_t>(bytes, 1), kPage);
  const uint64_t alignment = need >= kHugePage ? kHugePage : kPage;
  uint64_t at = 0;
  std::vector<Extents::Extent> fresh;
  {
    std::lock_guard lock(mutex_);
    const auto place = blocks_.take(need, alignment, like % alignment);
    if (!place) throw no_room(need, bytes_);
    at = *place;
    if (pages_.use(at, at + need) == need) return base_ + at;
    fresh = pages_.missing(at, at + need);
  }
  std::string why;
  for (const auto& [begin, end] : fresh) {
    if (supply_.reserve(begin, end, why)) continue;
    undo(at, need, fresh);
    throw Error(ErrorCode::system,
                fmt::format("no memory for {} bytes that ranks can share: {}", bytes, why));
  }
  std::lock_guard lock(mutex_);
  pages_.add(at, at + need);
  return base_ + at;
}

void Arena::undo(uint64_t at, uint64_t need, const std::vector<Extents::Extent>& fresh) noexcept {
  for (const auto& [begin, end] : fresh) supply_.give_back(begin, end - begin);
  std::lock_guard lock(mutex_);
  if (!blocks_.retire(at)) return;  // in quarantine by now
  pages_.undo_use(at, at + need);
  blocks_.add_free(at, need);
}

void Arena::release(void* data) noexcept {
  if (forked_since(pid_)) return;  // the mutex cannot be trusted there either
  const uint64_t at = position(data);
  uint64_t bytes = 0;
  bool keep = true;
  {
    std::lock_guard lock(mutex_);
    const auto retired = blocks_.retire(at);
    if (!retired) return;
    bytes = *retired;
    keep = pages_.keep(bytes);
  }
  // The block is not free yet, so these pages cannot be allocated meanwhile.
  if (!keep) supply_.give_back(at, bytes);
  std::lock_guard lock(mutex_);
  if (!keep) pages_.remove(at, at + bytes);
  blocks_.add_free(at, bytes);
}

std::optional<BlockTable::Block> Arena::block_of(const void* data, size_t bytes) noexcept {
  const auto offset = offset_of(data, bytes);
  if (!offset) return std::nullopt;
  std::lock_guard lock(mutex_);
  return blocks_.around(*offset, bytes);
}

void Arena::keep_from_forks(const void* block) noexcept {
  std::lock_guard lock(mutex_);
  blocks_.keep_from_forks(position(block));
}

void Arena::quarantine(const void* data) noexcept {
  std::lock_guard lock(mutex_);
  blocks_.quarantine(position(data));
}

bool Arena::in_quarantine(const void* block) noexcept {
  std::lock_guard lock(mutex_);
  return blocks_.in_quarantine(position(block));
}

}  // namespace ringwood
