// What malloc() does with memory, where it decides which buffers can be remapped (remap.h).
// Thread safety: all functions.
#pragma once

#include <cstdint>

namespace ringwood {

// malloc() is one that does not take pages for zeros because it has given them to MADV_DONTNEED.
// The sanitizers' do that with small blocks only.
bool allocator_is_known();

// The address lies in the heap that glibc gives a thread: parts of it are handed out again. True
// also where that cannot be found out.
bool of_a_threads_heap(uintptr_t address);

}  // namespace ringwood
