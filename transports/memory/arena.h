// Memory of this process that the other processes of its host can map, for buffers that are to be
// sent zero-copy.
//
// There is one arena per process, because a buffer belongs to no group: any number of groups may
// use it. The arena is an anonymous memfd as large as the machine's memory, of which only the pages
// of blocks exist. It is sealed against shrinking, so that a peer's access can never fault. shm
// sends its descriptor to the ranks of the host when a group is created. Where addresses are
// limited (ulimit -v) there is none.
//
// 1. A block has all its pages from the beginning: if the machine, a control group or the kernel's
//    accounting (vm.overcommit_memory = 2) does not leave enough memory, allocate() throws, instead
//    of a signal at the first touch. The pages are near the processor of the allocating thread.
// 2. The pages are kept out of forked children (MADV_DONTFORK). A child that touches a buffer in
//    its parent's arena ends with a segmentation fault; it can neither see nor change the parent's
//    data. Where buffers get into the arena without their user's request, give_copies_to_forks()
//    gives every child private copies of all blocks, as fork() does with ordinary memory. The
//    copies are made at once, not when written: fork() returns when the child has them.
// 3. Freed blocks keep their pages for the next allocation, up to 512 MiB in all. Beyond that the
//    pages go back to the kernel. Only then does an address of the arena get other pages; code that
//    knows pages by their physical address (RDMA) watches for that.
//
// Thread safety: all functions. Lock order: the mutex of the watchers (page_supply.h), then the
// arena's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "transports/base/error.h"
#include "transports/base/owned_fd.h"
#include "transports/memory/block_table.h"
#include "transports/memory/fork_copies.h"
#include "transports/memory/page_accounts.h"
#include "transports/memory/page_supply.h"

namespace ringwood {

class Arena final {
 public:
  // This process's arena; null if the kernel refuses it (logged once). A forked child gets its own,
  // new arena.
  static Arena* of_process();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const { return fd_.get(); }
  uint64_t bytes() const { return bytes_; }

  // Aligned to a page, and for a huge page or more to a huge page; or, with `like`, at the same
  // offset within a huge page as `like` (a multiple of a page). Throws Error(system) if the arena
  // is full or memory is short.
  void* allocate(size_t bytes, uintptr_t like = 0);
  // Precondition: from allocate(), and not released yet.
  void release(void* data) noexcept;
  // For a block that a peer may still write to although its operation has ended in an error: its
  // pages are never used again.
  void quarantine(const void* data) noexcept;
  bool in_quarantine(const void* block) noexcept;

  // The block in use that contains all of [data, data + bytes).
  std::optional<BlockTable::Block> block_of(const void* data, size_t bytes) noexcept;

  void watch(PageWatcher& watcher) { supply_.watch(watcher); }
  // When it returns, the watcher is not being called and never will be.
  void unwatch(PageWatcher& watcher) noexcept { supply_.unwatch(watcher); }

  // Permanent. To be called before the first fork that matters. Idempotent.
  void give_copies_to_forks() { copies_.start(); }
  // Excludes a block from that.
  void keep_from_forks(const void* block) noexcept;

  std::byte* at(uint64_t offset) const noexcept { return base_ + offset; }
  // The offset of [data, data + bytes), if it is wholly inside.
  std::optional<uint64_t> offset_of(const void* data, size_t bytes) const noexcept {
    const auto at = reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(base_);
    if (at >= bytes_ || bytes > bytes_ - at) return std::nullopt;
    return at;
  }

 private:
  Arena(OwnedFd fd, std::byte* base, uint64_t bytes);
  static std::unique_ptr<Arena> make();
  uint64_t position(const void* data) const noexcept {
    return static_cast<uint64_t>(static_cast<const std::byte*>(data) - base_);
  }
  void undo(uint64_t at, uint64_t need, const std::vector<Extents::Extent>& fresh) noexcept;

  const OwnedFd fd_;
  std::byte* const base_;
  const uint64_t bytes_;
  const int pid_;
  std::mutex mutex_;  // guards the two tables; not held while the kernel is asked for pages
  BlockTable blocks_;
  PageAccounts pages_;
  PageSupply supply_;
  ForkCopies copies_;
};

}  // namespace ringwood
