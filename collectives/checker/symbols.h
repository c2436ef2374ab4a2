// Symbolic contents of memory: which numbers lie at which bytes, and what was done to them.
//
// Part of the checker of plans (checker.h). A Symbol stands for a run of bytes: byte p of the run
// is position `at` + p of expression `id`. So a run can be cut and moved without making new
// expressions, and two runs are equal exactly if their ids and positions are. Expressions are
// hash-consed. The operands of a sum are ordered, so that one id is one tree of additions up to
// commutation, with every scaling, rounding and division in its place.
//
// Positions are bytes of the user's type. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/kernels/wire.h"

namespace ringwood {

struct Symbol {
  uint32_t id = 0;  // 0: not written yet
  int64_t at = 0;
  bool defined() const { return id != 0; }
  bool operator==(const Symbol&) const = default;
};

struct SymbolPiece {
  size_t bytes = 0;
  Symbol what;
  bool operator==(const SymbolPiece&) const = default;
};
// Adjacent pieces; neighbours that continue each other are merged.
using SymbolRun = std::vector<SymbolPiece>;

class Symbols {
 public:
  // The initial contents of a rank's buffer, from byte `offset` on.
  Symbol own(int rank, int buffer, size_t offset);
  Symbol sum(Symbol a, Symbol b);
  Symbol times(Symbol a, double factor);       // a factor of 1 changes nothing
  Symbol times_factor_of(Symbol a, int rank);  // the factor of PREMUL_SUM
  Symbol divided(Symbol a, double divisor);    // a divisor of 1 changes nothing
  Symbol rounded(Symbol a);                    // to the user's type; idempotent
  // What a wire format makes of a message that is all of `run`; idempotent.
  SymbolRun encoded(const SymbolRun& run, WireFormat format);

  std::string print(Symbol symbol) const;  // "(rank 0 buffer 0 byte 64 + ...)", truncated

 private:
  enum class Kind : uint8_t { own, sum, times, times_factor, divided, rounded, bf16, int8, list };
  struct Node {
    Kind kind;
    uint32_t a = 0, b = 0;
    int64_t x = 0, y = 0;  // positions of a and b, or a number
    bool operator==(const Node&) const = default;
  };
  struct Hash {
    size_t operator()(const Node& node) const;
  };
  uint32_t make(const Node& node);
  const Node& node(uint32_t id) const { return nodes_[id - 1]; }
  void print(Symbol symbol, int& terms, std::string& text) const;

  std::vector<Node> nodes_;
  std::unordered_map<Node, uint32_t, Hash> known_;
};

// One buffer.
class SymbolMemory {
 public:
  SymbolMemory() = default;
  SymbolMemory(size_t bytes, Symbol at_first);
  size_t bytes() const { return bytes_; }
  // Precondition of both: the range is within the buffer.
  SymbolRun read(size_t begin, size_t bytes) const;
  void write(size_t begin, const SymbolRun& run);

 private:
  struct Part {
    size_t begin;
    Symbol what;
  };
  size_t part_of(size_t at) const;  // index of the part that contains byte `at`
  size_t bytes_ = 0;
  std::vector<Part> parts_;  // ascending, the first begins at 0
};

size_t bytes_of(const SymbolRun& run);
bool defined(const SymbolRun& run);
// Calls f(a, b) for the pieces of both runs, cut at the ends of either's pieces.
template <class Function>
SymbolRun combined(const SymbolRun& a, const SymbolRun& b, Function f);
// Applies f to each piece.
template <class Function>
SymbolRun mapped(SymbolRun run, Function f) {
  for (SymbolPiece& piece : run) piece.what = f(piece.what);
  return run;
}
void append(SymbolRun& run, SymbolPiece piece);

template <class Function>
SymbolRun combined(const SymbolRun& a, const SymbolRun& b, Function f) {
  SymbolRun result;
  for (size_t i = 0, j = 0, done_a = 0, done_b = 0; i < a.size() && j < b.size();) {
    const size_t bytes = std::min(a[i].bytes - done_a, b[j].bytes - done_b);
    const Symbol x{a[i].what.id, a[i].what.at + static_cast<int64_t>(done_a)};
    const Symbol y{b[j].what.id, b[j].what.at + static_cast<int64_t>(done_b)};
    append(result, {bytes, f(x, y)});
    done_a += bytes;
    done_b += bytes;
    if (done_a == a[i].bytes) ++i, done_a = 0;
    if (done_b == b[j].bytes) ++j, done_b = 0;
  }
  return result;
}

}  // namespace ringwood
