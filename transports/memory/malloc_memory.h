// The properties of malloc() that decide which buffers can be remapped (remap.h). Thread safety:
// all functions.
#pragma once

#include <cstdint>

namespace ringwood {

// True if malloc() is known not to rely on MADV_DONTNEED to zero pages. The sanitizers' malloc()
// does so with small blocks only.
bool allocator_is_known();

// True if the address lies in a heap that glibc gives a thread, parts of which are handed out
// again; also if that cannot be found out.
bool of_a_threads_heap(uintptr_t address);

}  // namespace ringwood
