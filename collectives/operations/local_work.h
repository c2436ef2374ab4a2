// What an operation does to memory outside its plan: copies, scalings, and functions of the caller,
// one after the other.
//
// Copies and scalings are carried out slice by slice, so that an operation of high priority does
// not wait for a large one's. A single copy, which is the usual case, allocates nothing. Not
// thread-safe: the caller until submission, then the driver.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "collectives/kernels/data_types.h"

namespace ringwood {

class LocalWork final {
 public:
  // About 0.1 to 0.2 ms of a core.
  static constexpr size_t kSliceBytes = size_t{1} << 20;

  // Each is added at the end.
  void copy(void* to, const void* from, size_t bytes);
  // to[i] = from[i] * factor.
  void copy_scaled(void* to, const void* from, size_t count, DataType type, double factor);
  // What lies at `*data` when this is carried out, which lives until then.
  void scale(void* const* data, size_t count, DataType type, double factor);
  void call(std::function<void()> function);
  // This one before all others.
  void call_first(std::function<void()> function);

  bool empty() const { return count_ == 0; }
  bool done() const { return next_ == count_; }
  // The next slice. Precondition: not done().
  void step();
  // All of it is to be done again.
  void rewind() {
    next_ = 0;
    at_ = 0;
  }
  void clear() {
    if (count_ > 0) clear_all();
  }
  // Where the first copy goes; null: there is none.
  void* copied_to() const;

 private:
  struct Slices {
    void* to = nullptr;
    void* const* at = nullptr;   // instead of `to`
    const void* from = nullptr;  // null: in place
    size_t bytes = 0;
    bool scales = false;
    DataType type = DataType::uint8;
    double factor = 1;
  };
  struct Item {
    Slices slices;
    std::function<void()> function;  // or these slices
  };

  void add(const Slices& slices);
  void clear_all();
  // False: there is more.
  bool run(const Slices& slices);

  Slices only_;              // where count_ is 1 and items_ is empty
  std::vector<Item> items_;  // else all of them
  size_t count_ = 0;
  size_t next_ = 0;  // the one that is being carried out
  size_t at_ = 0;    // bytes of it that are done
};

}  // namespace ringwood
