// A stream of launches, one after the other, and what its user does between them.
//
// Everything of a stream is ordered: a launch begins with what all before it knew, and the user's
// reads and writes come before or after it, never beside it. Streams are not ordered with each
// other but by wait_for(). Threads of a launch reuse the ids of the one before.
#pragma once

#include <span>
#include <string>

#include "tests/ptx/machine.h"

namespace ringwood::ptx {

struct StreamLaunch {
  std::string kernel;
  std::span<const std::byte> parameters;
  int blocks = 1, threads = 32;
  uint32_t dynamic_shared = 0;
};

class Stream {
 public:
  // `threads`: of its largest launch, in all blocks. The machine stays the caller's.
  Stream(Machine& machine, std::string name, int device, int threads);

  // All blocks begin. Precondition: idle().
  void launch(const StreamLaunch& launch);
  bool idle() const { return left_ == 0; }
  // Tells the stream of a thread that step() has returned: true where it was this launch's last.
  bool ended(const Thread& thread);
  // The user's accesses, checked for races; call before a write is carried out. They stand at the
  // stream's present end, so that a launch that runs is unordered with them.
  void read(const void* base, size_t bytes) { touch(base, bytes, Access::read); }
  void write(const void* base, size_t bytes) { touch(base, bytes, Access::write); }
  // What comes now is ordered behind all that the other has completed.
  void wait_for(Stream& other);

 private:
  void touch(const void* base, size_t bytes, Access access);
  Machine& machine_;
  std::string name_;
  Agent agent_;
  uint32_t first_ = 0;  // id
  int threads_ = 0, left_ = 0;
};

// Steps until all of the machine has ended, and tells the streams.
void run(Machine& machine, std::span<Stream> streams);

}  // namespace ringwood::ptx
