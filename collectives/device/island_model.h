// The parameters of an island: GPUs that map each other's memory over NVLink, and the rails that
// join it to others. What a device group takes is predicted from them (predict.h).
//
// A plain value: seconds, bytes, bytes per second. Nothing here was measured by this library. Each
// number of a preset is one that others have published, or follows from such numbers as is said
// beside it; every one can be replaced.
//
//   source   NCCL's model of its symmetric kernels (sym_kernels.cc, 2.30): base latency of LL and
//            bulk, rate of a block, peak; its LL costs 9 times its bytes
//   source   NCCL's model of latencies (graph/tuning.cc): 0.6 us for each NVLink hop of LL,
//            14 us for each of a network
//   source   all-reduce of 8 B on 8 GPUs, tuned: H200 2.3 us, B200 3 us (nccl issue 1940)
//   source   a device's own copy, read and written bytes: H100 3.0 TB/s, H200 4.3 TB/s
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringwood::device {

// The defaults are those of "h100": eight H100 or H800 behind NVSwitch, without multicast.
struct IslandModel {
  std::string name = "h100";  // the preset that it began with; letters, digits, '-'

  // From the call until the blocks run. 8 B take launch + flag: 2.3 us, as measured.
  double launch = 1.7e-6;
  // One way, from a store in a peer's memory until a block that spins on it goes on: of a hello, a
  // point, a packet. NCCL's hop of LL.
  double flag = 0.6e-6;
  // A post's: until all that its block has written is seen by every peer. Bulk takes launch + flag
  // + fence + flag. NCCL's model has 7.8 us for that and 4.5 us for LL; in that ratio 2.3 us become
  // 4.0 us.
  double fence = 1.1e-6;

  // Of one thread block: the bytes that it loads and stores through links, or, where those are
  // more, in its own GPU's memory. NCCL's model: 65 GiB/s.
  double block = 65.0 * (1 << 30);
  // The same where they are packets, flags included. NCCL's LL costs 9 times its bytes, of which a
  // factor of 2 are the flags; the rest is that every load waits for its data.
  double packet_block = block / 4.5;
  double packet_efficiency = 0.5;  // the part of a packet that is data
  double packet_room = 128 << 10;  // bytes of packets that a segment can have, at each rank
  double blocks = 32;              // of a launch, at most

  // Of one GPU, in each direction, all its peers together. NCCL's peak without multicast: 320 GiB/s
  // (of 450e9 that the links have).
  double link = 320.0 * (1 << 30);
  double memory = 3.0e12;  // of a GPU, read and written bytes together

  // Between islands: of one GPU's network interface, in each direction, and one way of a message.
  double rail = 50e9;  // 400 Gbit/s, the nominal rate
  double rail_latency = 14e-6;

  bool operator==(const IslandModel&) const = default;
};

// "h100", "h200", "b200".
std::vector<std::string> island_presets();
// Throws Error(invalid_argument) that names the presets.
IslandModel island_preset(std::string_view name);

// "link=400G", "launch=3us", "blocks=16": replaces one parameter. Times are in s, ms, us or ns,
// what has bytes takes K, M, G and T, of 1000. Throws Error(invalid_argument) that names the keys,
// or the range.
void set_parameter(IslandModel& model, std::string_view change);

// One line of key=value, each key once: "ringwood-island-1 name=h100 launch=1.7e-06 ...".
std::string print(const IslandModel& model);
// Bounded and strict: every key, in its place and in its range. Throws Error(invalid_argument).
IslandModel parse_island_model(std::string_view text);

}  // namespace ringwood::device
