// What can be measured: every collective, and sendrecv (each rank sends to the next and receives
// from the one before).
//
// One row says how a measured operation lays out its buffers, what each rank must have at the end,
// and how it is called; filling, checking and timing are the same code for all of them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/kernels/types.h"
#include "collectives/schedule/collective.h"
#include "tools/perf/perf_pattern.h"

namespace ringwood::tools {

// Page-aligned memory: this process's own, of the arena that its host's ranks can map, or its own
// until the group remaps it; or of a CUDA device (perf_device.h).
enum class BufferKind { ordinary, shared, remapped, device };
// Not of a device.
class Buffer final {
 public:
  Buffer(size_t bytes, BufferKind kind);  // throws Error(system)
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  const BufferKind kind_;
  const size_t bytes_;
};

class DeviceBuffers;  // perf_device.h

// One operation with its buffers, on one rank.
struct Call {
  Communicator* communicator;
  DataType type;
  ReduceOp op;
  int root;
  size_t count;  // elements of one block
  std::byte* in;
  std::byte* out;  // == in where the operation works in place
  CallOptions options;
  const DeviceBuffers* device = nullptr;  // whose memory `in` and `out` are; null: the host's

  int rank() const { return communicator->rank(); }
  int size() const { return communicator->size(); }
  GroupRank at() const { return {rank(), size(), root}; }
  size_t block_bytes() const { return count * size_of(type); }
};

// What one block of the output must contain: what the ranks contributed at places from `first`,
// added up where `reduced`, else one rank's.
struct Expected {
  bool reduced;
  RankRange ranks;
  size_t first;
};

// What is not a collective's own fact (collective.h) is how it is called.
struct OperationRow {
  std::optional<Collective> collective;  // none: sendrecv
  void (*run)(const Call&);              // throws Error

  const char* name() const;
  bool reduces() const { return collective && ringwood::reduces(*collective); }
  bool rooted() const { return collective && has_root(*collective); }
  bool moves_data() const { return !collective || ringwood::moves_data(*collective); }
  bool in_place() const { return collective && !ringwood::in_blocks(*collective); }
  // The size that is reported counts n blocks, as nccl-tests does.
  bool in_blocks() const { return collective && ringwood::in_blocks(*collective); }
  double bus_factor(double n) const {
    return collective ? traits_of(*collective).bus_factor(n) : 1;
  }
  // Blocks of memory of this rank.
  int inputs(const Call& call) const;
  int outputs(const Call& call) const;
  Expected expected(const Call& call, size_t block) const;
};
std::span<const OperationRow> operation_table();
// Throws Error(invalid_argument) listing the names.
const OperationRow& find_operation(std::string_view name);

// Elements of a block: whole blocks that fit into `bytes`; at least one element each.
size_t count_for(const OperationRow& row, size_t bytes, DataType type, int ranks);

// Waits; throws the operation's error.
void finish(const OperationPtr& operation);
// Carried out in the calling thread, as a blocking call is; everything else as the communicator
// chooses.
CallOptions synchronous_call();

// Writes this rank's input and spoils its output.
void fill(const OperationRow& row, const Call& call, const Pattern& pattern);
// The number of elements of this rank's output that are wrong, plus those of its input that were
// changed.
size_t count_wrong(const OperationRow& row, const Call& call, const Pattern& pattern);
// A barrier moves no data: 1 if this rank left before the last one came, as the host's clock saw
// it. Ranks arrive one after another, each in its turn the last. Always 0 when the ranks are on
// several hosts.
size_t count_early_exits(const Call& call);

// What an application does around an operation: writes the input, reads the output (an element per
// cache line), if that is memory of the host.
void write_input(const OperationRow& row, const Call& call);
void read_output(const OperationRow& row, const Call& call);

}  // namespace ringwood::tools
