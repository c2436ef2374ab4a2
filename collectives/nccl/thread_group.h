// The group of calls of this thread: what stands between ncclGroupStart() and ncclGroupEnd().
//
// Communicators that are made in a group are made at its end, side by side, and before its calls.
//
// Thread safety: one object for each thread.
#pragma once

#include <vector>

#include "collectives/nccl/call.h"

namespace ringwood::nccl {

// A communicator to be made.
struct Making {
  CommPtr comm;        // entered in the table already
  ncclComm_t* handle;  // of the program: null where it fails
  // Sets rank, size, store and group; false: this rank is in none. May run in another thread.
  std::function<bool(ncclComm&)> make;
};

class ThreadGroup {
 public:
  static ThreadGroup& of_this_thread();

  void start() { ++depth_; }
  // Of the outermost group: carries everything out. Throws its first error.
  void end();
  // Forgets what the group has, and ends it.
  void drop();
  // Carries it out now, or at the end of the group. An error is also that of the group.
  void add(Making making);
  void add(Call call);
  // A call of the group was refused.
  void fail(const Error& error);

 private:
  void carry_out();

  int depth_ = 0;
  std::vector<Making> makings_;
  std::vector<Call> calls_;
  std::unique_ptr<Error> failed_;
};

}  // namespace ringwood::nccl
