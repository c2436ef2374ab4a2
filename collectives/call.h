// What a caller says with a call, and what it gets back (communicator.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transports/base/error.h"

namespace ringwood {

class ProvedSchedules;

enum class Priority : uint8_t { normal, high };  // communicator.h, rule 2

struct CallOptions {
  std::chrono::milliseconds timeout{0};  // 0: the communicator's
  bool synchronous = false;
  Priority priority = Priority::normal;  // of a collective; alike on all ranks
  // The operation is begun by Operation::start() only: once, or again and again over the same
  // buffers, without a look-up or an allocation (MPI_Allreduce_init). All ranks start theirs in the
  // same order. Where its numbers are gathered first (`factor`), the making is collective, too.
  bool persistent = false;
  // PREMUL_SUM: each rank's contribution is multiplied by its own factor first. 16- and 8-bit
  // floats are rounded with the sum, which needs the others' factors: they are gathered by an
  // operation before, with a sequence number of its own. Other types round each product by itself.
  double factor = 1.0;
  std::string algorithm;  // "" = choose; a name that `ringwood algorithms` lists
  int segments = 0;       // 0 = choose
  // Instead of an algorithm: the user's own, with `segments` or one. Of this collective, group size
  // and root; blocks of one size.
  std::shared_ptr<const ProvedSchedules> schedules;
  // The relative error that the sums may have, as Options::tolerance; 0 = exact, negative = the
  // communicator's. Alike on all ranks.
  double tolerance = -1;
  // gather, scatter: block sizes may differ, and only the root knows them all, so this is said
  // alike on all ranks. It takes one exchange with each of them more.
  bool uneven = false;
};

struct Block {
  void* data = nullptr;
  size_t count = 0;  // elements
};
struct ConstBlock {
  const void* data = nullptr;
  size_t count = 0;
};

// A handle on one operation; keeps it alive. Thread safe, but for start(): the threads that start a
// persistent operation and wait for it must be in order with each other.
class Operation {
 public:
  virtual ~Operation() = default;
  // Begins a persistent operation, which from then on is as one that was just called; before its
  // first start it is done. Refused, and nothing is changed: in flight or not persistent
  // (invalid_argument), the group has ended (its error). A synchronous one has ended when this
  // returns, with this Status. May be called in the operation's own callback.
  virtual Status start() = 0;
  virtual bool done() const noexcept = 0;
  // Drives progress in the calling thread until done. A positive `timeout` shorter than the
  // operation's own is a failure of the operation, too (a collective cannot be half waited for).
  virtual Status wait(std::chrono::milliseconds timeout = std::chrono::milliseconds(0)) = 0;
  // Called exactly once, null = success; at once if already done. In whichever thread drives,
  // without locks held. It may start operations, wait for them, and drop the last handle on the
  // communicator, unless a synchronous call of that is under way. What it throws ends the group.
  virtual void on_done(std::function<void(const Error*)> callback) = 0;
  virtual int64_t sequence() const noexcept = 0;
  // recv: the rank that sent; -1 before it is done and for anything else.
  virtual int source() const noexcept = 0;
};
using OperationPtr = std::shared_ptr<Operation>;

inline constexpr int kAnySource = -1;

using InterruptCheck = std::function<std::string()>;  // Communicator::set_interrupt_check()

}  // namespace ringwood
