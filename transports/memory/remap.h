// Turns private buffers into shared memory in place (RINGWOOD_REMAP).
//
// A buffer that operations use again and again gets the pages of a block of the arena (arena.h)
// under its own address: the bytes are copied there, and the block is mapped over the whole pages
// of the buffer. From then on the host's ranks read it in place and put into it, like any other
// memory of the arena. The bytes before the first and behind the last whole page stay in place,
// because their pages belong to other data too. The block has a page for each side, their shadows,
// through which they travel, so that to a peer the buffer is in one piece
// (memory/remapped_buffers.h has the picture).
//
// When it is safe, and why
//   1. Only an operation that owns the buffer remaps it: nothing may write to it meanwhile, readers
//      (other operations among them) see the same bytes before and after, and the switch is one
//      system call (memory/remapper.h).
//   2. Only ordinary pages are remapped (ProcessMaps::ordinary). All failures (no memory, no room
//      in the arena, too many mappings) leave the buffer as it was.
//   3. The user may do anything with the address later: free(), munmap(), brk(), realloc(), another
//      mapping on top. So each expose() asks the kernel whether the block is still mapped there,
//      page for page, and a message whose memory is not is copied.
//   4. A block is reused, or its memory given back, when no message in it is exposed and the kernel
//      knows of no mapping of it at any address (memory/retired_blocks.h). remap() looks for such
//      blocks, and used() once a second; until then, freed memory stays allocated.
//   5. Forks: a child gets private copies of all mappings of the arena's file, wherever they are
//      (memory/forked_mappings.h). Of malloc()'s memory only blocks that it has mapped one by one
//      are remapped, not its heaps: parts of a heap are handed out again, and code that runs
//      earlier in a child uses such memory.
//   6. A buffer that overlaps a remapped one without lying within it gets a block of its own.
//   7. Nothing is reverted when a group ends, which owns no buffer by then, and other groups may
//      use it. Only memory that a stopped peer might still write to is reverted (withdraw()).
//
// What cannot be made safe, hence off by default
//   - madvise(MADV_DONTNEED) leaves the bytes of shared memory as they are, instead of zeroing
//     them. glibc does not rely on zeros; other allocators do, so with them nothing is remapped; a
//     program that does it to its own buffers must not use this.
//   - Pages that a device knows by their physical address (RDMA registration, cudaHostRegister,
//     fixed buffers of io_uring) without a trace in the mapping. Buffers registered later are fine.
//   - A thread's stack without a guard below that shows as a mapping (glibc 2.42 and later).
//   - A child made without the fork handlers (clone(), _Fork()) shares the pages with its parent
//     until it calls exec(): it must not write.
//   - mremap() of a buffer by another thread, twice, during one look of (4).
//   - A child's copies are made at once, not when written: fork() takes longer by what it copies.
//
// There is one per process, like the arena. Thread safety: all functions. Lock order: changing_,
// then the mutex of the table of buffers; edges_ by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "transports/base/clock.h"
#include "transports/base/fork_guard.h"
#include "transports/memory/arena.h"
#include "transports/memory/remap_candidates.h"
#include "transports/memory/remapped_buffers.h"
#include "transports/memory/remapper.h"
#include "transports/memory/retired_blocks.h"

namespace ringwood {

class RemappedMemory final {
 public:
  // This process's, made at the first call; null if that is impossible (logged once).
  static RemappedMemory* of_process();
  // Null: of_process() has not been called in this process.
  static RemappedMemory* current() noexcept;
  RemappedMemory(const RemappedMemory&) = delete;
  RemappedMemory& operator=(const RemappedMemory&) = delete;

  // An operation that owns [data, data + bytes) is about to begin. Remaps the buffer at the third
  // time, and after ever more uses if remapped buffers do not last.
  void used(const void* data, size_t bytes) noexcept;
  // Remaps at once. Precondition: the caller owns the buffer. False: it stays as it was.
  bool remap(const void* data, size_t bytes) noexcept;

  // A piece of the buffer's edge, and its shadow.
  struct Edge {
    std::byte* own = nullptr;
    std::byte* shadow = nullptr;
    size_t bytes = 0;
  };
  struct Exposed {
    uint64_t offset = 0;               // in the arena
    std::shared_ptr<const void> hold;  // held while a peer may read or write there
    Edge edges[2];                     // empty ones included
  };
  // Exposes memory that lies wholly in a remapped buffer, for peers to read or put into. Its edges
  // have been copied to their shadows; what a peer writes to a shadow must be copied back.
  std::optional<Exposed> expose(const void* data, size_t bytes) noexcept;

  // True if it was remapped in this process, whatever has become of it. No system call.
  static bool knows(const void* data, size_t bytes) noexcept;

  // Gives the owner of the buffer private pages, with the same bytes, wherever the arena's are in
  // quarantine.
  void withdraw(const void* data, size_t bytes) noexcept;
  // Forgets buffers that are no longer in place, and gives back blocks that are mapped nowhere.
  void collect() noexcept;

 private:
  explicit RemappedMemory(Arena& arena) : arena_(arena), remapper_(arena) {}
  bool remap_locked(uintptr_t begin, uintptr_t end) noexcept;
  void collect_locked();
  Edge edge(const RemappedBuffer& buffer, uintptr_t begin, uintptr_t end) const;

  Arena& arena_;
  const Remapper remapper_;
  const int pid_ = current_pid();
  RemappedBuffers buffers_;

  std::mutex changing_;  // held to remap, withdraw and collect, one at a time
  RemapCandidates candidates_;
  Clock::time_point collected_ = Clock::now();
  RetiredBlocks retired_;

  std::mutex edges_;  // held while edges are copied to their shadows
};

}  // namespace ringwood
