// 64-bit numbers without a sign. Sums and products have the bits of those with one. The order of
// numbers is that of the signed ones with the highest bit turned over; an average is a sum, modulo
// 2^64, divided by the ranks. Both work on a copy.
#include "collectives/nccl/call.h"

namespace ringwood::nccl {
namespace {

constexpr uint64_t kHighest = uint64_t{1} << 63;

}  // namespace

bool needs_unsigned(const Call& call) {
  return call.is_unsigned && reduces(call.kind) && call.op != ReduceOp::sum &&
         call.op != ReduceOp::product;
}

Launched launch_unsigned(const Call& call, const CallOptions& options) {
  Communicator& group = *call.comm->group;
  const size_t count = call.count;
  const auto own = call.kind == Kind::reduce_scatter ? static_cast<size_t>(group.rank()) : 0;
  const auto ranks = static_cast<uint64_t>(group.size());
  const size_t elements = call.kind == Kind::reduce_scatter ? ranks * count : count;
  const bool averages = call.op == ReduceOp::avg;
  const auto* const in = static_cast<const uint64_t*>(call.in);
  auto copy = std::make_shared<std::vector<uint64_t>>(in, in + elements);
  if (!averages)
    for (uint64_t& number : *copy) number ^= kHighest;
  const ReduceOp op = averages ? ReduceOp::sum : call.op;
  uint64_t* const data = copy->data();
  const auto begin = [&] {
    if (call.kind == Kind::all_reduce)
      return group.all_reduce(data, count, DataType::int64, op, options);
    if (call.kind == Kind::reduce)
      return group.reduce(data, count, DataType::int64, op, call.root, options);
    return group.reduce_scatter(data, data + own * count, count, DataType::int64, op, options);
  };
  const bool has_result = call.kind != Kind::reduce || call.root == group.rank();
  auto* const out = static_cast<uint64_t*>(call.out);
  const auto finish = [=] {
    for (size_t i = 0; has_result && i < count; ++i) {
      const uint64_t number = (*copy)[own * count + i];
      out[i] = averages ? number / ranks : number ^ kHighest;
    }
  };
  return {call.comm, begin(), finish};
}

}  // namespace ringwood::nccl
