#include "collectives/executors/scratch.h"

#include <sys/mman.h>

#include <fmt/format.h>

namespace ringwood {
namespace {

// Straight from the kernel, in huge pages where available: the first touch of a small page costs
// more than the reduction that will use it.
void* map_pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    throw Error(ErrorCode::system, fmt::format("no memory for {} bytes of scratch: {}", bytes,
                                               system_message("mmap")));
  madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

void* map_pages_in(Arena* arena, size_t bytes) {
  try {
    if (arena) return arena->allocate(bytes);
  } catch (const Error&) {  // ordinary memory will do: it is copied when sent
  }
  return map_pages(bytes);
}

}  // namespace

Scratch::~Scratch() {
  give_data_back();
  if (wide_) munmap(wide_, wide_bytes_);
}

void Scratch::give_data_back() noexcept {
  if (!data_) return;
  if (arena_ && arena_->offset_of(data_, bytes_))
    arena_->release(data_);
  else
    munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

void Scratch::grow_data(size_t bytes) {
  give_data_back();
  data_ = static_cast<std::byte*>(map_pages_in(arena_, bytes));
  bytes_ = bytes;
}

void Scratch::grow_wide(size_t bytes) {
  void* fresh = map_pages(bytes);
  if (wide_) munmap(wide_, wide_bytes_);
  wide_ = static_cast<std::byte*>(fresh);
  wide_bytes_ = bytes;
}

}  // namespace ringwood
