// What an all-reduce would take on several islands that rails join: each device has a network
// interface of its own, whose rail leads to the devices of its number on the other islands.
//
//   reduce_scatter inside       all_reduce over rails        all_gather inside
//   0 1 2 .. 7                  0  <-- shard 0 -->  8         0 1 2 .. 7
//    \|/  NVLink                1  <-- shard 1 -->  9          \|/  NVLink
//   shard r at device r         ..                            all shards
//
// Nothing of it runs yet: it is computed from the predictions of its parts, which do run, and from
// closed forms of the rails. The data are cut into pieces, which follow one another: while a piece
// is on the rails, the next one is inside. So p pieces take, with what one piece takes,
//
//   launch + inside + rails + (p - 1) max(inside, transfer)      inside = scatter + gather
//
// where `transfer` is `rails` without its latency, since pieces are on their way one behind the
// other. Inside, both halves share the links, so neither hides the other.
//
// Pure, deterministic; thread safety as DeviceRows. Seconds, bytes.
#pragma once

#include "collectives/device/choose_device.h"

namespace ringwood::device {

inline constexpr int kMaxPieces = 64;

// Of an all-reduce of `bytes` between devices of one number on `hosts` islands, each way of a rail
// at full rate: the less of one round (every device sends its data to all others) and two rounds
// (halves of reduce_scatter and all_gather; a ring has as many bytes in more rounds).
struct RailTimes {
  double latency = 0, transfer = 0;
  double seconds() const { return latency + transfer; }
};
RailTimes rail_all_reduce(double bytes, int hosts, const IslandModel& model);

struct HostsPrediction {
  double seconds = 0;
  int pieces = 1;                // the number that takes least: 1, 2, 4, ... kMaxPieces
  DeviceChoice scatter, gather;  // of one piece; their seconds have a launch
  double inside = 0;             // seconds of one piece, without a launch
  RailTimes rails;               // of one piece
};

// Precondition: `args` are of an all_reduce; hosts >= 1. Throws as choose_device().
HostsPrediction predict_hosts(DeviceRows& rows, const CollectiveArgs& args, int devices, int hosts,
                              const IslandModel& model);

}  // namespace ringwood::device
