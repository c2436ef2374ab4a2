// What an operation reads and writes of the user's memory; tells which operations must
// follow each other.
//
// First read() and write() are called, in any order; then sort() once; then conflicts() may be
// called. A plain value; not thread-safe.
#pragma once

#include <cstddef>
#include <vector>

namespace ringwood {

class Footprint final {
 public:
  void read(const void* data, size_t bytes) { add(read_, data, bytes); }
  void write(const void* data, size_t bytes) { add(written_, data, bytes); }
  void clear() {
    read_.clear();
    written_.clear();
    sorted_ = false;
  }
  void sort();
  bool sorted() const { return sorted_; }
  // One of them writes what the other one reads or writes. Precondition: both are sorted.
  bool conflicts(const Footprint& other) const;

 private:
  struct Range {
    const std::byte* begin;
    const std::byte* end;
  };
  using Ranges = std::vector<Range>;
  void add(Ranges& ranges, const void* data, size_t bytes);
  static void sort(Ranges& ranges);
  static bool overlap(const Ranges& a, const Ranges& b);

  Ranges read_, written_;  // once sorted, ascending and disjoint
  bool sorted_ = false;
};

}  // namespace ringwood
