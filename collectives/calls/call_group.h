// Calls that are collected and submitted together: Communicator::group_start() and group_end().
//
//   call A (64 B) ---> pack 1 --+                 group_end: one operation for pack 1, then B
//   call B (1 MiB) -> itself    |  in the order
//   call C (64 B) ---> pack 1 --+  of the calls
//
// Small calls of all_reduce, reduce and broadcast, and of all_gather and reduce_scatter with blocks
// of one size, that differ only in their buffers are carried out as one pack, over a buffer that
// contains the data of all of them in sequence. ProtocolLimits::packed (protocol.h) says what is
// small. 100 sums of 64 B between 2 ranks take 15 us instead of 55 over shm, 45 instead of 2000
// over tcp. Where a collective has a block for each rank, so has the buffer, and each of its blocks
// contains those of all calls:
//
//   all_gather A, B of 3 ranks:  | A0 B0 | A1 B1 | A2 B2 |   rank 1 puts A1 and B1 there
//
// A pack takes the place of its first call, ends for all of its calls together, and has one
// sequence number. The sizes of its calls are part of its fingerprint.
//
// A group is of the thread that opened it: calls of other threads are none of its.
//
// Thread safety: all methods may be called from any thread. Takes no locks.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "collectives/call.h"
#include "collectives/calls/grouped_operation.h"
#include "collectives/operations/operation.h"
#include "collectives/plan/plan.h"

namespace ringwood {

// The buffers of a call that can be packed. For in-place collectives only `data`. For all_gather
// and reduce_scatter a block for each rank, and `data` is the block that all_gather reads and
// reduce_scatter writes; it may be this rank's own block.
struct CallBuffers {
  void* data = nullptr;
  std::vector<void*> blocks;
};

// Calls that form one operation. Their buffers belong to it until it is done.
struct CallPack {
  struct Part {
    CallBuffers buffers;
    size_t count = 0;  // as in CollectiveArgs: of a block, where there are blocks
    std::shared_ptr<GroupedOperation> operation;
    std::shared_ptr<const CopiedMemory> copied;  // CallOptions::copied of this call
  };
  CollectiveArgs args;  // `count` is the sum of the parts'
  CallOptions call;     // with the shortest timeout of all
  std::vector<Part> parts;
};

// The buffer of a pack's operation, which owns it from beginning to end.
struct PackedBuffer {
  std::unique_ptr<std::byte[]> data;  // the parts' elements, where this rank contributes
  CallBuffers buffers;                // within `data`
  uint32_t parts = 0;                 // for the fingerprint: a hash of the parts' sizes, not 0
  std::function<void()> fill;         // copies this rank's contribution into it; or empty
  std::function<void()> finish;       // copies the result out where this rank has one; or empty
  std::vector<std::shared_ptr<const CopiedMemory>> copied;  // of the parts
  Footprint footprint;                                      // of the parts' buffers
};
// The size of the packed buffer, in a group of `size` ranks.
inline size_t packed_bytes(const CollectiveArgs& args, int size) {
  const size_t blocks = cut_from_one_buffer(args.collective) ? 1 : static_cast<size_t>(size);
  return args.count * size_of(args.type) * blocks;
}
PackedBuffer pack_calls(const CallPack& pack, int rank, int size);
// Makes the operation over the packed buffer own it, and returns the operation.
std::shared_ptr<CollectiveState> use(PackedBuffer&& packed,
                                     std::shared_ptr<CollectiveState> operation);

// The options with which a call is launched at the end of its group, which does the waiting.
inline CallOptions later(CallOptions call) {
  call.synchronous = false;
  return call;
}

class CallGroup final {
 public:
  using Launch = std::function<OperationPtr()>;
  using LaunchPack = std::function<OperationPtr(const CallPack&)>;

  // `driver`: is told of callbacks that throw.
  explicit CallGroup(std::shared_ptr<OperationDriver> driver) : driver_(std::move(driver)) {}
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;
  ~CallGroup();

  // In the calling thread.
  bool open() const noexcept { return threads_.load(std::memory_order_relaxed) > 0 && mine(); }
  void start();
  // Ends one level of nesting; the last launches everything in order and waits for synchronous
  // calls. An exception from a launch becomes the error of its operations. Throws
  // Error(invalid_argument) where no group is open.
  void end(const LaunchPack& launch_pack);

  // Adds a call to the open group.
  OperationPtr add(const char* name, const CallOptions& call, Launch launch);
  OperationPtr add(const CollectiveArgs& args, CallBuffers buffers, const CallOptions& call);

 private:
  struct Single {
    Launch launch;
    std::shared_ptr<GroupedOperation> operation;
  };
  using Entry = std::variant<Single, CallPack>;
  // What a thread has collected.
  struct Calls {
    int depth = 0;
    std::vector<Entry> entries;
    std::vector<std::shared_ptr<GroupedOperation>> synchronous;
  };
  // Those of one thread, by the number of the group: for the few that are open.
  static std::vector<std::pair<uint64_t, Calls>>& of_thread();
  Calls* mine() const noexcept;  // null: it has no group open
  Calls take();                  // closes it
  std::shared_ptr<GroupedOperation> make(const char* name, const CallOptions& call);
  static bool joins(const CallPack& pack, const CollectiveArgs& args, const CallOptions& call);
  static void launch(const Entry& entry, const LaunchPack& launch_pack);

  static inline std::atomic<uint64_t> made_{0};
  const uint64_t number_ = ++made_;
  const std::shared_ptr<OperationDriver> driver_;
  std::atomic<int> threads_{0};  // that have a group open
};

}  // namespace ringwood
