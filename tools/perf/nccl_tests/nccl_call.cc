#include "tools/perf/nccl_tests/nccl_call.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace ringwood::tools {
namespace {

constexpr int kSpoiled = 0xA5;

bool is(const OperationRow& row, Collective collective) { return row.collective == collective; }

struct Name {
  const char *ours, *theirs;
};
constexpr Name kNames[] = {{"float64", "double"},     {"float32", "float"},
                           {"float16", "half"},       {"float8_e4m3", "f8e4m3"},
                           {"float8_e5m2", "f8e5m2"}, {"product", "prod"},
                           {"premul_sum", "mulsum"},  {"all_to_all", "alltoall"}};

std::string theirs(const std::string& ours) {
  const auto found = std::ranges::find(kNames, ours, [](const Name& n) { return n.ours; });
  return found == std::end(kNames) ? ours : found->theirs;
}

size_t blocks_of(const OperationRow& row, int ranks) {
  return row.in_blocks() ? static_cast<size_t>(ranks) : 1;
}

bool has_aside(const OperationRow& row) {
  return is(row, Collective::all_to_all) || is(row, Collective::scatter) || !row.collective;
}

}  // namespace

size_t NcclCall::buffers(const OperationRow& row) { return has_aside(row) ? 3 : 2; }

NcclCall::NcclCall(const OperationRow& row, const Call& call, BufferKind kind, size_t first)
    : row_(row),
      call_(call),
      blocks_(blocks_of(row, call.size())),
      send_((blocks_ * call.count + first) * size_of(call.type), kind),
      receive_((blocks_ * call.count + first) * size_of(call.type), kind),
      send_at_(send_.data() + first * size_of(call.type)),
      receive_at_(receive_.data() + first * size_of(call.type)) {
  if (has_aside(row)) aside_.emplace(blocks_ * call.block_bytes(), kind);
  set_in_place(false);
}

void NcclCall::set_in_place(bool in_place) {
  in_place_ = in_place;
  call_.in = in_place ? receive_at_ : send_at_;
  call_.out = receive_at_;
  std::byte* const own = receive_at_ + static_cast<size_t>(call_.rank()) * call_.block_bytes();
  if (!in_place || !row_.in_blocks()) return;
  if (is(row_, Collective::all_gather) || is(row_, Collective::gather)) call_.in = own;
  if (is(row_, Collective::reduce_scatter) || is(row_, Collective::scatter)) call_.out = own;
}

void NcclCall::run() {
  if (is(row_, Collective::broadcast)) return run_broadcast();
  Call call = call_;
  if (row_.in_place()) {
    const bool reads_only = is(row_, Collective::reduce) && call.rank() != call.root;
    if (!in_place_ && !reads_only) {
      std::memcpy(call.out, call.in, call.block_bytes());
      call.in = call.out;
    }
    return row_.run(call);
  }
  if (in_place_ && aside_) {
    if (!is(row_, Collective::scatter)) {
      std::memcpy(aside_->data(), call.in, blocks_ * call.block_bytes());
      call.in = aside_->data();
    } else if (call.rank() == call.root) {
      call.out = aside_->data();
    }
  }
  row_.run(call);
}

void NcclCall::run_broadcast() {
  Call call = call_;
  const bool sends = call.rank() == call.root && !in_place_;
  if (!sends) call.in = call.out;
  row_.run(call);
  if (sends) std::memcpy(call.out, call.in, call.block_bytes());
}

void NcclCall::clear() {
  const size_t bytes = blocks_ * call_.block_bytes();
  std::memset(send_at_, 0, bytes);
  std::memset(receive_at_, 0, bytes);
}

void NcclCall::fill(const Pattern& pattern) {
  std::memset(receive_at_, kSpoiled, blocks_ * call_.block_bytes());
  if (row_.collective && !is_source(*row_.collective, call_.at())) return;
  for (int block = 0; block < row_.inputs(call_); ++block) {
    const size_t number = static_cast<size_t>(block);
    pattern.fill(call_.in + number * call_.block_bytes(), call_.count, call_.rank(),
                 number * call_.count);
  }
}

size_t NcclCall::count_wrong(const Pattern& pattern) const {
  size_t wrong = 0;
  const bool keeps_output =
      is(row_, Collective::reduce) && call_.rank() != call_.root && !in_place_;
  for (int block = 0; !keeps_output && block < row_.outputs(call_); ++block) {
    const Expected expected = row_.expected(call_, static_cast<size_t>(block));
    const std::byte* at = call_.out + static_cast<size_t>(block) * call_.block_bytes();
    wrong +=
        expected.reduced
            ? pattern.wrong_reduction(at, call_.count, expected.ranks, expected.first)
            : pattern.wrong_contribution(at, call_.count, expected.ranks.first, expected.first);
  }
  if (in_place_ || (row_.collective && !is_source(*row_.collective, call_.at()))) return wrong;
  for (int block = 0; block < row_.inputs(call_); ++block) {
    const size_t number = static_cast<size_t>(block);
    wrong += pattern.wrong_contribution(call_.in + number * call_.block_bytes(), call_.count,
                                        call_.rank(), number * call_.count);
  }
  return wrong;
}

size_t NcclCall::reported_bytes() const { return blocks_ * call_.block_bytes(); }

double NcclCall::bus_factor() const { return row_.bus_factor(call_.size()); }

size_t nccl_count(const OperationRow& row, size_t bytes, DataType type, int ranks) {
  const size_t count = bytes / size_of(type);
  if (!row.in_blocks()) return count;
  const size_t piece = std::max<size_t>(1, 16 / size_of(type));
  return count / blocks_of(row, ranks) / piece * piece;
}

std::string nccl_name(DataType type) { return theirs(to_string(type)); }

std::string nccl_name(const OperationRow& row, ReduceOp op) {
  // sendrecv, which reduces nothing, has the name of an operation there.
  return row.reduces() || !row.collective ? theirs(to_string(op)) : "none";
}

std::string nccl_program(const OperationRow& row) { return theirs(row.name()) + "_perf"; }

std::string from_nccl_name(const std::string& name) {
  const auto found = std::ranges::find(kNames, name, [](const Name& n) { return n.theirs; });
  return found == std::end(kNames) ? name : found->ours;
}

}  // namespace ringwood::tools
