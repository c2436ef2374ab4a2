#include "tools/perf/perf_calls.h"

#include <fmt/format.h>

#include "collectives/plan/proved_schedules.h"
#include "tools/perf/perf_memory.h"

namespace ringwood::tools {
namespace {

size_t reported_bytes(const OperationRow& row, const Call& call) {
  return call.block_bytes() * static_cast<size_t>(row.in_blocks() ? call.size() : 1);
}

}  // namespace

struct PerfCalls::Kind {
  const OperationRow& row;
  DataType type;
  ReduceOp op;
  int root;
};

PerfCalls::PerfCalls(const PerfOptions& perf, double tolerance, Communicator& communicator,
                     const std::vector<HostRanks>& hosts)
    : perf_(perf),
      tolerance_(tolerance),
      communicator_(communicator),
      memory_(memory_of_rank(communicator, hosts)) {
  if (perf.memory == BufferKind::device)
    device_.emplace(Options::from_environment().cuda, hosts, communicator.rank());
}

bool PerfCalls::each(CallVisitor& visitor) {
  for (const OperationRow* row : perf_.operations) {
    if (!row->collective && communicator_.size() == 1) continue;
    visitor.begin(*row);
    if (!each_of(*row, visitor)) return false;
  }
  return true;
}

bool PerfCalls::each_of(const OperationRow& row, CallVisitor& visitor) {
  if (!row.moves_data())
    return sweep({row, DataType::uint8, ReduceOp::sum, perf_.root}, {0}, visitor);
  const std::vector<ReduceOp> ops = row.reduces() ? perf_.ops : std::vector{ReduceOp::sum};
  const std::vector<int> roots =
      row.rooted() ? roots_of(perf_, communicator_.size()) : std::vector{perf_.root};
  for (const DataType type : perf_.types)
    for (const ReduceOp op : ops) {
      if (row.collective && !supports(*row.collective, type, op)) continue;
      for (const int root : roots)
        if (!sweep({row, type, op, root}, perf_.sizes, visitor)) return false;
    }
  return true;
}

bool PerfCalls::sweep(const Kind& kind, const std::vector<size_t>& sizes, CallVisitor& visitor) {
  const OperationRow& row = kind.row;
  Call call{&communicator_, kind.type,           kind.op, kind.root, 0, nullptr,
            nullptr,        perf_.call_options()};
  if (row.reduces()) call.options.factor = Pattern::factor(kind.op, communicator_.rank());
  const Pattern pattern = row.reduces() ? Pattern(kind.type, kind.op, call.size(), tolerance_)
                                        : Pattern(kind.type, call.size());
  size_t last = 0;
  for (const size_t bytes : sizes) {
    if (too_large(row, bytes, visitor)) break;
    call.count = bytes == 0 ? 0 : count_for(row, bytes, kind.type, call.size());
    if (call.count == last && last != 0) continue;  // sizes below one element per block
    last = call.count;
    if (!visit_with_buffers(row, call, pattern, visitor)) return false;
  }
  return true;
}

bool PerfCalls::visit_with_buffers(const OperationRow& row, Call& call, const Pattern& pattern,
                                   CallVisitor& visitor) const {
  const size_t in_bytes = row.inputs(call) * call.block_bytes();
  const size_t out_bytes = row.in_place() ? 0 : row.outputs(call) * call.block_bytes();
  if (device_) {
    const DeviceBuffers buffers(*device_, in_bytes, out_bytes);
    buffers.use(call);
    return visitor.visit(row, call, pattern);
  }
  const Buffer in(in_bytes, perf_.memory);
  std::optional<Buffer> out;
  call.in = in.data();
  call.out = row.in_place() ? in.data() : out.emplace(out_bytes, perf_.memory).data();
  return visitor.visit(row, call, pattern);
}

// Of its buffers, and of the two that measure what memory allows. Said once, as nccl-tests does.
bool PerfCalls::too_large(const OperationRow& row, size_t bytes, CallVisitor& visitor) {
  const size_t most = memory_ / (row.in_place() ? 3 : 4);
  if (bytes <= most) return false;
  if (perf_.sizes.front() > most)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the buffers of {} B do not fit into the memory that is left; {} is "
                            "the largest size of {} here",
                            bytes, most, row.name()));
  if (!reduced_) visitor.reduced(most);
  return reduced_ = true;
}

Row PerfCalls::describe(const OperationRow& row, const Call& call) const {
  Row result;
  result.collective = row.name();
  result.ranks = call.size();
  result.bytes = reported_bytes(row, call);
  result.count = call.count;
  result.dtype = call.count == 0 ? "none" : to_string(call.type);
  result.op = row.reduces() ? to_string(call.op) : "none";
  if (row.rooted()) result.root = call.root;
  result.bus_factor = row.bus_factor(call.size());
  if (call.size() == 1) {
    result.algorithm = result.transports = "none";
  } else if (!row.collective) {
    result.algorithm = "none";
    result.transports = communicator_.transport_to(wrap(call.rank() + 1, call.size()));
  } else {
    const auto choice =
        communicator_.choice(*row.collective, call.block_bytes(), call.type, call.op);
    const bool chosen = perf_.algorithms.empty() && !perf_.schedules;
    result.algorithm = chosen            ? choice.algorithm
                       : perf_.schedules ? std::string(kUserSchedules)
                                         : perf_.algorithms.front();
    if (chosen && choice.wire != "float32") result.algorithm += "+" + choice.wire;
    result.segments = perf_.segments > 0 ? perf_.segments : perf_.schedules ? 1 : choice.segments;
    result.transports = choice.transports;
  }
  return result;
}

}  // namespace ringwood::tools
