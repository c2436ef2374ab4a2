#include "collectives/calls/arguments.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include "collectives/kernels/accumulate.h"
#include "collectives/operations/copied_memory.h"
#include "transports/cuda/loaded_driver.h"

namespace ringwood {
namespace {

struct Extent {
  uintptr_t begin = UINTPTR_MAX, end = 0;
  bool output = false;
  size_t number = 0;

  void take_in(const Extent& other) {
    if (other.begin == other.end) return;
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
};

template <class AnyBlock>
Extent extent(const AnyBlock& block, size_t element, bool output, size_t number) {
  const auto begin = reinterpret_cast<uintptr_t>(block.data);
  return {begin, begin + block.count * element, output, number};
}

bool is_own(const Blocks& blocks, size_t in) {
  return in == blocks.own_in && blocks.own_out < blocks.out.size() &&
         blocks.in[in].data == blocks.out[blocks.own_out].data &&
         blocks.in[in].count == blocks.out[blocks.own_out].count;
}

// The usual layout: outputs in sequence, inputs elsewhere.
bool plainly_apart(const Blocks& blocks, size_t element) {
  Extent inputs, outputs;
  for (size_t i = 0; i < blocks.in.size(); ++i)
    if (!is_own(blocks, i)) inputs.take_in(extent(blocks.in[i], element, false, i));
  for (size_t i = 0; i < blocks.out.size(); ++i) {
    const Extent next = extent(blocks.out[i], element, true, i);
    if (next.begin == next.end) continue;
    if (outputs.end > next.begin) return false;
    outputs.take_in(next);
  }
  return inputs.end <= outputs.begin || outputs.end <= inputs.begin;
}

}  // namespace

void check_buffer(const char* what, const void* data, size_t count, DataType type, int blocks) {
  constexpr const char* kTooMany = "more than a process has memory for";
  const size_t most = PTRDIFF_MAX / size_of(type) / static_cast<size_t>(blocks);
  if (count > most && blocks == 1)
    refuse(fmt::format("{}: {} elements of {} are {}", what, count, to_string(type), kTooMany));
  if (count > most)
    refuse(fmt::format("{}: {} blocks of {} elements of {} are {}", what, blocks, count,
                       to_string(type), kTooMany));
  if (count && !data) refuse(fmt::format("{}: a null buffer for {} elements", what, count));
}

void check_blocks(const char* what, const char* which, size_t blocks, int size) {
  if (blocks != static_cast<size_t>(size))
    refuse(fmt::format("{}: {} {} blocks for a group of {} ranks", what, blocks, which, size));
}

void check_equal(const char* what, size_t count, size_t expected) {
  if (count != expected)
    refuse(fmt::format("{}: a block of {} elements among blocks of {}", what, count, expected));
}

void check_memory(const CollectiveArgs& args, const CallOptions& call, int size) {
  if (!cuda::LoadedDriver::known() && memory_of(call) == MemoryKind::host) [[likely]]
    return;
  const char* const name = to_string(args.collective);
  if (call.copied && cuda::LoadedDriver::known())
    for (const auto* ranges : {&call.copied->read, &call.copied->written})
      for (const CopiedMemory::Range& range : *ranges)
        cuda::LoadedDriver::refuse(name, std::array{const_cast<void*>(range.data)});
  if (memory_of(call) == MemoryKind::host) return;
  if (call.copied)
    refuse(
        fmt::format("{}: CallOptions::copied is for memory of the host: put the copies into the "
                    "stream before the call and after it",
                    name));
  if (args.op == ReduceOp::premul_sum && size == 1 && call.factor != 1)
    refuse(
        fmt::format("{}: premul_sum of a group of one rank in memory of a device is only a "
                    "multiplication: carry it out there",
                    name));
}

void check_root(const char* what, int root, int size) {
  if (root < 0 || root >= size)
    refuse(fmt::format("{}: root {} in a group of {} ranks", what, root, size));
}

void check_op(Collective collective, DataType type, ReduceOp op) {
  if (!supports(collective, type, op))
    refuse(fmt::format("{}: {} is not defined for {}", to_string(collective), to_string(op),
                       to_string(type)));
}

CollectiveArgs with_counts(CollectiveArgs args, const std::vector<size_t>& counts) {
  if (std::ranges::adjacent_find(counts, std::not_equal_to{}) == counts.end()) return args;
  args.blocks = counts;
  args.count = std::accumulate(counts.begin(), counts.end(), size_t{0});
  return args;
}

void check_apart(const char* what, const Blocks& blocks, DataType type) {
  const size_t element = size_of(type);
  if (plainly_apart(blocks, element)) return;
  std::vector<Extent> all;
  for (size_t i = 0; i < blocks.in.size(); ++i)
    if (blocks.in[i].count && !is_own(blocks, i))
      all.push_back(extent(blocks.in[i], element, false, i));
  for (size_t i = 0; i < blocks.out.size(); ++i)
    if (blocks.out[i].count) all.push_back(extent(blocks.out[i], element, true, i));
  std::ranges::sort(all, {}, &Extent::begin);
  Extent input, output;  // of each kind, the one that extends furthest so far
  for (const Extent& next : all) {
    const Extent& before = output.end > next.begin ? output : input;
    if (before.end > next.begin && (next.output || before.output))
      refuse(
          fmt::format("{}: {} block {} shares memory with {} block {}: give it memory of its own",
                      what, before.output ? "output" : "input", before.number,
                      next.output ? "output" : "input", next.number));
    Extent& furthest = next.output ? output : input;
    if (next.end > furthest.end) furthest = next;
  }
}

void check_peer(const char* what, int peer, int rank, int size) {
  if (peer < 0 || peer >= size)
    refuse(fmt::format("{}: no rank {} in a group of {}", what, peer, size));
  if (peer == rank) refuse(fmt::format("{}: rank {} cannot be its own peer", what, peer));
}

CollectiveArgs in_place(Collective collective, const void* data, size_t count, DataType type,
                        ReduceOp op, int root, int size) {
  check_buffer(to_string(collective), data, count, type);
  check_root(to_string(collective), root, size);
  check_op(collective, type, op);
  return make_args(collective, type, count, op, root);
}

CollectiveArgs gathered(const ConstBlock& in, const std::vector<Block>& out, DataType type,
                        int rank, int size) {
  check_blocks("all_gather", "output", out, type, size);
  check_buffer("all_gather", in.data, in.count, type);
  const auto own = static_cast<size_t>(rank);
  if (out[own].count != in.count)
    refuse(fmt::format("all_gather: the input has {} elements but this rank's output block {}",
                       in.count, out[own].count));
  check_apart("all_gather", {{&in, 1}, out, 0, own}, type);
  return with_counts(make_args(Collective::all_gather, type, in.count), counts_of(out));
}

CollectiveArgs scattered(const std::vector<ConstBlock>& in, const Block& out, DataType type,
                         ReduceOp op, int rank, int size) {
  check_blocks("reduce_scatter", "input", in, type, size);
  check_op(Collective::reduce_scatter, type, op);
  check_buffer("reduce_scatter", out.data, out.count, type);
  const auto own = static_cast<size_t>(rank);
  if (in[own].count != out.count)
    refuse(
        fmt::format("reduce_scatter: this rank's input block has {} elements but the output has {}",
                    in[own].count, out.count));
  check_apart("reduce_scatter", {in, {&out, 1}, own, 0}, type);
  return with_counts(make_args(Collective::reduce_scatter, type, out.count, op), counts_of(in));
}

CollectiveArgs exchanged(const std::vector<ConstBlock>& in, const std::vector<Block>& out,
                         DataType type, int rank, int size) {
  check_blocks("all_to_all", "input", in, type, size);
  check_blocks("all_to_all", "output", out, type, size);
  const auto own = static_cast<size_t>(rank);
  if (in[own].count != out[own].count)
    refuse(fmt::format("all_to_all: {} elements for itself but room for {}", in[own].count,
                       out[own].count));
  check_apart("all_to_all", {in, out, own, own}, type);
  CollectiveArgs args = make_args(Collective::all_to_all, type, 0);
  args.blocks = counts_of(in);
  std::ranges::copy(counts_of(out), std::back_inserter(args.blocks));
  return args;
}

CollectiveArgs gathered_at(int root, const ConstBlock& in, const std::vector<Block>& out,
                           DataType type, int rank, int size, bool uneven) {
  check_root("gather", root, size);
  check_buffer("gather", in.data, in.count, type, uneven ? 1 : size);
  if (root == rank) {
    check_blocks("gather", "output", out, type, size);
    check_sizes("gather", out, in.count, uneven ? std::optional(root) : std::nullopt);
    check_apart("gather", {{&in, 1}, out, 0, static_cast<size_t>(root)}, type);
  }
  const size_t count = uneven ? 0 : in.count;
  CollectiveArgs args = make_args(Collective::gather, type, count, ReduceOp::sum, root);
  if (!uneven) return args;
  args.blocks = root == rank ? counts_of(out) : std::vector<size_t>(static_cast<size_t>(size));
  args.blocks[static_cast<size_t>(rank)] = in.count;
  return args;
}

CollectiveArgs scattered_from(int root, const std::vector<ConstBlock>& in, const Block& out,
                              DataType type, int rank, int size, bool uneven) {
  check_root("scatter", root, size);
  check_buffer("scatter", out.data, out.count, type, uneven ? 1 : size);
  if (root == rank) {
    check_blocks("scatter", "input", in, type, size);
    check_sizes("scatter", in, out.count, uneven ? std::optional(root) : std::nullopt);
    check_apart("scatter", {in, {&out, 1}, static_cast<size_t>(root), 0}, type);
  }
  const size_t count = uneven ? 0 : out.count;
  CollectiveArgs args = make_args(Collective::scatter, type, count, ReduceOp::sum, root);
  if (!uneven) return args;
  if (root == rank) args.blocks = counts_of(in);
  args.blocks.resize(static_cast<size_t>(size) + 1);
  args.blocks[static_cast<size_t>(size)] = out.count;
  return args;
}

CollectiveArgs make_args(Collective collective, DataType type, size_t count, ReduceOp op,
                         int root) {
  return {collective, type, op, root, count, {}};
}

}  // namespace ringwood
