// Every knob, with its default, its environment name and why it exists. options.cc holds the only
// getenv.
//
// An Options is a plain value, passed explicitly; the environment is read once, by
// from_environment(), when a communicator is made. A variable that starts with RINGWOOD_ but is not
// in the table is warned about with the nearest name; a value that cannot be parsed throws
// Error(invalid_argument) naming variable and value. Names of NCCL that are taken, and those that
// are set but mean nothing here, are named in the log (info), once.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "transports/base/log.h"

namespace ringwood {

// The most collectives of a group that can be under way at once.
inline constexpr int kMaxInFlight = 8;

// Knobs of the verbs transport (InfiniBand, RoCE). Each takes the name in brackets as well, so that
// a cluster's job script works unchanged; the defaults are those of NCCL.
struct VerbsOptions {
  // RINGWOOD_VERBS_DISABLE=1 (NCCL_IB_DISABLE): not even looked for.
  bool disable = false;
  // RINGWOOD_VERBS_DEVICES (NCCL_IB_HCA): "mlx5_0,mlx5_1:1" prefixes, "=..." exact, "^..." exclude.
  std::string devices;
  // RINGWOOD_VERBS_GID_INDEX (NCCL_IB_GID_INDEX): -1 chooses by the rules of gids.h, which the next
  // three guide: AF_INET or AF_INET6 (NCCL_IB_ADDR_FAMILY), CIDR (NCCL_IB_ADDR_RANGE), 1 or 2
  // (NCCL_IB_ROCE_VERSION_NUM). An index is right on one host and wrong on the next.
  int gid_index = -1;
  std::string address_family, address_range;
  int roce_version = 2;
  // RINGWOOD_VERBS_TRAFFIC_CLASS (NCCL_IB_TC), 0 to 255: DSCP times 4, plus ECN. RINGWOOD_VERBS_SL
  // (NCCL_IB_SL), 0 to 15. Of the two ends the lower rank's count.
  int traffic_class = 0, service_level = 0;
  // RINGWOOD_VERBS_TIMEOUT (NCCL_IB_TIMEOUT): 4.096 us * 2^t for one try; RINGWOOD_VERBS_RETRIES
  // (NCCL_IB_RETRY_CNT): further ones. 20 and 7 give 34 s before a path is dropped.
  int timeout = 20, retries = 7;
  // RINGWOOD_VERBS_QPS (NCCL_IB_QPS_PER_CONNECTION): queue pairs per rail and link. More than one
  // where the fabric spreads flows by hashing (several paths, bonds). At most 128 for all rails.
  int queue_pairs = 1;
  // RINGWOOD_VERBS_PKEY (NCCL_IB_PKEY): index of the partition key.
  int partition = 0;
  // RINGWOOD_VERBS_RING_BYTES: registered memory per direction and link, and so what can be on its
  // way; a power of two, equal on all ranks.
  size_t ring_bytes = size_t{1} << 20;
  // RINGWOOD_VERBS_REGISTERED_BYTES: how much of the buffers that ranks share (ringwood.empty, ...)
  // is registered at most per rail, beside the rings, so that it can be sent without a copy. It is
  // pinned: bounded so that nothing else of the machine starves. 0: everything is copied.
  size_t registered_bytes = size_t{4} << 30;
};

struct Options {
  // RINGWOOD_TRANSPORTS=shm,tcp: which transports may be used, in order of preference. Empty: all
  // rows of transports.cc. For tests, measurements, and to work around a broken fabric.
  std::vector<std::string> transports;
  // RINGWOOD_SOCKET_IFNAME (alias NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME): "eth" prefix, "=eth0"
  // exact,
  // "^docker,lo" exclude, comma separated; also CIDR ("10.0.0.0/8"). Empty: the interface whose
  // route leads to the master address.
  std::string socket_interface;
  // RINGWOOD_TCP_SOCKETS: connections per pair of ranks. One stream saturates a core; more pay only
  // where cores are free to serve them (measured: no gain on two cores). 0: by the free cores.
  int tcp_sockets = 0;
  // RINGWOOD_LISTEN_ANY=1: rank 0's store listens on all addresses of its host. Only for hosts that
  // are reached by an address that they do not have and that leads to another interface than the
  // chosen one.
  bool listen_any = false;
  // RINGWOOD_PORT_RANGE=50000-50010: ports to listen on. 0-0: the kernel's choice.
  int port_first = 0, port_last = 0;
  // RINGWOOD_TIMEOUT: seconds an operation may take when the caller gave no timeout (torch gives
  // one).
  std::chrono::milliseconds timeout{std::chrono::minutes(5)};
  // RINGWOOD_INIT_TIMEOUT: seconds for all ranks to meet.
  std::chrono::milliseconds init_timeout{std::chrono::minutes(5)};
  // RINGWOOD_HEARTBEAT_MS: period of the control connection's heartbeat; silence of 6 periods is
  // warned about, a host that no longer acknowledges for 12 is lost.
  std::chrono::milliseconds heartbeat{250};
  // RINGWOOD_KEY_FILE: file (mode 0600) with at least 32 random bytes, the same on all hosts, that
  // every connection of the job must know, those to the tcp_store included. Empty: a random session
  // key through the store, which keeps strangers out but not those who can read the store.
  // handshake.h has what either protects.
  std::string key_file;
  // RINGWOOD_HOST_ID (alias NCCL_HOSTID): ranks with different values are treated as on different
  // hosts. To measure the network path, and to keep jobs that share a machine by accident apart.
  std::string host_id;
  // RINGWOOD_NUMA_NODE: the memory node that this rank is said to run on, from which hierarchical
  // algorithms are built. To try placements that a machine has not. -1: where it may run.
  int numa_node = -1;
  // RINGWOOD_SHM_RING_BYTES: bytes in flight per direction and pair in shared memory; a power of
  // two.
  size_t shm_ring_bytes = size_t{1} << 20;
  VerbsOptions verbs;
  // RINGWOOD_ALGORITHM=all_reduce:ring,broadcast:binomial: overrides the choice.
  std::string algorithm;
  // RINGWOOD_SEGMENT_BYTES: pipeline grain; a schedule is split so that one segment's message is
  // about this size.
  size_t segment_bytes = size_t{512} << 10;
  // RINGWOOD_CALIBRATION=keep|refresh|off: the figures of this host from which algorithms are
  // chosen are read from a file in the user's cache, measured and written anew, or left at their
  // defaults. For hosts that change under the same name, and for runs that must choose alike.
  std::string calibration = "keep";
  // RINGWOOD_REPRODUCIBLE=1: sums are added up in the order of the ranks, so that their bits depend
  // neither on the algorithm, nor on the size, nor on where the ranks are placed.
  bool reproducible = false;
  // RINGWOOD_TOLERANCE=0.004: the relative error that sums of fp32 may have, from 0 (exact) to
  // below 1. Where links between hosts are slow, the numbers then travel in fewer bytes: as bf16
  // from 0.004 for each time that they are rounded on their way (once for two ranks, twice for
  // more), as int8 from 0.016 (collectives/kernels/wire.h). A permission, not a demand: exact where
  // that is as fast, and with RINGWOOD_REPRODUCIBLE always.
  double tolerance = 0;
  // RINGWOOD_SHARE_TENSORS=1M: PyTorch's CPU tensors of at least so many bytes that are made after
  // the first group lie where the ranks of a host read them in place, in a script that knows
  // nothing of it. 0: none.
  size_t share_tensors = 0;
  // RINGWOOD_REMAP=1M: buffers of at least so many bytes that operations use again and again become
  // shared memory where they lie, so that the ranks of a host read them in place, whatever
  // allocated them. 0: never; off by default because not every program may be treated so
  // (remap.h).
  size_t remap = 0;
  // RINGWOOD_IN_FLIGHT: how many collectives of a group may be under way at once, each over links
  // of its own; the same on all ranks. From 2 on, one of them is a call of high priority. Each more
  // costs a connection for each pair of ranks and socket (tcp), two rings per pair (verbs), and
  // address space (shm: memory is taken when it is used).
  int in_flight = 2;
  // RINGWOOD_SPIN_US: how long to spin before yielding, when every rank of the host has a core. -1:
  // measured default. 0: neither spin nor yield but sleep at once, which leaves the core to others
  // and costs a wake-up for each wait.
  int spin_us = -1;
  // RINGWOOD_SIMD=scalar|avx2|avx512...: highest instruction set the kernels may use. For tests.
  // Empty: the machine's best.
  std::string simd;
  // RINGWOOD_LOG=error|warn|info|debug
  LogLevel log_level = LogLevel::warn;

  static Options from_environment();
};

// For `ringwood env` and the README: one row per knob.
struct Knob {
  std::string name, value, default_value, description;
  bool from_environment;
};
std::vector<Knob> describe(const Options& options);

// Where this user's programs keep what can be made again: $XDG_CACHE_HOME/ringwood, or that of
// $HOME/.cache. Empty where neither is an absolute path.
std::string cache_directory();

// The few variables of other launchers that say who we are; with the one above the only
// other uses of getenv.
// Looks at RANK/WORLD_SIZE/LOCAL_RANK/MASTER_ADDR/MASTER_PORT, then OMPI_COMM_WORLD_*,
// PMI_*/PMIX_RANK, SLURM_*.
struct LaunchEnvironment {
  int rank = -1, world_size = -1, local_rank = -1, local_size = -1;
  std::string master_addr;  // empty: not given
  int master_port = 0;
  std::string launcher;  // "torchrun", "mpirun", "srun", "env", "" (none found)
};
LaunchEnvironment read_launch_environment();

}  // namespace ringwood
