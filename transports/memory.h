// A Region is a piece of memory that a transport may send from and receive into; it gives its
// registration back when it dies. Movable, not copyable.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace ringwood {

enum class MemoryKind { host, cuda };

class Region final {
 public:
  Region() = default;
  Region(void* data, size_t bytes, MemoryKind kind = MemoryKind::host,
         std::function<void()> release = {})
      : data_(data), bytes_(bytes), kind_(kind), release_(std::move(release)) {}
  Region(Region&& other) noexcept { swap(other); }
  Region& operator=(Region&& other) noexcept {
    Region(std::move(other)).swap(*this);
    return *this;
  }
  ~Region() {
    if (release_) release_();
  }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  MemoryKind kind() const { return kind_; }

 private:
  void swap(Region& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(kind_, other.kind_);
    release_.swap(other.release_);
  }
  void* data_ = nullptr;
  size_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::host;
  std::function<void()> release_;
};

}  // namespace ringwood
