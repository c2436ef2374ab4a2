// The options of a call, and the handle that it returns (communicator.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transports/base/error.h"

namespace ringwood {

struct CopiedMemory;  // operations/copied_memory.h
class ProvedSchedules;
enum class Priority : uint8_t { normal, high };  // communicator.h, rule 2

// A CUDA stream, in which an operation takes part as a kernel would: it begins after what is in the
// stream (its deadline counts from then), and what is put there after the call, after its end. So
// a send behind a receive in one stream waits for it, unless both are in one group (group_start()).
struct DeviceStream {
  int device = -1;         // ordinal in this process; -1: none
  void* stream = nullptr;  // CUstream; null: the default stream
};

struct CallOptions {
  std::chrono::milliseconds timeout{0};  // 0: that of the communicator
  bool synchronous = false;
  Priority priority = Priority::normal;  // of a collective; the same on all ranks
  // The operation begins only with Operation::start(): once, or repeatedly over the same buffers,
  // without a look-up or an allocation (MPI_Allreduce_init), in the same order on all ranks.
  bool persistent = false;
  // PREMUL_SUM: each rank's contribution is first multiplied by its own factor, and rounded; 16-
  // and 8-bit floats with the sum: an operation before the (first) start gathers all factors.
  double factor = 1.0;
  std::string algorithm;  // "" = choose; a name that `ringwood algorithms` lists
  int segments = 0;       // 0 = choose
  // Instead of an algorithm; of this collective, group size and root, in 1 to 65535 `segments`.
  std::shared_ptr<const ProvedSchedules> schedules;
  // As Options::tolerance; 0 = exact, negative = the communicator's. The same on all ranks.
  double tolerance = -1;
  // gather, scatter: block sizes may differ. The same on all ranks; costs one more exchange.
  bool uneven = false;
  std::shared_ptr<const CopiedMemory> copied;  // of a collective
  DeviceStream on;  // all buffers are memory of this device; without one of the host
};

struct Block {
  void* data = nullptr;
  size_t count = 0;  // elements
};
struct ConstBlock {
  const void* data = nullptr;
  size_t count = 0;
};

// A handle on one operation; keeps it alive. Thread-safe, except start(): threads that start a
// persistent operation and wait for it must be ordered with each other.
class Operation {
 public:
  virtual ~Operation() = default;
  // Begins a persistent operation, which is done before, and then behaves like one just called.
  // Refused without any change if it is in flight or not persistent (invalid_argument), or the
  // group has ended (its error). A synchronous one ends with this Status. Also in its callback.
  virtual Status start() = 0;
  virtual bool done() const noexcept = 0;
  // Drives progress in the calling thread until done. Also fails if a positive `timeout`, shorter
  // than its own, expires (a collective cannot be half waited for).
  virtual Status wait(std::chrono::milliseconds timeout = std::chrono::milliseconds(0)) = 0;
  // `callback` is called exactly once, null = success; at once if already done; else in the driving
  // thread, without locks. It may start operations, wait for them, and drop the last handle on the
  // communicator, unless a synchronous call of that is in progress. Its exception ends the group.
  virtual void on_done(std::function<void(const Error*)> callback) = 0;
  virtual int64_t sequence() const noexcept = 0;
  // recv: the rank that sent; -1 before it is done and for other operations.
  virtual int source() const noexcept = 0;
};
using OperationPtr = std::shared_ptr<Operation>;
inline constexpr int kAnySource = -1;
using InterruptCheck = std::function<std::string()>;  // Communicator::set_interrupt_check()

}  // namespace ringwood
