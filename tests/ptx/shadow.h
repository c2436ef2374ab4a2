// The race detector of weak accesses to one range of memory.
//
// For every four bytes a cell holds the last write and the reads since (an epoch, or several where
// they are unordered among each other). An access that is unordered with another one, of which one
// writes, is a race. Cells that are accessed in parts, or that strong words lie on, are split into
// bytes. Memory that nobody has ever touched costs nothing.
//
// Conflicts are thrown as Conflict, which Memory makes a Fault with names. One thread at a time.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/ptx/clock.h"

namespace ringwood::ptx {

struct Conflict {
  Fault::Kind kind = Fault::race;
  const char* what = "";
  Epoch other = 0;
  uint32_t line = 0;  // of the other's access
};

// An access as the detector wants it.
struct Touch {
  uint64_t address = 0;
  uint32_t bytes = 0;
  bool writes = false;
  uint32_t line = 0;  // 0: not of a kernel
};

// An earlier access that is remembered.
struct Trace {
  Epoch epoch = 0;
  uint32_t line = 0;
};

class Shadow {
 public:
  // `written`: the range has values already; otherwise a read before a write is an error.
  Shadow(uint64_t base, uint64_t bytes, bool written);

  // A weak access. Strong words that it meets are appended to `words`, each once.
  void access(const Agent& agent, const Touch& touch, std::vector<uint32_t>& words);

  // Strong words that lie, wholly or in part, on the four bytes at the address; null: none.
  const std::vector<uint32_t>* words_at(uint64_t address) const;
  void attach(uint32_t word, uint64_t address, uint32_t bytes);
  // Weak accesses to these bytes that may still matter.
  void collect(uint64_t address, uint32_t bytes, std::vector<Trace>& writes,
               std::vector<Trace>& reads) const;
  bool is_written(uint64_t address, uint32_t bytes) const;
  void set_written(uint64_t address, uint32_t bytes);
  uint64_t checked() const { return checked_; }

 private:
  // A tag in its highest bit makes `write` an index of specials_, and `read` one of readers_.
  struct Cell {
    Epoch write, read;
    uint32_t write_line, read_line;
  };
  struct Special {
    Cell bytes[4];
    uint8_t written;
    std::vector<uint32_t> words;
  };
  static constexpr uint64_t kTag = uint64_t{1} << 63;

  Cell& cell_at(uint64_t address) const { return cells_.get()[(address - base_) / 4]; }
  Special& special(Cell& cell);
  const Special* special_of(const Cell& cell) const;
  void access_cell(Cell& cell, const Agent& agent, const Touch& touch);
  void read_cell(Cell& cell, const Agent& agent, uint32_t line);
  void write_cell(Cell& cell, const Agent& agent, uint32_t line);
  void access_special(Cell& cell, uint64_t first, const Agent& agent, const Touch& touch,
                      std::vector<uint32_t>& words);

  struct Free {
    void operator()(Cell* cells) const { std::free(cells); }
  };
  uint64_t base_;
  bool written_;
  std::unique_ptr<Cell, Free> cells_;
  std::vector<Special> specials_;
  std::vector<std::vector<Trace>> readers_;
  std::vector<uint32_t> free_readers_;
  uint64_t checked_ = 0;
};

}  // namespace ringwood::ptx
