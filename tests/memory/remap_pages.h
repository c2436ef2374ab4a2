// Pages from the kernel, with known contents, for the tests of remapped buffers.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "transports/memory/remap.h"

namespace ringwood {

inline constexpr size_t kPage = 4096;

// `pages` pages, inside of which a buffer begins 100 bytes late and ends 200 bytes early.
class Pages {
 public:
  explicit Pages(size_t pages, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1)
      : bytes_(pages * kPage),
        base_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, fd, 0))) {
    if (base_ == MAP_FAILED) throw std::runtime_error("mmap");
  }
  ~Pages() { ::munmap(base_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* base() const { return base_; }
  size_t all() const { return bytes_; }
  std::byte* data() const { return base_ + 100; }
  size_t bytes() const { return bytes_ - 300; }
  void fill(unsigned seed) const {
    for (size_t i = 0; i < bytes_; ++i) base_[i] = value(seed, i);
  }
  bool contains(unsigned seed) const {
    for (size_t i = 0; i < bytes_; ++i)
      if (base_[i] != value(seed, i)) return false;
    return true;
  }
  static std::byte value(unsigned seed, size_t i) {
    return static_cast<std::byte>((i + seed) * 2654435761u >> 13);
  }

 private:
  const size_t bytes_;
  std::byte* const base_;
};

// What a peer would see of a message: null where it is copied instead.
inline std::byte* peers_view(const void* data, size_t bytes) {
  const auto exposed = RemappedMemory::current()->expose(data, bytes);
  return exposed ? Arena::of_process()->at(exposed->offset) : nullptr;
}

// Skips, where the kernel or malloc() forbid it.
class RemapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RemappedMemory::of_process()) GTEST_SKIP() << "nothing can be remapped here";
  }
  RemappedMemory& remapped() { return *RemappedMemory::of_process(); }
};

}  // namespace ringwood
