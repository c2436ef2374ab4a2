// Bytes that were read from a socket before there was a buffer for them, or to be read in place.
// 256 KiB, allocated at the first read. Not thread safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

namespace ringwood::tcp {

class ReadAhead final {
 public:
  // Large enough to be worth a system call, small enough that a reduction finds it in L2.
  static constexpr size_t kBytes = size_t{256} << 10;

  bool empty() const { return begin_ == end_; }
  // The content, in the order in which it came. Does not move until room().
  std::span<const std::byte> bytes() const { return {buffer_.get() + begin_, end_ - begin_}; }
  // Precondition: at most bytes().size().
  void take(size_t bytes) { begin_ += bytes; }

  // Space to read up to `most` more bytes into; empty if it is full.
  std::span<std::byte> room(size_t most) {
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<std::byte[]>(kBytes);
    if (begin_ == end_) {
      begin_ = end_ = 0;
    } else if (begin_ > 0 && end_ - begin_ <= begin_) {
      std::memcpy(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    return {buffer_.get() + end_, std::min(most, kBytes - end_)};
  }
  // To be called when `bytes` were read into the room.
  void add(size_t bytes) { end_ += bytes; }

 private:
  std::unique_ptr<std::byte[]> buffer_;
  size_t begin_ = 0, end_ = 0;  // the content
};

}  // namespace ringwood::tcp
