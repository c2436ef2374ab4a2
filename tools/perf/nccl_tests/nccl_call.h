// A collective as nccl-tests calls it: from a send buffer into a receive buffer, or in place.
//
// Both are what a program with two buffers, or with one, has to do with this library. Where a
// collective has only one of the two forms, the other one is made of it and one memcpy, which is
// part of the time:
//   all_reduce     out of place: copies the input to the output, then in place
//   reduce         likewise at the root; other ranks' buffers are only read
//   broadcast      out of place: the root sends its input, then copies it to its output
//   all_to_all     in place: copies the buffer aside, then from there (NCCL has no such form)
//   sendrecv       in place: likewise
//   scatter        in place: the root's own block stays where it is; a copy of it is thrown away
// all_gather, gather and reduce_scatter have both: in place a rank's own block lies in the others'.
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tools/perf/perf_operations.h"

namespace ringwood::tools {

class NcclCall final {
 public:
  // `call`: without buffers. Both are made here, `first` elements into their memory.
  NcclCall(const OperationRow& row, const Call& call, BufferKind kind, size_t first);

  // How many times the reported bytes are allocated.
  static size_t buffers(const OperationRow& row);

  void set_in_place(bool in_place);
  void run();  // throws Error
  // Writes known data to the input and spoils the output.
  void fill(const Pattern& pattern);
  // The number of wrong elements of the output, and of an input that was changed.
  size_t count_wrong(const Pattern& pattern) const;
  // Zeros, which stay zeros however often they are reduced.
  void clear();

  Communicator& group() const { return *call_.communicator; }
  // As nccl-tests counts: the larger one of the buffers.
  size_t reported_bytes() const;
  size_t count() const { return call_.count; }  // elements of one block
  double bus_factor() const;

 private:
  bool root_only_copies() const { return call_.rank() == call_.root; }
  void run_copying_first();
  void run_broadcast();

  const OperationRow& row_;
  Call call_;
  const size_t blocks_;  // of the larger one of the buffers
  Buffer send_, receive_;
  std::optional<Buffer> aside_;
  std::byte *send_at_, *receive_at_;
  bool in_place_ = false;
};

// The elements of a block: those that fit, in whole pieces of 16 bytes; 0 is possible.
size_t nccl_count(const OperationRow& row, size_t bytes, DataType type, int ranks);
// "float", "half", "f8e4m3"; "prod", "mulsum", "none"; "all_reduce_perf", "alltoall_perf".
std::string nccl_name(DataType type);
std::string nccl_name(const OperationRow& row, ReduceOp op);
std::string nccl_program(const OperationRow& row);
// The other way round, also of a collective: "f8e4m3" -> "float8_e4m3".
std::string from_nccl_name(const std::string& name);

}  // namespace ringwood::tools
