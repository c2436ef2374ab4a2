// What an operation reads and writes of its user's memory, to tell which operations must follow
// each other.
//
// First all is said with read() and write(), in any order; then sort() once; then conflicts() may
// be asked. A plain value of one thread.
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
  // One of them writes what the other one reads or writes. Both are sorted.
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

  Ranges read_, written_;  // once sorted, ascending and apart
  bool sorted_ = false;
};

}  // namespace ringwood
