// The writes posted to the send queue of a queue pair that are not known to have completed. Writes
// complete in order, and not all are signalled: a completion stands for all writes before it.
//
// Not thread safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "transports/link_parts.h"

namespace ringwood::verbs {

class PostedWrites final {
 public:
  // A write of so many bytes is accounted and signalled by itself; of smaller ones, the last of a
  // row stands for all.
  static constexpr uint32_t kLargeBytes = 4096;
  static constexpr uint64_t kSignalEvery = 16;

  uint64_t next() const { return posted_ + 1; }  // the number of the next write
  bool signals_next(uint32_t bytes) const {
    return bytes >= kLargeBytes || posted_ + 1 - signalled_ >= kSignalEvery;
  }
  uint64_t add(uint32_t bytes, bool signalled) {
    ++posted_;
    if (signalled) signalled_ = posted_;
    if (bytes >= kLargeBytes) {
      large_.push({posted_, bytes});
      bytes_ += bytes;
    }
    return posted_;
  }
  void complete(uint64_t number) {
    completed_ = std::max(completed_, number);
    for (; !large_.empty() && large_.front().number <= completed_; large_.pop())
      bytes_ -= large_.front().bytes;
  }

  bool completed(uint64_t number) const { return completed_ >= number; }
  bool any_completed() const { return completed_ > 0; }
  uint64_t open() const { return posted_ - completed_; }
  size_t open_bytes() const { return bytes_; }

 private:
  struct Large {
    uint64_t number;
    size_t bytes;
  };
  uint64_t posted_ = 0, completed_ = 0, signalled_ = 0;
  Fifo<Large> large_;  // accounted in bytes_
  size_t bytes_ = 0;
};

}  // namespace ringwood::verbs
