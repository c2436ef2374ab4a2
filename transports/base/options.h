// The knobs of a group, as a plain value: every field but tuner_plugin is a row of the table of
// knobs (knobs/), that says what it does and why its default is as it is. `ringwood env --why`
// prints that.
//
// The environment is read once, by from_environment(), when a communicator is made. A variable that
// begins with RINGWOOD_ but is not a knob is warned about with the nearest name. A value that
// cannot be parsed throws Error(invalid_argument) naming variable and value. NCCL's variables that
// are used, and those that are set but have no meaning here, are named in the log (info), once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "transports/base/log.h"

struct ringwood_tuner;

namespace ringwood {

// The most collectives of a group that can be under way at once.
inline constexpr int kMaxInFlight = 8;

// In shared memory a message goes through the ring in pieces of so many bytes, so that both ends
// copy at the same time; or, from so many on, stays where its receiver can read it. Below, a copy
// through the ring is cheaper than the two lines that this costs.
inline constexpr size_t kShmPiece = size_t{128} << 10, kShmZeroCopyFrom = size_t{16} << 10;
// A verbs link with rings of this size hands a message to its rails in pieces of so many bytes.
inline constexpr size_t kMaxVerbsPiece = size_t{64} << 10;
constexpr size_t verbs_piece_bytes(size_t ring_bytes) {
  return std::min(kMaxVerbsPiece, ring_bytes / 8);
}

// RINGWOOD_VERBS_...: InfiniBand and RoCE.
struct VerbsOptions {
  bool disable = false;                       // RINGWOOD_VERBS_DISABLE
  std::string devices;                        // RINGWOOD_VERBS_DEVICES
  int gid_index = -1;                         // RINGWOOD_VERBS_GID_INDEX
  std::string address_family;                 // RINGWOOD_VERBS_ADDRESS_FAMILY
  std::string address_range;                  // RINGWOOD_VERBS_ADDRESS_RANGE
  int roce_version = 2;                       // RINGWOOD_VERBS_ROCE_VERSION
  int traffic_class = 0;                      // RINGWOOD_VERBS_TRAFFIC_CLASS
  int service_level = 0;                      // RINGWOOD_VERBS_SL
  int timeout = 20;                           // RINGWOOD_VERBS_TIMEOUT
  int retries = 7;                            // RINGWOOD_VERBS_RETRIES
  int queue_pairs = 1;                        // RINGWOOD_VERBS_QPS
  int partition = 0;                          // RINGWOOD_VERBS_PKEY
  size_t ring_bytes = size_t{1} << 20;        // RINGWOOD_VERBS_RING_BYTES
  size_t registered_bytes = size_t{4} << 30;  // RINGWOOD_VERBS_REGISTERED_BYTES
  // Messages of so many bytes are read in place, where the device can. Below, the copy (5 us for so
  // much) costs less than the wait for an acknowledgement at the end: in the laboratory
  // all-reduces of 32 to 128 KiB took 1.2 to 1.9 times as long when all was exposed.
  size_t zero_copy_bytes = size_t{128} << 10;  // RINGWOOD_VERBS_ZERO_COPY_BYTES
};

// RINGWOOD_CUDA...: memory of devices.
struct CudaOptions {
  bool enabled = true;                    // RINGWOOD_CUDA
  std::string library;                    // RINGWOOD_CUDA_LIBRARY
  bool blocking_wait = false;             // RINGWOOD_BLOCKING_WAIT
  size_t pinned_bytes = size_t{8} << 30;  // RINGWOOD_PINNED_BYTES
};

struct PortRange {
  int first = 0, last = 0;
};

struct Options {
  std::vector<std::string> transports;                              // RINGWOOD_TRANSPORTS
  std::string socket_interface;                                     // RINGWOOD_SOCKET_IFNAME
  int tcp_sockets = 0;                                              // RINGWOOD_TCP_SOCKETS
  bool listen_any = false;                                          // RINGWOOD_LISTEN_ANY
  PortRange ports;                                                  // RINGWOOD_PORT_RANGE
  std::chrono::milliseconds timeout{std::chrono::minutes(5)};       // RINGWOOD_TIMEOUT
  std::chrono::milliseconds init_timeout{std::chrono::minutes(5)};  // RINGWOOD_INIT_TIMEOUT
  std::chrono::milliseconds heartbeat{250};                         // RINGWOOD_HEARTBEAT_MS
  std::string key_file;                                             // RINGWOOD_KEY_FILE
  std::string job_id;                                               // RINGWOOD_JOB_ID
  std::string host_id;                                              // RINGWOOD_HOST_ID
  int numa_node = -1;                                               // RINGWOOD_NUMA_NODE
  size_t shm_ring_bytes = size_t{1} << 20;                          // RINGWOOD_SHM_RING_BYTES
  VerbsOptions verbs;
  CudaOptions cuda;
  std::string algorithm;                                          // RINGWOOD_ALGORITHM
  size_t segment_bytes = size_t{512} << 10;                       // RINGWOOD_SEGMENT_BYTES
  std::string calibration = "keep";                               // RINGWOOD_CALIBRATION
  std::string topology;                                           // RINGWOOD_TOPOLOGY
  std::string tuning_file;                                        // RINGWOOD_TUNING_FILE
  std::string tuner;                                              // RINGWOOD_TUNER
  const ringwood_tuner* tuner_plugin = nullptr;                   // instead (tuner_plugin.h)
  std::chrono::milliseconds remeasure{std::chrono::seconds(30)};  // RINGWOOD_REMEASURE
  bool reproducible = false;                                      // RINGWOOD_REPRODUCIBLE
  double tolerance = 0;                                           // RINGWOOD_TOLERANCE
  size_t share_tensors = 0;                                       // RINGWOOD_SHARE_TENSORS
  size_t remap = 0;                                               // RINGWOOD_REMAP
  int in_flight = 2;                                              // RINGWOOD_IN_FLIGHT
  int spin_us = -1;                                               // RINGWOOD_SPIN_US
  std::string simd;                                               // RINGWOOD_SIMD
  bool status = true;                                             // RINGWOOD_STATUS
  LogLevel log_level = LogLevel::warn;                            // RINGWOOD_LOG
  std::string trace_dir;                                          // RINGWOOD_TRACE_DIR

  static Options from_environment();
};

}  // namespace ringwood
