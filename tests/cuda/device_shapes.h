// Calls of collectives on GPUs, each of which is compared with the executors of the CPU.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/cuda/device_ranks_on_double.h"
#include "tests/support/special_numbers.h"

namespace ringwood::testing {

using device::DeviceCall;
using device::DeviceOptions;

struct Shape {
  Collective collective;
  const char* row;
  size_t count;
  DataType type;
  ReduceOp op;
  int packets, segments;
  int mapped;  // 0: at no rank, 1: at all, 2: at every other one
};

struct Buffers {
  std::vector<std::byte> input, output;
};
inline Buffers filled(const Shape& shape, const GroupRank& at, uint64_t seed) {
  const size_t block = shape.count * size_of(shape.type);
  Buffers made;
  made.input.resize(static_cast<size_t>(input_blocks(shape.collective, at)) * block);
  made.output.resize(static_cast<size_t>(output_blocks(shape.collective, at)) * block,
                     std::byte{0x5a});
  fill_special(made.input.data(), made.input.size() / size_of(shape.type), shape.type,
               seed * 64 + static_cast<uint64_t>(at.rank));
  return made;
}

// By the executors of the CPU, with the same row.
inline void on_cpu(Communicator& group, const Shape& shape, Buffers& buffers, int root) {
  CallOptions options;
  options.algorithm = shape.row;
  options.segments = shape.segments;  // the order of additions is that of the chunks
  options.factor = 0.5 + group.rank();
  void *const in = buffers.input.data(), *const out = buffers.output.data();
  const auto done = [&]() -> OperationPtr {
    switch (shape.collective) {
      case Collective::all_reduce:
        return group.all_reduce(in, shape.count, shape.type, shape.op, options);
      case Collective::reduce:
        return group.reduce(in, shape.count, shape.type, shape.op, root, options);
      case Collective::broadcast:
        return group.broadcast(in, shape.count, shape.type, root, options);
      case Collective::all_gather:
        return group.all_gather(in, out, shape.count, shape.type, options);
      case Collective::reduce_scatter:
        return group.reduce_scatter(in, out, shape.count, shape.type, shape.op, options);
      default: return group.all_to_all(in, out, shape.count, shape.type, options);
    }
  }()
                                 ->wait();
  EXPECT_TRUE(done) << done.error().message();
}

inline void compare(Communicator& group, DeviceRank& rank, const Shape& shape, uint64_t seed) {
  const int root = has_root(shape.collective) ? group.size() - 1 : 0;
  const GroupRank at{group.rank(), group.size(), root};
  const bool in_place = !in_blocks(shape.collective);
  Buffers buffers = filled(shape, at, seed);
  const auto place = [&](size_t bytes) {
    return shape.mapped == 1 || (shape.mapped == 2 && group.rank() % 2 == 0)
               ? rank.calls->allocate(bytes)
               : rank.plain(bytes);
  };
  DeviceCall call{shape.collective};
  call.input = place(buffers.input.size());
  call.output = in_place ? call.input : place(buffers.output.size());
  call.count = shape.count;
  call.type = shape.type;
  call.op = shape.op;
  call.root = root;
  call.factor = 0.5 + group.rank();
  call.algorithm = shape.row;
  call.segments = shape.segments;
  call.packets = shape.packets;
  rank.write(call.input, buffers.input, rank.stream.get());
  if (!in_place) rank.write(call.output, buffers.output, rank.stream.get());
  const Status done = rank.run(call);
  ASSERT_TRUE(done) << done.error().message();
  on_cpu(group, shape, buffers, root);
  const auto& expected = in_place ? buffers.input : buffers.output;
  // Of a reduce's other ranks the device leaves what it has, as the CPU does.
  EXPECT_EQ(rank.read(call.output, expected.size()), expected)
      << to_string(shape.collective) << " " << shape.row << " " << to_string(shape.type) << " "
      << to_string(shape.op) << " count " << shape.count << " rank " << group.rank();
}

inline std::vector<Shape> shapes() {
  std::vector<Shape> all;
  const std::pair<Collective, const char*> rows[] = {
      {Collective::all_reduce, "direct"},     {Collective::all_reduce, "one_shot"},
      {Collective::all_reduce, "ring"},       {Collective::reduce, "linear"},
      {Collective::broadcast, "binomial"},    {Collective::all_gather, "direct"},
      {Collective::reduce_scatter, "direct"}, {Collective::reduce_scatter, "pat"},
      {Collective::all_to_all, "pairwise"}};
  const std::pair<DataType, ReduceOp> kinds[] = {
      {DataType::float32, ReduceOp::sum},    {DataType::bfloat16, ReduceOp::avg},
      {DataType::float16, ReduceOp::max},    {DataType::int32, ReduceOp::bxor},
      {DataType::int64, ReduceOp::avg},      {DataType::complex64, ReduceOp::premul_sum},
      {DataType::float8_e4m3, ReduceOp::sum}};
  int turn = 0;
  for (const auto& [collective, row] : rows)
    for (const size_t count : {size_t{3}, size_t{1000}})
      for (int which = 0; which < 3; ++which) {
        const auto& [type, op] = kinds[++turn % std::size(kinds)];
        all.push_back({collective, row, count, type, op, turn % 2, count > 100 ? 3 : 1, turn % 3});
      }
  return all;
}

inline DeviceOptions small() {
  DeviceOptions options;
  options.arena_bytes = size_t{4} << 20;
  options.staging_bytes = size_t{64} << 10;
  options.segments = 4;
  options.packet_bytes = 32 << 10;
  return options;
}

}  // namespace ringwood::testing
