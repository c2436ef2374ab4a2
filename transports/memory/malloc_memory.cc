#include "transports/memory/malloc_memory.h"

#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <iterator>
#include <string_view>

namespace ringwood {

bool allocator_is_known() {
  static constexpr std::string_view kKnown[] = {"libc.so", "libasan.so", "libtsan.so"};
  Dl_info info{};
  void* const malloc_here = ::dlsym(RTLD_DEFAULT, "malloc");
  if (!malloc_here || ::dladdr(malloc_here, &info) == 0 || !info.dli_fname) return false;
  std::string_view name = info.dli_fname;
  name = name.substr(name.rfind('/') + 1);
  return std::any_of(std::begin(kKnown), std::end(kKnown),
                     [&](std::string_view known) { return name.starts_with(known); });
}

// Heaps of threads begin at multiples of 64 MiB with a pointer to their arena, which lies behind
// the head of the same or another heap, then the previous heap, and the size.
bool of_a_threads_heap(uintptr_t address) {
  constexpr uintptr_t kPage = 4096;
  constexpr uintptr_t kHeap = uintptr_t{64} << 20;
  constexpr uintptr_t kLongestHead = 128;
  uintptr_t head[3];
  const iovec here{head, sizeof head};
  const iovec there{std::bit_cast<void*>(address & ~(kHeap - 1)), sizeof head};
  // Not read directly: the memory may belong to other code and be unmapped at any moment.
  if (::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) != sizeof head) return errno != EFAULT;
  const bool arena = head[0] != 0 && head[0] % kHeap != 0 && head[0] % kHeap <= kLongestHead;
  return arena && head[1] % kHeap == 0 && head[2] <= kHeap && head[2] % kPage == 0;
}

}  // namespace ringwood
