// Executes kernels, instruction by instruction, in any interleaving of their threads.
//
// step() carries out a burst of one thread's instructions; which thread, how many, and what its
// strong loads return, comes from the seed, and is the same in every run of it. Some threads of
// each seed are slow. Every thread has a program counter of its own (as since Volta); barriers join
// what their threads know. Memory and its model: memory.h.
//
// Threads have ids, given by whoever launches. An id may be used again by a later launch that is
// ordered behind the earlier one (its clock knows it) and on the same device; Stream does that.
//
// Errors are Faults: races, addresses, hangs and the like, with the line and text of the PTX, the
// thread and what it met. A Machine that has thrown is of no more use. A hang is more instructions
// than the options allow, or threads that wait for barriers to which nobody comes any more; its
// text says where everyone is. The limit wants to be a hundred times what a run takes: slow threads
// make others spin.
//
// Blocks are lines of threads, launches are lines of blocks. Warps are 32 threads, and have no
// meaning but for bar.warp.sync. Clocks count instructions of the whole machine. One host thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/ptx/thread.h"

namespace ringwood::ptx {

struct Options {
  uint64_t seed = 1;
  uint64_t instructions = 100'000'000;  // more is a hang
  uint64_t instruction_ns = 1;          // of %globaltimer
  uint32_t burst = 24;                  // instructions of one step, at most
};

class Machine {
 public:
  // The module stays the caller's.
  explicit Machine(const Module& module, const Options& options = {});

  // Memory that kernels may use; the name is for errors.
  void map(const std::string& name, void* base, size_t bytes) { memory_.map(name, base, bytes); }

  // One block. Its parameters are copied.
  void launch(const BlockLaunch& launch);
  // Whether threads are left.
  bool running() const { return threads_left_ > 0; }
  // A burst of one thread: the thread, if it has ended, until the next step. Precondition: running.
  const Thread* step();
  // Steps until all have ended.
  void run();

  // Ids that nobody has, with a name for errors.
  uint32_t take_ids(uint32_t count, const std::string& name);
  // A data access of the host's. Call it before a write is carried out.
  void touch(const Agent& agent, const void* base, size_t bytes, Access access,
             const std::string& who);

  uint64_t executed() const { return executed_; }
  uint64_t checked() const { return memory_.checked(); }  // granules of weak accesses
  uint64_t stale() const { return memory_.stale(); }      // strong loads of older messages

 private:
  // execute.cc
  void burst(Thread& thread, uint32_t length);
  void execute(Thread& thread, const Instruction& x);
  void enter(Thread& thread, const Function& function);
  void call(Thread& thread, const Call& call);
  void leave(Thread& thread);
  void end(Thread& thread);
  void wait_at_barrier(Thread& thread, uint64_t barrier, uint64_t wanted, bool vote);
  bool opened(Block& block, size_t at);
  // machine.cc
  std::string name_of(Epoch epoch) const;
  std::string place_of(const Thread& thread) const;
  std::string with(const Conflict& conflict) const;
  [[noreturn]] void hang(const std::string& why) const;

  const Module& module_;
  Options options_;
  Random random_;
  Memory memory_{random_};
  Scheduler scheduler_;
  std::vector<uint64_t> variables_;  // addresses
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<Block> ended_;    // kept for who asks about its last thread
  std::vector<std::string> names_;  // of threads, by id
  uint64_t executed_ = 0;
  int threads_left_ = 0, next_block_ = 0;
};

}  // namespace ringwood::ptx
