// The caller's mistakes, found before anything is changed: all of these throw
// Error(invalid_argument) with one sentence that begins with the collective's name. Pure.
#pragma once

#include <span>
#include <string>

#include "collectives/communicator.h"

namespace ringwood {

[[noreturn]] void refuse(const std::string& why);

void check_buffer(const char* what, const void* data, size_t count);
// `blocks` are there for a group of `size` ranks; `which`: "input".
void check_blocks(const char* what, const char* which, size_t blocks, int size);
void check_equal(const char* what, size_t count, size_t expected);
void check_root(const char* what, int root, int size);
void check_op(const char* what, DataType type, ReduceOp op);

// What one rank reads and writes. Inputs may share memory with each other.
struct Blocks {
  std::span<const ConstBlock> in;
  std::span<const Block> out;
  // This rank's own: in[own_in] may be exactly out[own_out].
  size_t own_in = 0, own_out = 0;
};
// No output shares memory with another output or with an input: it would be overwritten before it
// has been sent. O(blocks) where outputs ascend in memory and lie apart from the inputs, else
// O(blocks log blocks).
void check_apart(const char* what, const Blocks& blocks, DataType type);

}  // namespace ringwood
