// Draws the LoopbackFaults of one link: which messages are delayed, and when completions are
// reported. Not thread safe.
#pragma once

#include <cstdint>

#include "transports/loopback/loopback.h"

namespace ringwood {

class Chaos {
 public:
  Chaos(const LoopbackFaults& faults, uint64_t salt)
      : faults_(faults), state_(faults.seed * 0x9e37 + salt) {}
  bool active() const { return faults_.delay > 0; }
  uint64_t cut_after() const { return faults_.cut_after; }
  // True while the next message is delayed.
  bool delays() {
    if (!active() || polls_left_ == 0) return false;
    --polls_left_;
    return true;
  }
  void next_message() { polls_left_ = active() ? draw() % (faults_.delay + 1) : 0; }
  // Lets `reported` follow `real`, late and in leaps. One `wait` per direction.
  void follow(uint64_t& reported, uint64_t real, uint32_t& wait) {
    if (!active()) {
      reported = real;
    } else if (reported != real && wait-- == 0) {
      reported += 1 + draw() % (real - reported);
      wait = draw() % (faults_.delay + 1);
    } else if (reported == real) {
      wait = draw() % (faults_.delay + 1);
    }
  }

 private:
  uint64_t draw() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  LoopbackFaults faults_;
  uint64_t state_;
  uint64_t polls_left_ = 0;
};

}  // namespace ringwood
