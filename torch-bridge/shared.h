// Tensors in the arena (transports/arena.h): the ranks of a host read and answer them in place,
// instead of copying them through staging memory.
//
// The memory is the storage's own and goes back when the last tensor on it dies, in any thread. A
// storage that grows asks here again. Forked children do not have it at all: see arena.h.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>
#include <torch/csrc/distributed/c10d/exception.h>

#include <cstring>
#include <memory>

#include "transports/arena.h"

namespace ringwood {

class ArenaAllocator final : public c10::Allocator {
 public:
  static ArenaAllocator& instance() {
    static ArenaAllocator allocator;  // has no state: the arena is the process's
    return allocator;
  }
  // Throws where the machine has no memory to share, or none left.
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &forget, cpu};
    Arena* arena = Arena::of_process();
    TORCH_CHECK(arena, "ringwood: this machine gives no memory that ranks can share");
    try {
      auto owned = std::make_unique<Owned>(Owned{arena->allocate(bytes), arena});
      void* const data = owned->data;
      return {data, owned.release(), &release, cpu};
    } catch (const Error& error) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, "ringwood: ", error.cause);
    }
  }
  void copy_data(void* dest, const void* src, std::size_t count) const override {
    std::memcpy(dest, src, count);
  }

 private:
  struct Owned {
    void* data;
    Arena* arena;
  };
  static void forget(void*) {}
  // In a child of fork(), which drops tensors of its parent's arena, that arena does nothing.
  static void release(void* context) {
    const std::unique_ptr<Owned> owned(static_cast<Owned*>(context));
    owned->arena->release(owned->data);
  }
};

// One dimension, uninitialised.
inline at::Tensor shared_tensor(int64_t count, const at::TensorOptions& options) {
  TORCH_CHECK_VALUE(count >= 0, "a tensor of ", count, " elements");
  TORCH_CHECK_VALUE(options.device().is_cpu(), "only CPU tensors can be shared, not those on ",
                    options.device());
  const auto bytes = static_cast<size_t>(count) * options.dtype().itemsize();
  ArenaAllocator& allocator = ArenaAllocator::instance();
  c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, allocator.allocate(bytes), &allocator,
      /*resizable=*/true));
  return at::empty({0}, options).set_(storage, 0, {count}, {1});
}

}  // namespace ringwood
