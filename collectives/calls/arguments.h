// Checks the caller's arguments before anything is changed, and turns them into
// CollectiveArgs. All checks throw Error(invalid_argument) with one sentence that begins with
// the collective's name. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "collectives/call.h"
#include "collectives/plan/plan.h"

namespace ringwood {

// `blocks` blocks of `count` elements are no more bytes than an object can have, and have memory.
void check_buffer(const char* what, const void* data, size_t count, DataType type, int blocks = 1);
// There are `blocks` blocks for a group of `size` ranks; `which`: "input".
void check_blocks(const char* what, const char* which, size_t blocks, int size);
// Likewise of blocks, which have memory, and together are no more bytes than an object can have.
template <class AnyBlock>
void check_blocks(const char* what, const char* which, const std::vector<AnyBlock>& blocks,
                  DataType type, int size) {
  check_blocks(what, which, blocks.size(), size);
  size_t count = 0;
  for (const AnyBlock& block : blocks) {
    check_buffer(what, block.data, block.count, type);
    count += block.count;  // of two such counts the sum can be counted
    check_buffer(what, &block, count, type);
  }
}
void check_equal(const char* what, size_t count, size_t expected);
// All have `count` elements; with `only`, that one has.
template <class AnyBlock>
void check_sizes(const char* what, const std::vector<AnyBlock>& blocks, size_t count,
                 std::optional<int> only) {
  for (size_t i = 0; i < blocks.size(); ++i)
    if (!only || i == static_cast<size_t>(*only)) check_equal(what, blocks[i].count, count);
}
void check_root(const char* what, int root, int size);
// Refuses memory of a device where only the host can do what is asked for, also where it is what
// the buffers are copies of.
void check_memory(const CollectiveArgs& args, const CallOptions& call, int size);
void check_op(Collective collective, DataType type, ReduceOp op);

// `size` blocks of `count` elements, one after the other; checked.
template <class AnyBlock>
std::vector<AnyBlock> equal_blocks(const char* what, decltype(AnyBlock::data) data, size_t count,
                                   DataType type, int size) {
  check_buffer(what, data, count, type, size);
  using Byte = std::conditional_t<std::is_same_v<AnyBlock, Block>, std::byte, const std::byte>;
  std::vector<AnyBlock> blocks;
  for (size_t r = 0; r < static_cast<size_t>(size); ++r)
    blocks.push_back({static_cast<Byte*>(data) + r * count * size_of(type), count});
  return blocks;
}
template <class AnyBlock>
std::vector<size_t> counts_of(const std::vector<AnyBlock>& blocks) {
  std::vector<size_t> counts;
  for (const AnyBlock& block : blocks) counts.push_back(block.count);
  return counts;
}
template <class AnyBlock>
std::vector<void*> buffers_of(const std::vector<AnyBlock>& blocks) {
  std::vector<void*> buffers;
  for (const AnyBlock& block : blocks) buffers.push_back(const_cast<void*>(block.data));
  return buffers;
}
// Sets the sizes of blocks that all ranks know; changes nothing where they are of one size.
CollectiveArgs with_counts(CollectiveArgs args, const std::vector<size_t>& counts);

// What one rank reads and writes. Inputs may share memory with each other.
struct Blocks {
  std::span<const ConstBlock> in;
  std::span<const Block> out;
  // This rank's own: in[own_in] may be exactly out[own_out].
  size_t own_in = 0, own_out = 0;
};
// Checks that no output shares memory with another output or with an input, which would be
// overwritten before it is sent. O(blocks) where outputs ascend in memory and are disjoint from the
// inputs, otherwise O(blocks log blocks).
void check_apart(const char* what, const Blocks& blocks, DataType type);

// The peer of a message; -1 is none.
void check_peer(const char* what, int peer, int rank, int size);

// The checked arguments of all_reduce, reduce and broadcast.
CollectiveArgs in_place(Collective collective, const void* data, size_t count, DataType type,
                        ReduceOp op, int root, int size);
// The checked arguments of all_gather and reduce_scatter.
CollectiveArgs gathered(const ConstBlock& in, const std::vector<Block>& out, DataType type,
                        int rank, int size);
CollectiveArgs scattered(const std::vector<ConstBlock>& in, const Block& out, DataType type,
                         ReduceOp op, int rank, int size);
// The checked arguments of all_to_all with blocks of any sizes.
CollectiveArgs exchanged(const std::vector<ConstBlock>& in, const std::vector<Block>& out,
                         DataType type, int rank, int size);
// Of gather and scatter; `uneven`: as in CallOptions.
CollectiveArgs gathered_at(int root, const ConstBlock& in, const std::vector<Block>& out,
                           DataType type, int rank, int size, bool uneven);
CollectiveArgs scattered_from(int root, const std::vector<ConstBlock>& in, const Block& out,
                              DataType type, int rank, int size, bool uneven);
CollectiveArgs make_args(Collective collective, DataType type, size_t count,
                         ReduceOp op = ReduceOp::sum, int root = 0);

}  // namespace ringwood
