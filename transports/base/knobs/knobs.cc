#include "transports/base/knobs/knobs.h"

#include <fmt/ranges.h>

#include "transports/base/knobs/knob_text.h"

namespace ringwood {
namespace {

using Text = const std::string&;
using enum KnobFor;

// The field of a row, wherever it is nested.
template <class T>
auto& field(auto& options, T Options::*member) {
  return options.*member;
}
template <class T>
auto& field(auto& options, T VerbsOptions::*member) {
  return options.verbs.*member;
}

template <auto member, int lowest, int highest>
constexpr KnobText kNumber = {
    [](Text text, Options& o) { field(o, member) = parse_number(text, lowest, highest); },
    [](const Options& o) { return std::to_string(field(o, member)); }};

template <auto member>
constexpr KnobText kSwitch = {
    [](Text text, Options& o) { field(o, member) = parse_number(text, 0, 1) != 0; },
    [](const Options& o) { return std::string(field(o, member) ? "1" : "0"); }};

template <auto member>
constexpr KnobText kText = {[](Text text, Options& o) { field(o, member) = text; },
                            [](const Options& o) { return field(o, member); }};

template <auto member, size_t lowest, size_t highest, bool power_of_two = false>
constexpr KnobText kBytes = {[](Text text, Options& o) {
                               field(o, member) = parse_bytes(text, lowest, highest, power_of_two);
                             },
                             [](const Options& o) { return std::to_string(field(o, member)); }};

template <auto member>
constexpr KnobText kSeconds = {
    [](Text text, Options& o) { field(o, member) = parse_seconds(text); },
    [](const Options& o) { return show_seconds(field(o, member)); }};

template <auto member, const auto& words>
constexpr KnobText kWord = {
    [](Text text, Options& o) { field(o, member) = words[parse_word(text, words)]; },
    [](const Options& o) { return field(o, member); }};

constexpr std::array kFamilies = {"AF_INET", "AF_INET6"};
constexpr std::array kCalibrations = {"keep", "refresh", "off"};
constexpr std::array kLevels = {"error", "warn", "info", "debug"};

constexpr size_t kKiB = size_t{1} << 10, kGiB = size_t{1} << 30;

// Values with a format of their own.
constexpr KnobText kTransports = {
    [](Text text, Options& o) { o.transports = parse_list(text); },
    [](const Options& o) { return fmt::format("{}", fmt::join(o.transports, ",")); }};
constexpr KnobText kPorts = {
    [](Text text, Options& o) { o.ports = parse_ports(text); },
    [](const Options& o) { return fmt::format("{}-{}", o.ports.first, o.ports.last); }};
constexpr KnobText kHeartbeat = {
    [](Text text, Options& o) {
      o.heartbeat = std::chrono::milliseconds(parse_number(text, 10, 60000));
    },
    [](const Options& o) { return std::to_string(o.heartbeat.count()); }};
constexpr KnobText kTolerance = {[](Text text, Options& o) { o.tolerance = parse_tolerance(text); },
                                 [](const Options& o) { return fmt::format("{}", o.tolerance); }};
constexpr KnobText kLog = {
    [](Text text, Options& o) { o.log_level = LogLevel(parse_word(text, kLevels)); },
    [](const Options& o) { return std::string(kLevels[static_cast<size_t>(o.log_level)]); }};

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
     "info says which network, transports and knobs were taken, once for each group."},
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

