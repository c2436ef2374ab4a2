// A second opinion on schedules: carries them out with real numbers, by brute force.
//
// Shares nothing with graph.h and verify.h, and knows no segments. Every rank's steps run in a
// random order that the text of schedule.h allows (an earlier step that touches the same chunk, or
// is of the same link and direction, goes first); a send happens only together with its receive.
// Chunk sizes are random within what the collective lets vary. Each element has an exact part, a
// 64-bit number whose sums show what was added how often, and a float, whose bits show the order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood::testing {

class Interpreter {
 public:
  Interpreter(Collective collective, const std::vector<Schedule>& all, int root, uint64_t seed,
              bool equal_blocks = false)
      : collective_(collective),
        all_(all),
        n_(static_cast<int>(all.size())),
        root_(root),
        seed_(seed),
        equal_blocks_(equal_blocks),
        random_(seed) {}

  // "" if every rank ends with the right result, else what is wrong.
  std::string run();

 private:
  struct Element {
    uint64_t exact;
    float rounded;
    bool operator==(const Element&) const = default;
  };
  using Memory = std::vector<std::vector<Element>>;  // by chunk

  uint64_t draw() {  // splitmix64
    return mix(random_ += 0x9e3779b97f4a7c15);
  }
  static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
  }
  uint64_t fixed(int64_t a, int64_t b, int64_t c) const {
    return mix(seed_ + mix(a + 1) + 3 * mix(b + 2) + 5 * mix(c + 3));
  }

  size_t user_size(int rank, int chunk) const;
  Element own(int rank, int chunk, size_t i) const;
  std::vector<Element> own(int rank, int chunk) const;
  std::vector<Element> sum(RankRange ranks, int chunk, size_t size) const;
  void fill();
  bool enabled(int rank, size_t step) const;
  bool finished(int rank) const;
  bool step_anywhere();
  bool in_range(int rank, Span span);
  void check_joined(int from, size_t send, int to, size_t recv);
  void move(int from, Span src, int to, const Step& sink);
  std::string check() const;
  std::string check_barrier(int late);

  const Collective collective_;
  const std::vector<Schedule>& all_;
  const int n_;
  const int root_;
  const uint64_t seed_;
  const bool equal_blocks_;
  uint64_t random_;
  std::vector<Memory> memory_;           // by rank
  std::vector<std::vector<bool>> done_;  // by rank and step
  std::string flaw_;                     // of the execution itself
};

}  // namespace ringwood::testing
