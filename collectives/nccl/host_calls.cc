// Calls on memory of the CPU, by the Communicator.
#include <cstring>

#include "collectives/kernels/reduce.h"
#include "collectives/kernels/types.h"
#include "collectives/nccl/call.h"

namespace ringwood::nccl {
namespace {

std::byte* at(const void* data, size_t bytes) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(data)) + bytes;
}

// Out of place: what the executors change is the output.
void* copied(const Call& call) {
  if (call.out && call.in && call.in != call.out)
    std::memmove(call.out, call.in, call.count * size_of(call.type));
  return call.out ? call.out : at(call.in, 0);
}

std::vector<Block> blocks_of(const Call& call, const void* data) {
  std::vector<Block> all;
  const size_t bytes = call.count * size_of(call.type);
  for (int rank = 0; data && rank < call.comm->size; ++rank)
    all.push_back({at(data, static_cast<size_t>(rank) * bytes), call.count});
  return all;
}

OperationPtr gather(const Call& call, const CallOptions& options) {
  return call.comm->group->gather({call.in, call.count}, blocks_of(call, call.out), call.type,
                                  call.root, options);
}

OperationPtr scatter(const Call& call, const CallOptions& options) {
  std::vector<ConstBlock> in;
  for (const Block& block : blocks_of(call, call.in)) in.push_back({block.data, block.count});
  return call.comm->group->scatter(std::move(in), {call.out, call.count}, call.type, call.root,
                                   options);
}

OperationPtr begin(const Call& call, const CallOptions& options) {
  Communicator& group = *call.comm->group;
  const size_t count = call.count;
  const DataType type = call.type;
  switch (call.kind) {
    case Kind::all_reduce: return group.all_reduce(copied(call), count, type, call.op, options);
    case Kind::reduce: return group.reduce(copied(call), count, type, call.op, call.root, options);
    case Kind::broadcast: return group.broadcast(copied(call), count, type, call.root, options);
    case Kind::all_gather: return group.all_gather(call.in, call.out, count, type, options);
    case Kind::reduce_scatter:
      return group.reduce_scatter(call.in, call.out, count, type, call.op, options);
    case Kind::all_to_all: return group.all_to_all(call.in, call.out, count, type, options);
    case Kind::gather: return gather(call, options);
    case Kind::scatter: return scatter(call, options);
    case Kind::send: return group.send(call.in, count, type, call.root, 0, options);
    case Kind::recv: break;
  }
  return group.recv(call.out, count, type, call.root, 0, options);
}

}  // namespace

double value_of(const void* element, DataType type) {
  if (type == DataType::float64) {
    double value = 0;
    std::memcpy(&value, element, sizeof value);
    return value;
  }
  float value = 0;
  if (type == DataType::float32)
    std::memcpy(&value, element, sizeof value);
  else
    widen(&value, element, 1, type);
  return value;
}

double factor_of(const Call& call) {
  return call.factor.at ? value_of(call.factor.at, call.type) : call.factor.value;
}

Launched launch_on_host(const Call& call, bool alone) {
  CallOptions options;
  options.synchronous = alone;
  options.factor = factor_of(call);
  if (needs_unsigned(call)) return launch_unsigned(call, options);
  return {call.comm, begin(call, options), {}};
}

}  // namespace ringwood::nccl