    {"RINGWOOD_TCP_SOCKETS",
     expert,
     {},
     "4",
     kNumber<&Options::tcp_sockets, 0, 16>,
     "TCP connections per pair of ranks (0: by the cores that are free)",
     "One stream fills a core; more pay only where cores are free to serve them. Measured on two "
     "cores: two gain nothing."},
    {"RINGWOOD_LISTEN_ANY",
     expert,
     {},
     "1",
     kSwitch<&Options::listen_any>,
     "1: rank 0's store listens on all addresses of its host, not only on those it is known by",
     "For hosts reached by an address that they do not have and that leads to another interface "
     "than the chosen one. Off: hosts that need not reach it do not."},
    {"RINGWOOD_HEARTBEAT_MS",
     expert,
     {},
     "50",
     kHeartbeat,
     "milliseconds between heartbeats; silence of 6 is warned about, 12 are a loss",
     "Of the control connection. 250: a host that vanished is lost in 3 s, at 4 small messages a "
     "second; a dead process is noticed at once without it."},
    {"RINGWOOD_HOST_ID",
     expert,
     {"NCCL_HOSTID"},
     "a",
     kText<&Options::host_id>,
     "ranks with different values are treated as on different hosts (empty: detected)",
     "To measure the network's path on one machine, and to keep jobs apart that share a machine "
     "by accident."},
    {"RINGWOOD_NUMA_NODE",
     expert,
     {},
     "3",
     kNumber<&Options::numa_node, -1, 4095>,
     "the memory node that this rank reports to run on (-1: where it may run)",
     "Hierarchical algorithms are built from it. To try placements that a machine does not have."},
    {"RINGWOOD_SHM_RING_BYTES",
     expert,
     {},
     "64K",
     kBytes<&Options::shm_ring_bytes, 4 * kKiB, kGiB, true>,
     "shared memory per direction and pair of ranks, a power of two",
     "What can be on its way. 1 MiB holds two messages of RINGWOOD_SEGMENT_BYTES: one is written "
     "while the other is read."},
    {"RINGWOOD_VERBS_ADDRESS_FAMILY",
     expert,
     {"NCCL_IB_ADDR_FAMILY"},
     "AF_INET6",
     kWord<&VerbsOptions::address_family, kFamilies>,
     "AF_INET or AF_INET6: only such GIDs (empty: both, IPv4 first)",
     "Guides the choice of the GID, where hosts have several (verbs/rail/gids.h)."},
    {"RINGWOOD_VERBS_ADDRESS_RANGE",
     expert,
     {"NCCL_IB_ADDR_RANGE"},
     "10.0.0.0/8",
     kText<&VerbsOptions::address_range>,
     "only GIDs of this range, such as 10.0.0.0/8 (empty: all)",
     "Guides the choice of the GID, where hosts are in several networks (verbs/rail/gids.h)."},
    {"RINGWOOD_VERBS_ROCE_VERSION",
     expert,
     {"NCCL_IB_ROCE_VERSION_NUM"},
     "1",
     kNumber<&VerbsOptions::roce_version, 1, 2>,
     "1 or 2: the version of RoCE that is preferred",
     "Guides the choice of the GID. 2 is routed, and what NCCL prefers."},
    {"RINGWOOD_VERBS_SL",
     expert,
     {"NCCL_IB_SL"},
     "3",
     kNumber<&VerbsOptions::service_level, 0, 15>,
     "service level of verbs",
     "As the subnet manager maps levels to virtual lanes. Of the two ends the lower rank's counts. "
     "NCCL's "
     "default."},
    {"RINGWOOD_VERBS_TIMEOUT",
     expert,
     {"NCCL_IB_TIMEOUT"},
     "22",
     kNumber<&VerbsOptions::timeout, 1, 31>,
     "t: an unacknowledged packet is sent again after 4.096 us * 2^t",
     "20 with 7 retries, both NCCL's: 34 s before a path is dropped, for others or TCP."},
    {"RINGWOOD_VERBS_RETRIES",
     expert,
     {"NCCL_IB_RETRY_CNT"},
     "6",
     kNumber<&VerbsOptions::retries, 0, 7>,
     "so many times, before the path is dropped",
     "See RINGWOOD_VERBS_TIMEOUT."},
    {"RINGWOOD_VERBS_QPS",
     expert,
     {"NCCL_IB_QPS_PER_CONNECTION"},
     "4",
     kNumber<&VerbsOptions::queue_pairs, 1, 128>,
     "queue pairs per rail and link",
     "More than one where the network spreads flows by hashing (several paths, bonds). At most "
     "128 for all rails. NCCL's default."},
    {"RINGWOOD_VERBS_PKEY",
     expert,
     {"NCCL_IB_PKEY"},
     "1",
     kNumber<&VerbsOptions::partition, 0, 65535>,
     "index of the partition key",
     "For InfiniBand that is divided among tenants. NCCL's default."},
    {"RINGWOOD_VERBS_RING_BYTES",
     expert,
     {},
     "4M",
     kBytes<&VerbsOptions::ring_bytes, 64 * kKiB, kGiB, true>,
     "registered memory per direction and link, a power of two",
     "What can be on its way; equal on all ranks. It is pinned, for each pair of ranks. 1 MiB "
     "keeps 100 Gbit/s busy for 84 us, more than the way there and back."},
    {"RINGWOOD_VERBS_REGISTERED_BYTES",
     expert,
     {},
     "0",
     kBytes<&VerbsOptions::registered_bytes, 0, 1024 * 1024 * kGiB>,
     "bytes of shared buffers registered per rail at most; 0: all are copied",
     "Beside the rings, so that they are sent without a copy (128 KiB: 5 us saved for 12 ns of "
     "look-up). It is pinned: bounded so that nothing else of the machine starves."},
    {"RINGWOOD_ALGORITHM",
     expert,
     {},
     "all_reduce:ring",
     kText<&Options::algorithm>,
     "overrides the choice, such as all_reduce:ring,broadcast:binomial",
     "For experiments. The choice is by predicted time; `ringwood explain` shows it."},
    {"RINGWOOD_SEGMENT_BYTES",
     expert,
     {},
     "3M",
     kBytes<&Options::segment_bytes, 1, kGiB>,
     "pipeline grain: about the size of one segment's message",
     "A schedule is split so that its segments overlap. 2 ranks over shm, 1, 4 and 16 MiB: 65, 249 "
     "and 1675 us at 256 KiB; 56, 225 and 1801 at 512 KiB; 59, 232 and 1775 at 1 MiB."},
    {"RINGWOOD_CALIBRATION",
     expert,
     {},
     "refresh",
     kWord<&Options::calibration, kCalibrations>,
     "parameters of hosts and network for the choice of algorithms: keep (files), refresh, or off",
     "For hosts that change under the same name (refresh), and for runs that must choose alike "
     "(off: the defaults; rank 0's decides for the network). Measuring takes less than 50 ms for a "
     "host and 100 ms for the network between several, so it is done once and kept for a week."},
    {"RINGWOOD_REMEASURE",
     expert,
     {},
     "5",
     kSeconds<&Options::remeasure>,
     "seconds between two measurements of a network whose rates have changed, at least; rank 0's",
     "A measurement holds up the group for up to 0.1 s, and so does what each change of algorithm "
     "costs. RINGWOOD_CALIBRATION=off: it is never measured."},
    {"RINGWOOD_TOPOLOGY",
     expert,
     {},
     "/etc/slurm/topology.conf",
     kText<&Options::topology>,
     "a file of rank 0: the leaf switch of each host (HOST LEAF [RAIL], or Slurm's topology.conf)",
     "Paths to hosts at another leaf may be slower, which is not guessed: without it, only the "
     "next "
     "host counts as near."},
    {"RINGWOOD_SIMD",
     expert,
     {},
     "scalar",
     kText<&Options::simd>,
     "highest instruction set of the kernels (empty: the machine's best)",
     "For tests of the kernels, which must give the same bits on each."},
};

}  // namespace

std::span<const Knob> knobs() { return kTable; }

}  // namespace ringwood
