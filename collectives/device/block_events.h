// The thread blocks of an island in time: each carries out its words in order, and shares links and
// memory with the others. Part of predict.h.
//
// Sharing is max-min fair: the speeds of all passes under way rise together, each towards what its
// block alone would reach; where a resource is full, those that use it keep their speed. Speeds
// change only when a pass begins or ends.
//
// Plain values. Pure, deterministic; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace ringwood::device {

// A link direction or the memory of a GPU, and the bytes of a pass that go through it.
struct ResourceUse {
  int resource = 0;
  double bytes = 0;
};

struct BlockWord {
  enum class Kind : uint8_t {
    greet,  // tells its hello to all
    hear,   // until the hellos of all ranks have come
    pass,
    post,
    wait
  };
  Kind kind = Kind::pass;
  double alone = 0;  // pass: seconds, of nothing shared
  std::vector<ResourceUse> uses = {};
  // Pass: numbers of what it writes as packets, and reads. It begins to read when they begin to
  // come, and ends when all have come.
  std::vector<int> writes = {}, reads = {};
  struct Point {
    int peer = 0;  // a rank
    uint32_t number = 0;
  };
  std::vector<Point> points = {};  // post, wait
};

// A rank's blocks for segments that are alike: they do the same at the same time.
struct BlockProgram {
  int rank = 0;
  int group = 0;   // of like segments; blocks of one group tell each other
  int blocks = 1;  // that it stands for
  std::vector<BlockWord> words = {};
};

struct BlockTimes {
  double flag = 0;   // seconds, from a hello, a point or a packet until it is seen
  double fence = 0;  // seconds that a post takes its block
};

// Seconds, by program: when its blocks end; all begin at 0. `capacity`: bytes/s, by resource. There
// are `packets` numbers of packets. Precondition: the programs come to their end (prove.h); throws
// Error(internal) where they do not.
std::vector<double> run_blocks(const std::vector<BlockProgram>& programs,
                               const std::vector<double>& capacity, int packets,
                               const BlockTimes& times);

}  // namespace ringwood::device
