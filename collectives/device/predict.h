// What a device group takes for a collective: the words that its blocks would run (bind_words.h),
// of all ranks, carried out in time on the parameters of an island.
//
// 1. All ranks call at the same moment, and their blocks run `launch` later.
// 2. A pass takes the largest of what its block needs for it, alone, and its fair share of each
//    GPU's links, in and out, and memory (block_events.h). Reads of a peer's memory pass its link
//    outward and the reader's inward; writes the other way. Caches are not known: all bytes pass
//    memory.
// 3. What a post tells is seen a fence and a flag later; a hello, which follows no data of its
//    block's, a flag later. A word that is not early waits for all hellos.
// 4. Packets have the bytes of their data divided by packet_efficiency. Who reads them begins when
//    they begin to come, a flag after they began to be written, and ends no earlier than a flag
//    after they all were.
// 5. What a block does between its words (barriers, reading words) is not counted.
// Segments that are alike, word by word and at all ranks, are simulated once: they share alike.
//
// Pure, deterministic; any thread. Seconds, bytes.
#pragma once

#include <vector>

#include "collectives/device/island_model.h"
#include "collectives/device/lower.h"
#include "collectives/plan/plan.h"

namespace ringwood::device {

struct DevicePrediction {
  double seconds = 0;                       // from the call until the last block ends
  std::vector<double> ends;                 // by rank
  std::vector<double> out_bytes, in_bytes;  // by rank: through its link, flags of packets included
  double packet_bytes = 0;                  // the most that a segment needs at any rank
};

// Throws as bind_words() does. Precondition: that of bind_words().
DevicePrediction predict(const ProvedProgram& proved, const CollectiveArgs& args, int segments,
                         const IslandModel& model);

}  // namespace ringwood::device
