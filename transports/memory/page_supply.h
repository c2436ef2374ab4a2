// Gets pages of the arena's file (arena.h) from the kernel, and gives them back.
//
// If the machine, a control group or the kernel's accounting (vm.overcommit_memory = 2) does not
// leave enough memory, reserve() fails, instead of a signal at the first touch. An address of the
// arena gets other pages only after give_back(); code that knows pages by their physical address
// (RDMA) watches for that.
//
// Thread safety: all functions. The caller of reserve() or give_back() owns the addresses: they
// cannot be allocated meanwhile. Lock order: the mutex of the watchers is taken before the arena's
// (a watcher may call the arena), so give_back(), watch() and unwatch() are called without the
// arena's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace ringwood {

// Called before pages go back to the kernel, and before their addresses can be allocated again, by
// the thread that releases the block. It may call the arena, except watch() and unwatch().
class PageWatcher {
 public:
  virtual void pages_go(uint64_t offset, uint64_t bytes) noexcept = 0;

 protected:
  ~PageWatcher() = default;
};

class PageSupply final {
 public:
  // `base`: where `fd` is mapped as a whole.
  PageSupply(int fd, std::byte* base) : fd_(fd), base_(base) {}

  // Gets pages for [begin, end). False: there is not enough memory; some of it may have been taken.
  bool reserve(uint64_t begin, uint64_t end, std::string& why);
  void give_back(uint64_t offset, uint64_t bytes) noexcept;

  void watch(PageWatcher& watcher);
  // When it returns, the watcher is not being called and never will be.
  void unwatch(PageWatcher& watcher) noexcept;

 private:
  const int fd_;
  std::byte* const base_;
  std::atomic<uint64_t> seen_{0};  // bytes reserved since memory_left() was last called

  std::mutex watching_;
  std::vector<PageWatcher*> watchers_;
};

}  // namespace ringwood
