#include "transports/memory/page_supply.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "transports/base/error.h"
#include "transports/base/input_file.h"
#include "transports/base/shared_file.h"
#include "transports/memory/memory_left.h"

namespace ringwood {
namespace {

// How often memory_left() is called, at 50 us a time, and how much is left to other processes,
// which may take it between two calls.
constexpr uint64_t kLookFrom = 1 << 20, kLookEvery = 64 << 20, kMargin = 8 << 20;

// The meaning of errno after reserve_pages().
std::string why_no_pages() {
  const int error = errno;
  int mode = 0;
  InputFile("/proc/sys/vm/overcommit_memory") >> mode;
  if (error != ENOMEM && error != ENOSPC) return system_message("reserving its pages", error);
  if (mode == 2)
    return "vm.overcommit_memory is 2 and no more can be committed; raise vm.overcommit_ratio, or "
           "use less";
  return "the kernel has no more pages; use less";
}

}  // namespace

bool PageSupply::reserve(uint64_t begin, uint64_t end, std::string& why) {
  for (uint64_t at = begin; at < end;) {
    const uint64_t bytes = std::min(end - at, kLookEvery);
    // At a control group's limit the kernel does not refuse: it ends a process.
    if (seen_.fetch_add(bytes) + bytes >= kLookFrom) {
      seen_ = 0;
      const MemoryLeft left = memory_left();
      if (left.bytes < bytes + kMargin) {
        why = fmt::format("{} has {} bytes of memory left; raise its limit, or use less",
                          left.limit, left.bytes);
        return false;
      }
    }
    if (!reserve_pages(fd_, base_ + at, at, bytes)) {
      why = why_no_pages();
      return false;
    }
    at += bytes;
  }
  return true;
}

void PageSupply::give_back(uint64_t offset, uint64_t bytes) noexcept {
  std::lock_guard lock(watching_);
  for (PageWatcher* watcher : watchers_) watcher->pages_go(offset, bytes);
  ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
}

void PageSupply::watch(PageWatcher& watcher) {
  std::lock_guard lock(watching_);
  watchers_.push_back(&watcher);
}

void PageSupply::unwatch(PageWatcher& watcher) noexcept {
  std::lock_guard lock(watching_);
  std::erase(watchers_, &watcher);
}

}  // namespace ringwood
