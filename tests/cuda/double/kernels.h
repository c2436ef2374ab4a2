// Kernels as host code: where they come from, and a launch of one.
#pragma once

#include <cstddef>
#include <new>

#include "tests/cuda/double/host_kernel.h"

namespace fake_cuda {

// Aligned bytes with one owner.
class Bytes {
 public:
  Bytes(size_t bytes, size_t alignment)
      : alignment_(alignment), data_(::operator new(bytes, std::align_val_t(alignment))) {}
  Bytes(const Bytes&) = delete;
  ~Bytes() { ::operator delete(data_, std::align_val_t(alignment_)); }
  void* get() const { return data_; }

 private:
  const size_t alignment_;
  void* const data_;
};

// Null: no library was named, or it has no such kernel.
const HostKernel* host_kernel(const char* name);

// Returns when all blocks are done.
void run_blocks(const HostKernel& kernel, const void* parameters, unsigned blocks,
                unsigned threads);

}  // namespace fake_cuda
