// The knobs that a user must know: at most 20.
#include "transports/base/knobs/knob_rows.h"
#include "transports/base/knobs/knob_values.h"

namespace ringwood {
namespace {

using enum KnobFor;
using namespace knob_values;

constexpr Knob kTable[] = {
    {"RINGWOOD_TRANSPORTS",
     user,
     {},
     "shm,tcp",
     kTransports,
     "transports that may be used, in order of preference (empty: all)",
     "For tests, measurements, and to work around a broken network. All: the table of transports "
     "is in order of speed."},
    {"RINGWOOD_SOCKET_IFNAME",
     user,
     {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"},
     "^docker,lo",
     kText<&Options::socket_interface>,
     "interfaces: prefix, =exact, ^exclude, or CIDR, comma separated (empty: the route to the "
     "master)",
     "For hosts where the route to the master is not the fast network. A CIDR (10.0.0.0/8) fits "
     "hosts that name their interfaces differently."},
    {"RINGWOOD_PORT_RANGE",
     user,
     {},
     "50000-50010",
     kPorts,
     "ports to listen on, first-last (0-0: the kernel's choice)",
     "For firewalls. The kernel's choice cannot collide with another job."},
    {"RINGWOOD_KEY_FILE",
     user,
     {},
     "/etc/ringwood.key",
     kText<&Options::key_file>,
     "file (mode 0600) with 32 random bytes that all connections must know (empty: a session key)",
     "The same file on all hosts; every connection of the job proves that it knows it, those to "
     "the tcp_store included. A session key through the store keeps strangers out, but not those "
     "who can read the store (bootstrap/handshake.h)."},
    {"RINGWOOD_TIMEOUT",
     user,
     {},
     "2.5",
     kSeconds<&Options::timeout>,
     "seconds an operation may take when the caller gave no timeout",
     "torch gives one for each group. 5 minutes: a rank may compute, or write a checkpoint, while "
     "the others wait; a death is noticed within seconds without it."},
    {"RINGWOOD_INIT_TIMEOUT",
     user,
     {},
     "60",
     kSeconds<&Options::init_timeout>,
     "seconds for all ranks to join",
     "5 minutes: a scheduler may start hosts one after the other, and pull an image on each."},
    {"RINGWOOD_REPRODUCIBLE",
     user,
     {},
     "1",
     kSwitch<&Options::reproducible>,
     "1: add in the order of the ranks, so that results do not depend on algorithm or placement",
     "To compare runs bit by bit on different machines. Off: all ranks have the same bits anyway, "
     "and only the rows that add in rank order could be used."},
    {"RINGWOOD_TOLERANCE",
     user,
     {},
     "0.004",
     kTolerance,
     "relative error that fp32 sums between hosts may have, in fewer bytes (0: exact)",
     "A permission: they travel as bf16 from 0.004 for each rounding on the way, as int8 from "
     "0.016, where that is faster, and never with RINGWOOD_REPRODUCIBLE (kernels/wire.h). At 1 "
     "Gbit/s, 16 MiB between two hosts take 140 ms exact, 69 as bf16, 35 as int8. Exact: bits "
     "are lost only on request."},
    {"RINGWOOD_SHARE_TENSORS",
     user,
     {},
     "1M",
     kBytes<&Options::share_tensors, 0, 1024 * kGiB>,
     "torch tensors from this size on need no copies inside a host (0: only ringwood.empty's)",
     "CPU tensors made after the first group lie where the ranks of a host read them in place, in "
     "a script that knows nothing of it. Off: forked processes then get private copies of all of "
     "them at the fork, which costs time and memory."},
    {"RINGWOOD_REMAP",
     user,
     {},
     "1M",
     kBytes<&Options::remap, 0, 1024 * kGiB>,
     "buffers from this size on that are used repeatedly become shared in place (0: never)",
     "The ranks of a host then read them in place, whatever allocated them. Off: not every "
     "program may be treated so (memory/remap.h says which)."},
    {"RINGWOOD_TUNING_FILE",
     user,
     {},
     "/shared/tuning.txt",
     kText<&Options::tuning_file>,
     "rank 0's file of `ringwood tune`, or a folder of them, or off (empty: those of the cache)",
     "What was measured on these hosts goes before what is predicted for them, and sets those "
     "knobs "
     "of links that are not set. A file of other hosts, links or algorithms is refused with a word "
     "on what differs (tuner/tuning/tuning_file.h)."},
    {"RINGWOOD_IN_FLIGHT",
     user,
     {},
     "3",
     kNumber<&Options::in_flight, 1, kMaxInFlight>,
     "collectives of a group that may be under way at once, alike on all ranks",
     "Each has links of its own: a connection for each pair of ranks and socket (tcp), two rings "
     "per pair (verbs), address space (shm). 2: the second is for calls of high priority, so a "
     "small one need not wait behind a large one."},
    {"RINGWOOD_SPIN_US",
     user,
     {},
     "0",
     kNumber<&Options::spin_us, -1, 1000000>,
     "microseconds to spin before yielding (-1: the measured default; 0: sleep at once)",
     "0 leaves the core to others and costs a wake for each wait: data is then seen 19 to 64 "
     "us later, instead of 0.6 (shm) or 5 (tcp). So the default is 200 us where every rank of the "
     "host has a core, and none elsewhere: a spinning rank keeps the core that its peer needs "
     "(runtime/waiter.cc)."},
    {"RINGWOOD_LOG",
     user,
     {},
     "info",
     kLog,
     "error, warn, info or debug",
     "info says which network, transports and knobs were taken, once for each group. debug adds "
     "what is dialled, each attempt that failed, why no better transport was taken, and the "
     "algorithm of every class of sizes."},
    {"RINGWOOD_TRACE_DIR",
     user,
     {},
     "/tmp/traces",
     kText<&Options::trace_dir>,
     "a folder: at its end, or an error, each rank writes GROUP-rankN.json there, for ringwood "
     "trace",
     "Recording is always on; only the file is optional. It has the last 4,096 recorded operations "
     "of a group, and is written once, at the end of the group or at its error, or at SIGTERM "
     "where the program does not handle that."},
    {"RINGWOOD_CUDA",
     user,
     {},
     "0",
     kSwitch<&CudaOptions::enabled>,
     "0: calls with memory of a device are refused",
     "On: NVIDIA's driver is loaded with the first such call, and never without one."},
    {"RINGWOOD_VERBS_DISABLE",
     user,
     {"NCCL_IB_DISABLE"},
     "1",
     kSwitch<&VerbsOptions::disable>,
     "1: no InfiniBand or RoCE",
     "To work around a broken one: it is not even looked for, and TCP is used."},
    {"RINGWOOD_VERBS_DEVICES",
     user,
     {"NCCL_IB_HCA"},
     "=mlx5_0:1,mlx5_2:1",
     kText<&VerbsOptions::devices>,
     "verbs devices: prefix, =exact, ^exclude, name:port, comma separated (empty: all active)",
     "To keep off devices that belong to storage or to another job."},
    {"RINGWOOD_VERBS_GID_INDEX",
     user,
     {"NCCL_IB_GID_INDEX"},
     "3",
     kNumber<&VerbsOptions::gid_index, -1, 65535>,
     "index of the GID on every device (-1: the best one of each)",
     "-1 chooses by the rules of verbs/rail/gids.h: an index is right on one host and wrong on "
     "the next."},
    {"RINGWOOD_VERBS_TRAFFIC_CLASS",
     user,
     {"NCCL_IB_TC"},
     "106",
     kNumber<&VerbsOptions::traffic_class, 0, 255>,
     "traffic class of verbs: DSCP times 4, plus ECN",
     "As the switches are configured for RoCE. Of the two ends the lower rank's counts. NCCL's "
     "default."},
};

}  // namespace

std::span<const Knob> user_knobs() { return kTable; }

}  // namespace ringwood
