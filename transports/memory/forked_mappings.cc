#include "transports/memory/forked_mappings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <memory>

#include "transports/base/fork_guard.h"
#include "transports/link_parts.h"

namespace ringwood {
namespace {

struct CopiedFile {
  const FileId file;
  const int pid = current_pid();
};
std::atomic<CopiedFile*> copied{nullptr};  // never destroyed
thread_local ForkHandover handover;

CopiedFile* of_this_process() {
  CopiedFile* const seen = copied.load(std::memory_order_acquire);
  return seen && !forked_since(seen->pid) ? seen : nullptr;
}

std::byte* pointer(uintptr_t address) { return std::bit_cast<std::byte*>(address); }

// For a mapping that the child has inherited; no other thread runs here.
bool make_private(const Mapping& shared) noexcept {
  const size_t bytes = shared.end - shared.begin;
  if (!shared.readable) return ::munmap(pointer(shared.begin), bytes) == 0;
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return false;
  // Not memcpy: parts of it may have been freed, which address sanitizers would report.
  copy_across(static_cast<std::byte*>(pages), pointer(shared.begin), bytes);
  return ::mremap(pages, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(shared.begin)) !=
         MAP_FAILED;
}

bool make_private(const FileId& file) noexcept {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return false;
  bool all = true;
  for (auto next = ProcessMaps::next_shared(maps, 0); next && all;
       next = ProcessMaps::next_shared(maps, next->end))
    if (next->file == file) all = make_private(*next);
  ::close(maps);
  return all;
}

void before_fork() {
  if (of_this_process()) handover.before_fork();
}

void after_fork_in_parent() { handover.wait_for_child(); }

void after_fork_in_child() {
  const CopiedFile* const inherited = copied.exchange(nullptr);
  if (!inherited) return;
  if (!make_private(inherited->file)) {
    constexpr char kWhy[] = "ringwood: no memory for a forked process's copy of remapped buffers\n";
    (void)!::write(2, kWhy, sizeof kWhy - 1);
    ::_exit(71);
  }
  handover.done_in_child();
}

}  // namespace

bool copy_mappings_to_forks(const FileId& file) {
  static const int installed =
      ForkHandover::install(&before_fork, &after_fork_in_parent, &after_fork_in_child);
  if (installed != 0) return false;
  if (of_this_process()) return true;
  auto fresh = std::make_unique<CopiedFile>(CopiedFile{file});
  CopiedFile* none = nullptr;
  if (copied.compare_exchange_strong(none, fresh.get())) (void)fresh.release();
  return true;
}

}  // namespace ringwood
