// Work of an operation that is not in its plan: copies, scalings, and functions of the caller, in
// the order in which they were added.
//
// Copies and scalings are carried out slice by slice, so that a high-priority operation never waits
// for a whole large copy. A function runs in one step, and so does a copy onto memory that overlaps
// its source. A single copy, which is the usual case, allocates nothing. Not thread-safe: used by
// the calling thread until submission, then by the driver.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#include "collectives/kernels/data_types.h"

namespace ringwood {

class LocalWork final {
 public:
  // A slice, which takes a core 0.1 to 0.2 ms.
  static constexpr size_t kSliceBytes = size_t{1} << 20;

  // Each is added at the end.
  void copy(void* to, const void* from, size_t bytes) {
    if (count_ > 0 || bytes == 0) return add({.to = to, .from = from, .bytes = bytes});
    only_.to = to;
    only_.at = nullptr;
    only_.from = from;
    only_.bytes = bytes;
    only_.scales = false;
    count_ = 1;
  }
  // to[i] = from[i] * factor.
  void copy_scaled(void* to, const void* from, size_t count, DataType type, double factor);
  // Scales the buffer that *data points to when this runs. `data` stays valid until then.
  void scale(void* const* data, size_t count, DataType type, double factor);
  void call(std::function<void()> function);
  // Like call(), but runs before everything added so far.
  void call_first(std::function<void()> function);

  bool empty() const { return count_ == 0; }
  bool done() const { return next_ == count_; }
  // The next slice. Precondition: not done().
  void step() {
    const bool small = items_.empty() && !only_.scales && only_.bytes <= kSmallBytes;
    if (!small) return step_in_slices();
    std::memmove(only_.to, only_.from, only_.bytes);
    next_ = 1;
  }
  // Starts again from the first item.
  void rewind() {
    next_ = 0;
    at_ = 0;
  }
  void clear() {
    if (count_ == 0) return;
    count_ = 0;
    rewind();
    if (!items_.empty()) items_.clear();
  }
  // Where the first copy goes; null: there is none.
  void* copied_to() const;

 private:
  static constexpr size_t kSmallBytes = size_t{64} << 10;

  struct Slices {
    void* to = nullptr;
    void* const* at = nullptr;   // if not null: *at, as it is when this runs, instead of `to`
    const void* from = nullptr;  // null: in place
    size_t bytes = 0;
    bool scales = false;
    DataType type = DataType::uint8;
    double factor = 1;
  };
  struct Item {
    Slices slices;
    std::function<void()> function;  // if set, it runs instead of `slices`
  };

  void add(const Slices& slices);
  void step_in_slices();
  // False: there is more.
  bool run(const Slices& slices);

  Slices only_;              // the only item, if items_ is empty and count_ is 1
  std::vector<Item> items_;  // else all items
  size_t count_ = 0;
  size_t next_ = 0;  // the one that is being carried out
  size_t at_ = 0;    // bytes of it that are done
};

}  // namespace ringwood
