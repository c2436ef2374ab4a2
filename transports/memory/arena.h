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
// who knows pages by their physical place (RDMA) watches for that.
//
// Thread safety: all functions. Lock order: that of the watchers (page_supply.h), then the arena's.
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

  // The one in use that [data, data + bytes) lies wholly in.
  std::optional<BlockTable::Block> block_of(const void* data, size_t bytes) noexcept;

  void watch(PageWatcher& watcher) { supply_.watch(watcher); }
  // When it returns, the watcher is not being told and never will be.
  void unwatch(PageWatcher& watcher) noexcept { supply_.unwatch(watcher); }

  // For good, and before the first fork that matters. Idempotent.
  void give_copies_to_forks() { copies_.start(); }
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
  uint64_t position(const void* data) const noexcept {
    return static_cast<uint64_t>(static_cast<const std::byte*>(data) - base_);
  }
  void undo(uint64_t at, uint64_t need, const std::vector<Extents::Extent>& fresh) noexcept;

  const OwnedFd fd_;
  std::byte* const base_;
  const uint64_t bytes_;
  const int pid_;
  std::mutex mutex_;  // of the two tables; not held while the kernel is asked for pages
  BlockTable blocks_;
  PageAccounts pages_;
  PageSupply supply_;
  ForkCopies copies_;
};

}  // namespace ringwood
