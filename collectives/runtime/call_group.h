// Calls that are gathered and submitted together: Communicator::group_start() and group_end().
//
//   call A (64 B) ---> pack 1 --+                 group_end: one operation for pack 1, then B
//   call B (1 MiB) -> itself    |  in the order
//   call C (64 B) ---> pack 1 --+  of the calls
//
// Small calls that differ in nothing but their buffers are carried out as one, over a buffer that
// holds all of theirs one after the other; ProtocolLimits::packed (protocol.h) says what is small.
// A pack takes the place of its first call. The sizes of its calls are part of its fingerprint.
// Thread safety: all methods.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/operation.h"
#include "collectives/plan.h"
#include "collectives/runtime/grouped_operation.h"

namespace ringwood {

// Calls that are one operation. Their buffers are theirs until it is done.
struct CallPack {
  struct Part {
    void* data = nullptr;
    size_t count = 0;
    std::shared_ptr<GroupedOperation> operation;
  };
  Shape shape;       // `count` is the parts' sum
  CallOptions call;  // with the shortest time of all
  std::vector<Part> parts;
};

// The buffer that its operation works on, from when it begins to when it ends.
struct PackedBuffer {
  std::unique_ptr<std::byte[]> data;  // where this rank contributes, the parts' elements
  uint32_t parts = 0;                 // for the fingerprint: a hash of their sizes, not 0
  std::function<void()> fill;         // copies what this rank contributes into it; or empty
  std::function<void()> finish;       // copies the result to where this rank has one; or empty
  Footprint footprint;                // of the parts' buffers
};
PackedBuffer pack_calls(const CallPack& pack, int rank);
// By the operation over it, which is returned.
std::shared_ptr<CollectiveState> use(PackedBuffer&& packed,
                                     std::shared_ptr<CollectiveState> operation);

// A call's options at its group's end, which does the waiting.
inline CallOptions later(CallOptions call) {
  call.synchronous = false;
  return call;
}

class CallGroup final {
 public:
  using Launch = std::function<OperationPtr()>;
  using LaunchPack = std::function<OperationPtr(const CallPack&)>;

  bool open() const noexcept { return depth_.load(std::memory_order_relaxed) > 0; }
  void start();
  // Groups nest; with the last, everything is launched in order, and what is synchronous is waited
  // for. What a launch throws becomes its operations' error. Throws Error(invalid_argument) where
  // no group is open.
  void end(const LaunchPack& launch_pack);

  // In an open group.
  OperationPtr add(const char* name, const CallOptions& call, Launch launch);
  OperationPtr add(const Shape& shape, void* data, const CallOptions& call);

 private:
  struct Single {
    Launch launch;
    std::shared_ptr<GroupedOperation> operation;
  };
  using Entry = std::variant<Single, CallPack>;
  static bool joins(const CallPack& pack, const Shape& shape, const CallOptions& call);
  static void launch(const Entry& entry, const LaunchPack& launch_pack);

  std::atomic<int> depth_{0};
  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::vector<std::shared_ptr<GroupedOperation>> synchronous_;
};

}  // namespace ringwood
