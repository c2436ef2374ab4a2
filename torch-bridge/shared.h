// Tensors in the arena (transports/memory/arena.h): the ranks of a host read and write them in
// place, instead of copying them through staging memory.
//
// The storage owns the memory, which goes back when the last tensor on it dies, in any thread. A
// storage that grows allocates here again. Forked children do not have this memory: see arena.h.
//
// Where there is no memory to share, or none left, ordinary memory is used, which is only slower.
// The log says so once, with the remedy.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>
#include <torch/csrc/distributed/c10d/exception.h>

#include <atomic>
#include <cstring>
#include <memory>

#include "transports/base/fork_guard.h"
#include "transports/base/log.h"
#include "transports/memory/arena.h"

namespace ringwood {

enum class NotShared { none, full, no_copies };
inline void tell_once(NotShared why) {
  static std::atomic<unsigned> told{0};
  const unsigned bit = 1U << static_cast<unsigned>(why);
  if (told.fetch_or(bit) & bit) return;
  const char* text = "";
  switch (why) {
    case NotShared::none:
      text =
          "this process can have no memory that other ranks read in place: ordinary memory is used "
          "instead, and its tensors are copied; run without limits of addresses and file sizes "
          "(ulimit -v unlimited; ulimit -f unlimited) and where memfd_create is allowed "
          "(RINGWOOD_LOG=info tells what failed)";
      break;
    case NotShared::full:
      text =
          "the memory that other ranks read in place has no room for some tensors: ordinary memory "
          "is used for them, and they are copied; keep fewer of them alive";
      break;
    case NotShared::no_copies:
      text =
          "large tensors are not shared, because forked processes could get no copies of them: "
          "ordinary memory is used, and they are copied; raise the limit of open files (ulimit -n)";
      break;
  }
  log(LogLevel::warn, "torch", text);
}

class ArenaAllocator final : public c10::Allocator {
 public:
  static ArenaAllocator& instance() {
    static ArenaAllocator allocator;  // has no state: the arena is the process's
    return allocator;
  }
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &forget, cpu};
    Arena* arena = Arena::of_process();
    if (!arena) {
      tell_once(NotShared::none);
      return c10::GetCPUAllocator()->allocate(bytes);
    }
    try {
      auto owned = std::make_unique<Owned>(Owned{arena->allocate(bytes), arena});
      void* const data = owned->data;
      return {data, owned.release(), &release, cpu};
    } catch (const Error&) {
      tell_once(NotShared::full);
      return c10::GetCPUAllocator()->allocate(bytes);
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

// torch's CPU allocator with the large blocks in the arena, so that tensors which a script never
// heard of (the buckets of DDP) need no copies either. Small ones, and what the arena has no room
// for, come from the allocator that was there before. Forked processes get private copies.
class SharingAllocator final : public c10::Allocator {
 public:
  // For good: memory of it may live as long as the process. `least` in bytes.
  static void install(size_t least) {
    Arena* arena = Arena::of_process();
    if (!arena) return tell_once(NotShared::none);
    static SharingAllocator* installed = nullptr;
    if (!installed) {
      try {
        arena->give_copies_to_forks();
      } catch (const Error&) {
        return tell_once(NotShared::no_copies);
      }
      installed = new SharingAllocator(c10::GetCPUAllocator(), *arena);
      c10::SetCPUAllocator(installed, 255);
    }
    installed->min_bytes_ = least;
  }
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes < min_bytes_ || bytes == 0 || forked_since(made_by_)) return before_.allocate(bytes);
    try {
      void* data = arena_.allocate(bytes);
      return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
    } catch (const Error&) {
      tell_once(NotShared::full);
      return before_.allocate(bytes);
    }
  }
  // By address: the arena's range never holds anything else, in forked processes neither.
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* dest, const void* src, std::size_t count) const override {
    std::memcpy(dest, src, count);
  }

 private:
  SharingAllocator(c10::Allocator* before, Arena& arena) : before_(*before), arena_(arena) {
    the_arena() = &arena;
    deleter_before() = before->raw_deleter();
  }
  static Arena*& the_arena() {
    static Arena* arena;
    return arena;
  }
  static c10::DeleterFnPtr& deleter_before() {
    static c10::DeleterFnPtr deleter;
    return deleter;
  }
  static void release(void* data) {
    if (data && the_arena()->offset_of(data, 1))
      the_arena()->release(data);
    else
      deleter_before()(data);
  }

  c10::Allocator& before_;
  Arena& arena_;
  const int made_by_ = current_pid();
  std::atomic<size_t> min_bytes_{0};
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
