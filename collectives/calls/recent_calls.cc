#include "collectives/calls/recent_calls.h"

namespace ringwood {
namespace {

bool is_of(const CollectiveArgs& args, const EvenCall& even) {
  return args.collective == even.collective && args.type == even.type && args.op == even.op &&
         args.root == even.root && args.count == even.count && args.blocks.empty();
}

bool is_for(const PlanRequest& request, const CallOptions& call, bool private_source) {
  return request.segments == call.segments && request.algorithm == call.algorithm &&
         request.tolerance == call.tolerance && request.own == call.schedules &&
         request.private_source == private_source && request.memory == memory_of(call);
}

// Sets each to `bytes` bytes, in sequence.
void put_consecutive(std::span<void*> buffers, const void* first, size_t bytes) {
  auto* at = static_cast<std::byte*>(const_cast<void*>(first));
  for (void*& buffer : buffers) {
    buffer = at;
    at += bytes;
  }
}

// Sets the buffers of block-wise collectives. False: where they lie needs the full checks.
bool take_blocks(CollectiveCall& call, const EvenCall& even) {
  const Plan& plan = *call.plan;
  const GroupRank at{plan.schedule.rank, plan.schedule.n, even.root};
  const auto inputs = static_cast<size_t>(input_blocks(even.collective, at));
  const auto outputs = static_cast<size_t>(output_blocks(even.collective, at));
  const size_t bytes = even.count * plan.element;
  const auto own = static_cast<size_t>(plan.schedule.rank);
  const auto* const in = static_cast<const std::byte*>(even.in);
  auto* const out = static_cast<std::byte*>(even.out);
  const bool gathers = sends_from_input(even.collective);
  const bool scatters = may_overwrite_input(even.collective);
  if (!in || !out || bytes == 0) return false;
  const bool is_own = (gathers && in == out + own * bytes) || (scatters && out == in + own * bytes);
  if (!is_own && in + inputs * bytes > out && out + outputs * bytes > in) return false;
  const std::span<void*> buffers = call.buffers;
  if (gathers) {
    put_consecutive(buffers, out, bytes);
    send_from(call, own, in, bytes);
  } else {
    put_consecutive(buffers.first(inputs), in, bytes);
    put_consecutive(buffers.subspan(inputs), out, bytes);
  }
  return true;
}

// False: the arguments need the full checks.
bool take_buffers(CollectiveCall& call, const EvenCall& even) {
  if (!moves_data(even.collective)) return true;
  if (in_blocks(even.collective)) return take_blocks(call, even);
  if (!even.out && even.count > 0) return false;
  call.buffers.front() = even.out;
  return true;
}

}  // namespace

const RecentCalls::State* RecentCalls::again(const Hold&, const EvenCall& even,
                                             const CallOptions& call, bool private_source,
                                             Duration timeout) {
  if (even.op == ReduceOp::premul_sum) return nullptr;  // has its own factors
  Recent* const recent = find([&](const Plan& plan) {
    return is_of(plan.key.args, even) && is_for(plan.key.request, call, private_source);
  });
  if (!recent || !recent->free()) return nullptr;
  CollectiveState& state = *recent->state;
  state.reuse(state.name, timeout);
  CollectiveCall& again = state.draft();
  again.priority = call.priority;
  return take_buffers(again, even) ? &recent->state : nullptr;
}

RecentCalls::Recent& RecentCalls::like(const PlanKey& key) {
  const auto same = [&](const Plan& plan) { return plan.key == key; };
  if (Recent* const recent = find(same)) return *recent;
  last_ = next_;
  next_ = (next_ + 1) % recent_.size();
  Recent& oldest = recent_[last_];
  oldest.known = false;
  return oldest;
}

}  // namespace ringwood
