// The parameters of a group's machines, from which schedules are costed (cost.h).
//
// A plain value: seconds, bytes, bytes per second. All ranks of a group must choose from the same
// MachineModel; otherwise their choices differ (the fingerprint finds that out, but too late). So
// one rank's parameters (calibrate.h, or these defaults) are sent to the others in their text form,
// and parsing gives back exactly what was printed. The defaults were measured on the machine of
// bench/README.md, float32, one core; every one of them can be replaced by a measurement.
//
// 1. A message inside a host, staged: the sender's core copies it into shared memory, the
//    receiver's core copies or adds it from there; both work piece by piece at the same time.
// 2. Not staged: the receiver reads the sender's buffer.
// 3. Over loopback, where the group has no shared memory: both cores feed the socket.
// 4. Between hosts over sockets: likewise, while the bytes pass the two hosts' network interfaces,
//    which their ranks share. There are two classes of path, near and far (path()).
// 5. Between hosts over RDMA: the sender's core copies into a ring, unless the device reads its
//    memory itself (`zero_copy`); the device writes into the receiver's ring, out of which that
//    core copies or adds. The kernel has no part in it.
// 6. Between devices (GPUs), one for each rank, that hold the buffers: those of a memory node reach
//    each other through ports of their own, and the network interfaces of the host reach them; no
//    core and no memory of the host takes part. What a device does itself takes no time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/plan/group_facts.h"
#include "transports/base/options.h"

namespace ringwood {

// Payload bytes/s of one core by where its working set lies.
struct Rates {
  double l2 = 0, l3 = 0, dram = 0;
  bool operator==(const Rates&) const = default;
};

// Payload bytes/s of one core, fp32, in L2: into a wire format and back (wire.h).
struct CodecRates {
  double encode = 0, decode = 0;
  bool operator==(const CodecRates&) const = default;
};

// What carries a message, which decides what the cores at its ends do for it.
enum class PathClass : uint8_t { memory, device, socket, rdma };
const char* to_string(PathClass path);  // "memory"

// Between the interfaces of two hosts.
struct PathParameters {
  double latency = 3.8e-6;  // seconds, one way
  double rate = 1.25e9;     // bytes/s of a host, each direction, while the other one is idle
  double both_ways = 1;     // fraction of it that remains with equal traffic the other way
  bool operator==(const PathParameters&) const = default;
};

// A host whose interfaces, or one of whose interfaces, are not like the others'.
struct HostException {
  int host = 0;
  double rate = 1;   // fraction of the others' rate, at most 1
  std::string name;  // as its ranks call it; letters, digits, '.', '-' and '_'
  int rail = -1;     // -1: all of its interfaces
  bool operator==(const HostException&) const = default;
};

// "node-7" or "node-7 rail 1"
std::string print(const HostException& exception);

inline constexpr size_t kMaxExceptions = 64;

// Between hosts; measured on the links themselves (probe.h). The defaults are those of a virtual
// pair of interfaces. The cost of a core (post, copied) is measured on loopback, until a group has
// measured its links.
struct NetworkParameters {
  PathClass carrier = PathClass::socket;  // or rdma
  // The near path.
  double latency = PathParameters{}.latency;
  double post = 2e-6;  // a core's time for a message, at each end
  // Fraction of `post` that a message takes whose ends are awake: right behind another one nobody
  // falls asleep and is woken up for it.
  double behind = 1;
  double copied = 6e9;                 // bytes/s of one core into or out of a socket, or a ring
  double nic = PathParameters{}.rate;  // bytes/s of a host, each direction
  double both_ways = 1;                // fraction of `nic`, as in PathParameters
  // What a connection takes while its receiver is not ready: of sockets what the kernel takes,
  // which is measured (calibrate.h), over verbs the ring (VerbsOptions::ring_bytes).
  double eager = 1 << 18;
  // Over RDMA: of messages from here on the device reads memory that is registered.
  double zero_copy = 128 << 10;
  double burst = 0;  // bytes that a port passes at once after it was idle
  // Seconds of a port for each message, beyond its bytes: those of b bytes reach b / (b + gap nic)
  // of its rate. Not measured: whoever knows it says it.
  double gap = 0;
  int rails = 1;  // interfaces of each host, which together are `nic`
  // Hosts that run on the same cores, as containers of one machine do; they have successive
  // numbers. Where not all of them are there, those that are have their part of the cores.
  int sharing = 1;
  // A rank's messages use one of them (port_of()); else each is cut into pieces, which go over all
  // of them, but over RDMA one of at most `piece` bytes goes over the least busy.
  bool rail_of_rank = false;
  double piece = kMaxVerbsPiece;
  std::optional<PathParameters> far;  // the far path; none: as the near one
  // By host: the switch that it is connected to, numbered from 0 in the order of the first hosts.
  // Empty: not known.
  std::vector<int> leaves;
  // In the order of hosts and then of rails, kMaxExceptions at most.
  std::vector<HostException> exceptions;
  bool operator==(const NetworkParameters&) const = default;
};

// Bytes/s of data that two cores of a host send each other at the same time.
struct Exchanged {
  // At each end, for the first kSmall bytes of a message: nothing is prefetched.
  double small = 33e9;
  // Read in place, where the owner writes the data anew for each call.
  double l2 = 33e9, l3 = 33e9;
  static constexpr double kSmall = 4 << 10;
  bool operator==(const Exchanged&) const = default;
};

// A device for each rank, whose memory has its buffers.
struct DeviceParameters {
  double rate = 0;        // bytes/s of its port to those of its node, each way; 0: there are none
  double latency = 3e-6;  // seconds of a message there, one way
  bool operator==(const DeviceParameters&) const = default;
};

// The group's facts, from which its plans are made, and what its machines take.
struct MachineModel : GroupFacts {
  double l2_bytes = 1 << 20;   // of each core
  double l3_bytes = 32 << 20;  // of each host; measured as the part that its ranks can use
  Rates copy{38e9, 33e9, 9e9};
  Rates reduce{39e9, 36e9, 8e9};
  CodecRates bf16{49e9, 72e9}, int8{48e9, 75e9};
  double memory = 15e9;  // payload bytes/s that all cores of a host together copy in DRAM

