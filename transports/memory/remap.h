// Private buffers turned into shared memory where they lie (RINGWOOD_REMAP).
//
// A buffer that operations use again and again gets the pages of a block of the arena (arena.h)
// under its own address: the bytes are copied there, and the block is mapped over the whole pages
// of the buffer. From then on the host's ranks read and answer it in place, like any other memory
// of the arena. The bytes before the first and behind the last whole page stay where they are,
// because their pages belong to others too; the block has a page for each side, their shadows,
// through which they travel, so that to a peer the buffer is in one piece (the picture is in
// memory/remapped_buffers.h).
//
// When it is safe, and why
//   1. Only an operation that owns the buffer remaps it: nobody may write to it meanwhile, readers
//      (other operations among them) see the same bytes before and after, and the switch is one
//      system call (memory/remapper.h).
//   2. Only ordinary pages are taken (ProcessMaps::ordinary). All failures (no memory, no room in
//      the arena, too many mappings) leave the buffer as it was.
//   3. What becomes of the address later is its user's affair: free(), munmap(), brk(), realloc(),
//      another mapping on top. So nothing is believed: each expose() asks the kernel whether the
//      block still lies there, page for page, and a message whose memory does not is copied.
//   4. A block is used again, or its memory given back, when no message is lent from it and the
//      kernel knows of no mapping of it at any address (memory/retired_blocks.h): looked for by
//      remap() and once a second by used(). So what is freed stays taken until the next such call.
//   5. Forks: a child gets private copies of all that lies in the arena's file, wherever that is by
//      then (memory/forked_mappings.h). Nothing is taken of malloc()'s heaps, only of blocks that
//      it has mapped one by one: parts of a heap are handed out again, and what runs earlier in a
//      child uses such memory.
//   6. A buffer that overlaps a remapped one without lying within it gets a block of its own.
//   7. Nothing is turned back when a group ends, which owns no buffer by then, and other groups may
//      use it. Only what a stopped peer might still write to is turned back (withdraw()).
//
// What cannot be made safe, hence off by default
//   - madvise(MADV_DONTNEED) leaves the bytes of shared memory as they are, instead of zeros. glibc
//     does not count on zeros; other allocators do, so there nothing is remapped; a program that
//     does it to its own buffers must not use this.
//   - Pages that a device knows by their physical place (RDMA registration, cudaHostRegister, fixed
//     buffers of io_uring) without a trace in the mapping. Buffers registered later are fine.
//   - A thread's stack without a guard below that shows as a mapping (glibc 2.42 and later).
//   - A child made without the handlers of fork() (clone(), _Fork()) shares the pages with its
//     parent until it calls exec(): it must not write.
//   - mremap() of a buffer by another thread, twice, just while (4) looks.
//   - A child's copies are made at once, not when written: fork() takes longer by what it copies.
//
// One per process, like the arena. Thread safety: all functions. Lock order: changing_, then that
// of the table of buffers; edges_ by itself.
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
  // This process's, made at the first call; null where that cannot be (told once in the log).
  static RemappedMemory* of_process();
  // Null: nobody has asked for it in this process.
  static RemappedMemory* current() noexcept;
  RemappedMemory(const RemappedMemory&) = delete;
  RemappedMemory& operator=(const RemappedMemory&) = delete;

  // An operation that owns [data, data + bytes) is about to begin. Remaps it at the third time, and
  // ever more reluctantly where remapped buffers do not last.
  void used(const void* data, size_t bytes) noexcept;
  // At once. Precondition: the caller owns the buffer. False: it stays as it was.
  bool remap(const void* data, size_t bytes) noexcept;

  // A piece of the buffer's edge, and its shadow.
  struct Edge {
    std::byte* own = nullptr;
    std::byte* shadow = nullptr;
    size_t bytes = 0;
  };
  struct Exposed {
    uint64_t offset = 0;               // in the arena
    std::shared_ptr<const void> hold;  // while a peer may read or write there
    Edge edges[2];                     // empty ones included
  };
  // Where peers can read, or answer, what lies wholly in a remapped buffer: its edges have been
  // copied to their shadows, and what a peer writes to a shadow is to be copied back.
  std::optional<Exposed> expose(const void* data, size_t bytes) noexcept;

  // Whether it was remapped in this process, whatever has become of it. No system call.
  static bool knows(const void* data, size_t bytes) noexcept;

  // Gives the owner of the buffer private pages, with the same bytes, where the arena's are in
  // quarantine.
  void withdraw(const void* data, size_t bytes) noexcept;
  // Forgets what does not lie where it did, and gives back what nobody has mapped.
  void collect() noexcept;
  // Bytes of blocks in use; for tests.
  size_t bytes_held() noexcept;

 private:
  explicit RemappedMemory(Arena& arena) : arena_(arena), remapper_(arena) {}
  bool remap_locked(uintptr_t begin, uintptr_t end) noexcept;
  void collect_locked();
  Edge edge(const RemappedBuffer& buffer, uintptr_t begin, uintptr_t end) const;

  Arena& arena_;
  const Remapper remapper_;
  const int pid_ = current_pid();
  RemappedBuffers buffers_;

  std::mutex changing_;  // one at a time remaps, withdraws, collects
  RemapCandidates candidates_;
  Clock::time_point collected_ = Clock::now();
  RetiredBlocks retired_;

  std::mutex edges_;  // while they are copied to their shadows
};

}  // namespace ringwood
