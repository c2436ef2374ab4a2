// What instructions do to threads. Those of registers are in arithmetic.h, of memory in memory.h.
#include <bit>
#include <cstring>

#include "tests/ptx/arithmetic/arithmetic.h"
#include "tests/ptx/machine.h"
#include "tests/ptx/reader/function_builder.h"

namespace ringwood::ptx {
namespace {

constexpr uint64_t kWarpBarrier = uint64_t{1} << 63;
constexpr size_t kLocalBytes = 1 << 20;

void load_from_frame(Thread& thread, const Instruction& x) {
  const int bits = bits_of(x.type);
  const uint8_t* from = thread.bytes.data() + thread.frames.back().bytes + x.offset;
  uint64_t* slots = thread.frame_slots();
  for (int i = 0; i < x.count; ++i) {
    uint64_t value = 0;
    std::memcpy(&value, from + i * bits / 8, static_cast<size_t>(bits) / 8);
    if (is_signed(x.type))
      value = low_bits(static_cast<uint64_t>(sign_extended(value, bits)), x.dst_bits);
    slots[x.dst[i]] = value;
  }
}
void store_to_frame(Thread& thread, const Instruction& x) {
  const int bits = bits_of(x.type);
  uint8_t* to = thread.bytes.data() + thread.frames.back().bytes + x.offset;
  for (int i = 0; i < x.count; ++i)
    std::memcpy(to + i * bits / 8, &thread.frame_slots()[x.src[1 + i]],
                static_cast<size_t>(bits) / 8);
}

uint64_t warp_barrier(const Thread& thread, uint64_t mask) {
  return kWarpBarrier | static_cast<uint64_t>(thread.index) / 32 << 32 | low_bits(mask, 32);
}
// Threads of the barrier's warp that are in its mask and not done.
uint64_t wanted_of_warp(const Block& block, uint64_t barrier) {
  const size_t first = (barrier >> 32 & 0xffff) * 32;
  uint64_t wanted = 0;
  for (size_t i = 0; i < 32 && first + i < block.threads.size(); ++i)
    wanted += (barrier >> i & 1) != 0 && !block.threads[first + i]->done ? 1 : 0;
  return wanted;
}

uint64_t result_of(Vote vote, uint64_t votes, uint64_t arrived) {
  if (vote == Vote::count) return votes;
  return (vote == Vote::all ? votes == arrived : votes > 0) ? 1 : 0;
}

}  // namespace

void Machine::enter(Thread& thread, const Function& function) {
  Frame frame{&function, 0, thread.slots.size(), aligned(thread.bytes.size(), 16),
              aligned(thread.local.bytes.size(), 16)};
  thread.slots.insert(thread.slots.end(), function.initial.begin(), function.initial.end());
  thread.bytes.resize(frame.bytes + function.frame_bytes);
  thread.local.resize(frame.local + function.local_bytes);
  if (thread.local.bytes.size() > kLocalBytes) throw Fault(Fault::outside, "too much local memory");
  thread.frames.push_back(frame);
  const Block& block = *thread.block;
  const auto value = [&](const Symbol& symbol) -> uint64_t {
    const auto index = static_cast<uint64_t>(thread.index);
    switch (symbol.kind) {
      case Symbol::shared: return block.shared + symbol.offset;
      case Symbol::local: return thread.local.base + frame.local + symbol.offset;
      case Symbol::param: return block.parameters + symbol.offset;
      case Symbol::variable: return variables_[symbol.offset];
      case Symbol::tid: return index;
      case Symbol::ntid: return static_cast<uint64_t>(block.size);
      case Symbol::ctaid: return static_cast<uint64_t>(block.index);
      case Symbol::nctaid: return static_cast<uint64_t>(block.blocks);
      case Symbol::laneid: return index % 32;
      case Symbol::warpid: return index / 32;
    }
    return 0;
  };
  for (const Symbol& symbol : function.symbols) thread.frame_slots()[symbol.slot] = value(symbol);
}

void Machine::burst(Thread& thread, uint32_t length) {
  for (uint32_t i = 0; i < length; ++i) {
    Frame& frame = thread.frames.back();
    const Instruction& x = frame.function->code[frame.pc++];
    uint64_t* slots = thread.slots.data() + frame.slots;
    ++executed_;
    if (x.guard != kNoSlot && (slots[x.guard] != 0) == x.negated) continue;
    if (x.opcode == Opcode::compute) {
      x.compute(slots, x);
      continue;
    }
    execute(thread, x);
    if (thread.runnable == Thread::kNotRunnable) return;
  }
}

void Machine::execute(Thread& thread, const Instruction& x) {
  Frame& frame = thread.frames.back();
  uint64_t* slots = thread.slots.data() + frame.slots;
  switch (x.opcode) {
    case Opcode::load: memory_.load(thread.agent, thread.local, x, slots); break;
    case Opcode::store: memory_.store(thread.agent, thread.local, x, slots); break;
    case Opcode::load_slot: load_from_frame(thread, x); break;
    case Opcode::store_slot: store_to_frame(thread, x); break;
    case Opcode::atomic: memory_.atomic(thread.agent, x, slots); break;
    case Opcode::fence: memory_.fence(thread.agent, x.order, x.scope); break;
    case Opcode::barrier:
      wait_at_barrier(thread, low_bits(slots[x.src[0]], 32), low_bits(slots[x.src[1]], 32),
                      x.vote != Vote::none && (slots[x.src[2]] != 0) != x.negated_source);
      break;
    case Opcode::warp_barrier:
      wait_at_barrier(thread, warp_barrier(thread, slots[x.src[0]]), 0, false);
      break;
    case Opcode::branch: frame.pc = static_cast<uint32_t>(x.offset); break;
    case Opcode::branch_table: {
      const auto& targets = frame.function->tables[static_cast<size_t>(x.offset)];
      const uint64_t index = low_bits(slots[x.src[0]], 32);
      if (index >= targets.size()) throw Fault(Fault::outside, "no such branch target");
      frame.pc = targets[index];
      break;
    }
    case Opcode::call: call(thread, frame.function->calls[static_cast<size_t>(x.offset)]); break;
    case Opcode::ret: leave(thread); break;
    case Opcode::exit: end(thread); break;
    case Opcode::trap: throw Fault(Fault::trap, "trap");
    case Opcode::clock: slots[x.dst[0]] = low_bits(executed_, bits_of(x.type)); break;
    case Opcode::time:
      slots[x.dst[0]] = low_bits(executed_ * options_.instruction_ns, bits_of(x.type));
      break;
    case Opcode::isspace: slots[x.dst[0]] = memory_.is_in(slots[x.src[0]], x.space) ? 1 : 0; break;
    case Opcode::compute:
    case Opcode::nothing: break;
  }
}

void Machine::call(Thread& thread, const Call& call) {
  const Function& callee = module_.functions()[call.function];
  if (!callee.defined || callee.entry || call.arguments.size() != callee.params.size() ||
      (call.result == kNoSlot) != (callee.result.bytes == 0))
    throw Fault(Fault::unknown, "no such function to call: " + callee.name);
  const size_t from = thread.frames.back().bytes;
  enter(thread, callee);
  uint8_t* to = thread.bytes.data() + thread.frames.back().bytes;
  for (size_t i = 0; i < callee.params.size(); ++i)
    std::memcpy(to + callee.params[i].at, thread.bytes.data() + from + call.arguments[i],
                callee.params[i].bytes);
}

void Machine::leave(Thread& thread) {
  if (thread.frames.size() == 1) return end(thread);
  const Frame left = thread.frames.back();
  thread.frames.pop_back();
  const Frame& frame = thread.frames.back();
  const Call& call = frame.function->calls[static_cast<size_t>(thread.last().offset)];
  if (call.result != kNoSlot)
    std::memcpy(thread.bytes.data() + frame.bytes + call.result,
                thread.bytes.data() + left.bytes + left.function->result.at,
                left.function->result.bytes);
  thread.slots.resize(left.slots);
  thread.bytes.resize(left.bytes);
  thread.local.resize(left.local);
}

void Machine::end(Thread& thread) {
  thread.done = true;
  scheduler_.remove(thread);
  --threads_left_;
  Block& block = *thread.block;
  --block.left;
  // Barriers wait for those that are left.
  for (size_t i = 0; i < block.waiting.size();) i += opened(block, i) ? 0 : 1;
}

void Machine::wait_at_barrier(Thread& thread, uint64_t barrier, uint64_t wanted, bool vote) {
  Block& block = *thread.block;
  thread.barrier = barrier;
  scheduler_.remove(thread);
  auto waiting = std::ranges::find(block.waiting, barrier, &Block::Waiting::barrier);
  if (waiting == block.waiting.end())
    waiting = block.waiting.insert(waiting, {barrier, wanted, 0, 0});
  ++waiting->arrived;
  waiting->votes += vote ? 1 : 0;
  opened(block, static_cast<size_t>(waiting - block.waiting.begin()));
}

// Lets its threads go on, if all are there: each knows then what any of them knew.
bool Machine::opened(Block& block, size_t at) {
  const Block::Waiting waiting = block.waiting[at];
  const bool warp = (waiting.barrier & kWarpBarrier) != 0;
  const uint64_t wanted = warp                  ? wanted_of_warp(block, waiting.barrier)
                          : waiting.wanted == 0 ? static_cast<uint64_t>(block.left)
                                                : waiting.wanted;
  if (waiting.arrived < wanted) return false;
  block.waiting.erase(block.waiting.begin() + static_cast<ptrdiff_t>(at));
  const auto waits = [&](const Thread& thread) {
    return !thread.done && thread.runnable == Thread::kNotRunnable &&
           thread.barrier == waiting.barrier;
  };
  Clock all;
  for (const auto& thread : block.threads)
    if (waits(*thread)) all.join(thread->agent.clock);
  for (const auto& thread : block.threads)
    if (waits(*thread)) {
      const Instruction& x = thread->last();
      if (x.vote != Vote::none)
        thread->frame_slots()[x.dst[0]] = result_of(x.vote, waiting.votes, waiting.arrived);
      thread->agent.clock = all;
      thread->agent.next_tick();
      scheduler_.add(*thread);
    }
  return true;
}

}  // namespace ringwood::ptx
