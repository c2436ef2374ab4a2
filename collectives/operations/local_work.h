// Work of an operation that is not in its plan: copies, scalings, and functions of the caller, in
// the order in which they were added.
//
// Copies and scalings are carried out slice by slice, so that a high-priority operation never waits
// for a whole large copy. A function runs in one step, and so does a copy onto memory that overlaps
// its source. A single copy, which is the usual case, allocates nothing. A plain value: whoever
// carries it out keeps how far that is.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "collectives/kernels/data_types.h"

namespace ringwood {

class LocalWork final {
 public:
  // A slice, which takes a core 0.1 to 0.2 ms.
  static constexpr size_t kSliceBytes = size_t{1} << 20;

  // How far it has been carried out.
  struct Progress {
    size_t item = 0;   // the one that is being carried out
    size_t bytes = 0;  // of it that are done
  };

  // Each is added at the end.
  void copy(void* to, const void* from, size_t bytes) {
    if (count_ > 0 || bytes == 0) return add({.to = to, .from = from, .bytes = bytes});
    only_.to = to;
    only_.buffer = kNoBuffer;
    only_.from = from;
    only_.bytes = bytes;
    only_.scales = false;
    count_ = 1;
  }
  // to[i] = from[i] * factor.
  void copy_scaled(void* to, const void* from, size_t count, DataType type, double factor);
  // Scales the buffer of that number.
  void scale(int buffer, size_t count, DataType type, double factor);
  void call(std::function<void()> function);
  // Like call(), but runs before everything added so far.
  void call_first(std::function<void()> function);

  bool empty() const { return count_ == 0; }
  bool done(const Progress& progress) const { return progress.item == count_; }
  // Carries out the next slice. `buffers`: of the operation, as numbered in scale(). Precondition:
  // not done().
  void step(Progress& progress, std::span<void* const> buffers) const {
    const bool small = items_.empty() && !only_.scales && only_.bytes <= kSmallBytes;
    if (!small) return step_in_slices(progress, buffers);
    std::memmove(only_.to, only_.from, only_.bytes);
    progress.item = 1;
  }
  void clear() {
    if (count_ == 0) return;
    count_ = 0;
    if (!items_.empty()) items_.clear();
  }
  // Where the first copy goes; null: there is none.
  void* copied_to() const;

 private:
  static constexpr size_t kSmallBytes = size_t{64} << 10;
  static constexpr int kNoBuffer = -1;

  struct Slices {
    void* to = nullptr;
    int buffer = kNoBuffer;      // if there is one: it, instead of `to`
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
  void step_in_slices(Progress& progress, std::span<void* const> buffers) const;

  Slices only_;              // the only item, if items_ is empty and count_ is 1
  std::vector<Item> items_;  // else all items
  size_t count_ = 0;
};

}  // namespace ringwood
