// One call of a collective, or of send or receive, as the entry points hand it on; and what carries
// calls out.
//
// launch() takes the calls of one group, of one thread, on any number of communicators: all are
// launched in their order on each communicator before anything is waited for.
//
// Thread safety: all functions. Errors: thrown; the first of the group.
#pragma once

#include <vector>

#include "collectives/nccl/comm.h"
#include "transports/cuda/cuda_types.h"

namespace ringwood::nccl {

enum class Kind : uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  send,
  recv
};
const char* to_string(Kind kind);  // "ncclAllReduce"
bool reduces(Kind kind);

struct Call {
  CommPtr comm;
  Kind kind{};
  const void* in = nullptr;  // null: not used by this rank
  void* out = nullptr;
  size_t count = 0;  // of the buffer, or of a block
  DataType type = DataType::float32;
  bool is_unsigned = false;  // `type` is int64, and the numbers have no sign
  ReduceOp op = ReduceOp::sum;
  Factor factor;  // of PREMUL_SUM
  int root = 0;   // or the peer
  cuda::CUstream stream = nullptr;
  int gpu = -1;  // its memory; -1: the CPU's
};

void launch(const std::vector<Call>& calls);

// The value of an element. Of floating types.
double value_of(const void* element, DataType type);
// What PREMUL_SUM multiplies by.
double factor_of(const Call& call);

// A call on memory of the CPU that was launched.
struct Launched {
  CommPtr comm;
  OperationPtr operation;        // null: nothing to wait for
  std::function<void()> finish;  // after it has succeeded; or empty
};
// `alone`: the caller waits for nothing else, and it is done when this returns.
Launched launch_on_host(const Call& call, bool alone);
// Sums and comparisons of 64-bit numbers without a sign, which the executors do not have.
bool needs_unsigned(const Call& call);
Launched launch_unsigned(const Call& call, const CallOptions& options);

}  // namespace ringwood::nccl
