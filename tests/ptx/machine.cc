#include "tests/ptx/machine.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>

namespace ringwood::ptx {

Machine::Machine(const Module& module, const Options& options)
    : module_(module), options_(options), random_(options.seed), scheduler_(options.seed) {
  for (const Variable& variable : module.variables())
    variables_.push_back(memory_.add(variable.name, variable.space, variable.initial));
}

uint32_t Machine::take_ids(uint32_t count, const std::string& name) {
  const auto first = static_cast<uint32_t>(names_.size());
  names_.resize(first + count, name);
  return first;
}

void Machine::launch(const BlockLaunch& launch) {
  const Function& kernel = module_.function(launch.kernel);
  if (!kernel.entry || launch.parameters.size() != kernel.param_bytes)
    throw std::invalid_argument(fmt::format("{} has {} bytes of parameters, not {}", launch.kernel,
                                            kernel.param_bytes, launch.parameters.size()));
  auto block = std::make_unique<Block>();
  block->number = next_block_++;
  block->index = launch.block, block->blocks = launch.blocks, block->size = launch.threads;
  const std::string name =
      fmt::format("block {} of {} on device {}", launch.block, launch.kernel, launch.device);
  if (const uint32_t bytes = module_.shared_bytes() + launch.dynamic_shared; bytes > 0)
    block->shared =
        memory_.add("shared memory of " + name, Space::shared, std::vector<uint8_t>(bytes));
  if (kernel.param_bytes > 0) {
    const auto* from = reinterpret_cast<const uint8_t*>(launch.parameters.data());
    block->parameters =
        memory_.add("parameters of " + name, Space::param, {from, launch.parameters.size()});
  }
  if (names_.size() < launch.first_thread + launch.threads)
    names_.resize(launch.first_thread + launch.threads);
  for (int i = 0; i < launch.threads; ++i) {
    auto thread = std::make_unique<Thread>();
    thread->agent.id = launch.first_thread + static_cast<uint32_t>(i);
    thread->agent.place = {launch.device, block->number};
    thread->agent.clock = launch.clock;
    thread->agent.next_tick();
    thread->index = i;
    thread->block = block.get();
    thread->local.base = memory_.add_local();
    names_[thread->agent.id] = fmt::format("thread {} of {}", i, name);
    enter(*thread, kernel);
    scheduler_.add(*thread);
    block->threads.push_back(std::move(thread));
  }
  block->left = launch.threads;
  threads_left_ += launch.threads;
  blocks_.push_back(std::move(block));
}

const Thread* Machine::step() {
  ended_.reset();
  if (scheduler_.empty()) hang("nobody can go on");
  if (executed_ > options_.instructions) hang("no end");
  Thread& thread = scheduler_.choose(random_);
  try {
    burst(thread, 1 + random_.below(options_.burst));
  } catch (const Conflict& conflict) {
    const Instruction& x = thread.last();
    const uint64_t address = thread.frame_slots()[x.src[0]] + static_cast<uint64_t>(x.offset);
    throw Fault(conflict.kind, fmt::format("{}: {} {}", place_of(thread), memory_.name_of(address),
                                           with(conflict)));
  } catch (const Fault& fault) {
    throw Fault(fault.kind, place_of(thread) + ": " + fault.what());
  }
  if (thread.runnable != Thread::kNotRunnable) scheduler_.put_back(thread);
  if (!thread.done) return nullptr;
  if (thread.block->left == 0) {
    const auto at = std::ranges::find(blocks_, thread.block, &std::unique_ptr<Block>::get);
    ended_ = std::move(*at);
    blocks_.erase(at);
    if (ended_->shared != 0) memory_.remove(ended_->shared);
    if (ended_->parameters != 0) memory_.remove(ended_->parameters);
  }
  return &thread;
}

void Machine::run() {
  while (running()) step();
}

void Machine::touch(const Agent& agent, const void* base, size_t bytes, Access access,
                    const std::string& who) {
  try {
    memory_.touch(agent, base, bytes, access);
  } catch (const Conflict& conflict) {
    const auto address = reinterpret_cast<uint64_t>(base);
    throw Fault(conflict.kind,
                fmt::format("{}: {} {}", who, memory_.name_of(address), with(conflict)));
  } catch (const Fault& fault) {
    throw Fault(fault.kind, who + ": " + fault.what());
  }
}

std::string Machine::name_of(Epoch epoch) const {
  const uint32_t thread = thread_of(epoch);
  return thread < names_.size() ? names_[thread] : "somebody outside";
}

std::string Machine::place_of(const Thread& thread) const {
  const Frame& frame = thread.frames.back();
  const size_t at = frame.pc == 0 ? 0 : frame.pc - 1;
  return fmt::format("line {}: {}: {}", frame.function->code[at].line, frame.function->texts[at],
                     names_[thread.agent.id]);
}

std::string Machine::with(const Conflict& conflict) const {
  if (conflict.other == 0) return conflict.what;
  const std::string line = conflict.line > 0 ? fmt::format(" in line {}", conflict.line) : "";
  return fmt::format("{} {}{}", conflict.what, name_of(conflict.other), line);
}

// Where everyone is, the same places together.
void Machine::hang(const std::string& why) const {
  struct Gathered {
    int threads = 0;
    std::string example;
  };
  std::map<std::string, Gathered> places;
  for (const auto& block : blocks_)
    for (const auto& thread : block->threads) {
      if (thread->done) continue;
      const Frame& frame = thread->frames.back();
      // What comes next, or the barrier.
      const size_t at = frame.pc - (thread->runnable == Thread::kNotRunnable ? 1 : 0);
      Gathered& here = places[fmt::format("line {}: {}", frame.function->code[at].line,
                                          frame.function->texts[at])];
      if (here.threads++ == 0) here.example = names_[thread->agent.id];
    }
  std::string text = fmt::format("{} after {} instructions", why, executed_);
  for (const auto& [place, here] : places)
    text += fmt::format("\n  {} at {} ({})", here.threads, place, here.example);
  throw Fault(Fault::hang, text);
}

}  // namespace ringwood::ptx
