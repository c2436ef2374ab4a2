// Memory of this process that the other processes of its host can map: the place for buffers that
// are to be sent without a copy.
//
// One arena per process, because a buffer belongs to no group: any number of groups may use it. It
// is an anonymous memfd as large as the machine's memory, of which only the pages of blocks exist,
// sealed against shrinking, so that a peer's access can never fault. shm hands its descriptor to
// the ranks of the host when a group is made. Where addresses are limited (ulimit -v) there is
// none.
//
// A block has all its pages from the beginning: what the machine, a control group or the kernel's
// accounting (vm.overcommit_memory = 2) does not leave is an Error of allocate(), instead of a
// signal at the first touch. They lie near the processor of the thread that allocates.
//
// Forks: the pages are kept out of children (MADV_DONTFORK). A child that touches a buffer of its
// parent's arena ends with a segmentation fault; it can neither see nor change the parent's data.
// Where buffers get into the arena that their user did not ask for, give_copies_to_forks() makes
// every child a private copy of all blocks, as fork() does of ordinary memory, at the price of
// copying at once what is otherwise copied when it is written: fork() then returns when the child
// has it.
//
// Freed blocks keep their pages for the next allocation, up to 512 MiB in all; beyond that the
// kernel gets them back, which is the only way in which an address of the arena gets other pages:
// who knows pages by their physical place (RDMA) watches for that. Thread safety: all functions.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transports/error.h"
#include "transports/extents.h"
#include "transports/fork_guard.h"
#include "transports/link_parts.h"

namespace ringwood {

class Arena final {
 public:
  // This process's; null where the kernel gives none (told once in the log). In a forked child: its
  // own, made anew.
  static Arena* of_process();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const { return fd_.get(); }
  uint64_t bytes() const { return bytes_; }

  // Aligned to a page, to a huge page from that size on; or, within one, as far from it as `like`
  // is (a multiple of a page). Throws Error(system) when it is full, or memory is short.
  void* allocate(size_t bytes, uintptr_t like = 0);
  // Precondition: from allocate(), and not given back yet.
  void release(void* data) noexcept;
  // A block that a peer may still write to although its operation has ended in an error: its pages
  // are never given to anybody else.
  void quarantine(const void* data) noexcept;
  bool in_quarantine(const void* block) noexcept;

  struct Block {
    uint64_t offset = 0, bytes = 0;
  };
  // The one in use that [data, data + bytes) lies wholly in.
  std::optional<Block> block_of(const void* data, size_t bytes) noexcept;

  // Is told before pages go back to the kernel, and before anybody else can have their addresses:
  // by the thread that releases the block. It may call the arena, except watch() and unwatch().
  class PageWatcher {
   public:
    virtual void pages_go(uint64_t offset, uint64_t bytes) noexcept = 0;

   protected:
    ~PageWatcher() = default;
  };
  void watch(PageWatcher& watcher);
  // When it returns, the watcher is not being told and never will be.
  void unwatch(PageWatcher& watcher) noexcept;

  // For good, and before the first fork that matters. Idempotent.
  void give_copies_to_forks();
  // Excepts a block from that.
  void keep_from_forks(const void* block) noexcept;

  std::byte* at(uint64_t offset) const noexcept { return base_ + offset; }
  // Where [data, data + bytes) lies, if wholly inside.
  std::optional<uint64_t> offset_of(const void* data, size_t bytes) const noexcept {
    const auto at = reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(base_);
    if (at >= bytes_ || bytes > bytes_ - at) return std::nullopt;
    return at;
  }

 private:
  Arena(OwnedFd fd, std::byte* base, uint64_t bytes);
  static std::unique_ptr<Arena> make();
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();
  bool copy_blocks() noexcept;
  bool take_addresses_in_child() noexcept;
  uint64_t take(uint64_t need, uint64_t alignment, uint64_t past);
  bool reserve(uint64_t begin, uint64_t end, std::string& why);
  void undo(uint64_t at, uint64_t need, const std::vector<Extents::Extent>& fresh) noexcept;
  void give_pages_back(uint64_t offset, uint64_t bytes) noexcept;
  void add_free(uint64_t offset, uint64_t bytes);
  struct Used {
    uint64_t bytes = 0;
    bool quarantined = false;
    bool forked = true;
  };

  const OwnedFd fd_;
  std::byte* const base_;
  const uint64_t bytes_;
  const int pid_;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes; neighbours are merged
  std::map<uint64_t, Used> used_;      // by offset
  int copy_fd_ = -1;                   // the same file, not closed in forks; -1: forks get nothing
  ForkHandover handover_;
  Extents reserved_;               // what has pages
  uint64_t kept_ = 0;              // bytes of them in no block
  std::atomic<uint64_t> seen_{0};  // bytes reserved since memory_left() was looked at

  std::mutex watching_;  // taken before mutex_
  std::vector<PageWatcher*> watchers_;
};

}  // namespace ringwood