  // A core's time for an operation beyond its messages, whatever its schedule. 0, because what
  // bench/choice measures for 8 to 512 bytes with two ranks (0.17 us in one round, 0.36 to 0.5 us
  // in three) is within 10 % that of the messages alone.
  double call = 0;

  // Inside a host; over sockets (`loopback`) with the cost of a core from `net`.
  bool staged = true;
  double post = 0.051e-6;  // a core's time for a message, at each end: to post and complete it
  double look = 0.022e-6;  // one iteration over its links, in which a waiting rank finds an arrival
  double latency = 0.062e-6;  // from the end of a write until another core sees it
  double handed = 33e9;       // bytes/s at each end of data handed from core to core in a cache
  double both_ways = 1;       // fraction of it that remains with equal traffic the other way
  Exchanged exchanged;
  double yield = 1.75e-6;               // until a rank without a core of its own gets one
  double piece = kShmPiece;             // receiver and sender work at the same time from here on
  double eager = 1 << 20;               // how far a sender can be ahead of its receiver
  double zero_copy = kShmZeroCopyFrom;  // from here on messages can stay in the sender's arena

  // Inside a host, from node to node; as inside a node where there is only one.
  double node_latency = 0.062e-6;
  double node_handed = 33e9;

  DeviceParameters device;
  NetworkParameters net;

  bool has_devices() const { return device.rate > 0; }
  bool operator==(const MachineModel&) const = default;
};

// For a machine whose links between hosts are RDMA and were not measured: what others measured of
// theirs (port_prior.h) in place of what sockets take.
void use_rdma_prior(MachineModel& machine);

int host_count(const MachineModel& machine);

// Sets of `sharing` hosts among `hosts`, the set of a host, and the part of a set that is there.
int sharing_sets(const MachineModel& machine, int hosts);
inline int sharing_set(const MachineModel& machine, int host) { return host / machine.net.sharing; }
double part_of_set(const MachineModel& machine, int hosts, int set);

// Each parameter that is a number of its own: the median over `machines`, of which the first one
// gives all others. At least one.
MachineModel median_of(const std::vector<MachineModel>& machines);

// From host `a` to host `b` of `hosts`. Near: the same leaf switch, or where leaves are not known
// hosts whose numbers differ by 1 (the first follows the last); else far. Of what is between the
// hosts: their own ports may be slower (port_rate()).
PathParameters path(const MachineModel& machine, int hosts, int a, int b);
bool is_near(const NetworkParameters& net, int hosts, int a, int b);

// What the messages of one rail pass, as a part of the whole interface of a host: how many such
// ports a host has, and the rate of each, which exceptions reduce.
int port_count(const NetworkParameters& net);
double port_rate(const NetworkParameters& net, int host, int port);
// The part of that which one rail has.
double rail_rate(const NetworkParameters& net, int host, int rail);
// The port of a message between the ranks with these numbers, which have these indices on their
// hosts. The higher of two ranks connects to the address of the lower one, and so both ends use the
// rail of that.
int port_of(const NetworkParameters& net, int from, int from_index, int to, int to_index);

// One line of key=value, each key once: "ringwood-machine-12 hosts=2x8 nodes= cores=2 ...". Lists
// of places as in places.h.
std::string print(const MachineModel& machine);
// Bounded and strict: every key, known, once, and in its range. Throws Error(invalid_argument).
MachineModel parse_machine_model(std::string_view text);

}  // namespace ringwood
