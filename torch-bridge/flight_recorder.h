// The last calls of this process, as torch's flight recorder keeps them: `torchfrtrace` reads what
// dump() gives.
//
// torch's own FlightRecorder<c10::Event> is hidden in its library, where only torch's backends can
// write to it. So the calls are kept here, in the same form, and the package adds them to what
// torch._C._distributed_c10d._dump_fr_trace() returns. Its settings are torch's:
//   TORCH_FR_BUFFER_SIZE      calls that are kept (2000); 0: none, and nothing is recorded
//   TORCH_FR_DUMP_TEMP_FILE   if set: the file, without the rank, that every rank of a group writes
//                             when the group has failed
//
// What is kept of a call: group, numbers, name, sizes and types of the first tensors, its timeout,
// when it was made and when it had ended, and whether it failed. No stack frames: they would cost
// more than a small call does.
//
// Invariants. 1. begin() and end() never wait and never allocate. 2. Memory is taken once, 430
// bytes for each call that is kept, and is the kernel's until it is first written. 3. A call that
// was overwritten is forgotten; a slot is read whole or not at all.
//
// Thread safety: all of it. Two threads write one slot only where more calls than are kept pass
// while one of them is in begin(); that record may then be a mixture.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/ApproximateClock.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "torch-bridge/flight_groups.h"

namespace ringwood {

class FlightRecorder final {
 public:
  using List = std::vector<at::Tensor>;

  // A list of one tensor for each rank is recorded as torch's tools expect it.
  enum class Shape : uint8_t { as_is, outputs_in_one, inputs_in_one, both_flat };

  struct Call {
    const char* name;  // of static storage; as torchfrtrace knows it
    Shape shape;
    bool message;         // send or receive
    int group;            // of add_group()
    int peer;             // of a message; -1: any
    uint64_t number, op;  // of its kind, and among all of the group
    std::chrono::milliseconds timeout;
  };
  // What is begun; value.
  struct Ticket {
    uint64_t id = 0;           // 0: nothing
    uint64_t rank_in_job = 0;  // for dump_failure()
  };
  using Group = FlightGroup;

  // Made at the first use, and never destroyed: threads may end calls after main().
  static FlightRecorder& instance();

  bool on() const { return size_ > 0; }
  int add_group(Group group);
  // It makes no further calls. Those that are kept still have its name.
  void end_group(int group) noexcept;
  Ticket begin(const Call& call, const List& inputs, const List& outputs);
  // `source`: of a message from any rank.
  void end(Ticket ticket, bool well, int source = -1);

  // A pickled dict.
  std::string dump(bool calls, bool only_active);
  // Writes the file of TORCH_FR_DUMP_TEMP_FILE, once in a process; nothing where it is not set.
  void dump_failure(uint64_t rank_in_job) noexcept;

 private:
  // Alike for inputs and outputs: of equal lists, equal parts are kept.
  static constexpr size_t kMaxOfSide = 8, kMaxSizesOfSide = 16;
  static constexpr size_t kMaxTensors = 2 * kMaxOfSide, kMaxSizes = 2 * kMaxSizesOfSide;

  struct Record {
    Call call;
    uint64_t began;  // of c10::getApproximateTime()
    uint8_t inputs, tensors, sizes, input_sizes;
    std::array<c10::ScalarType, kMaxTensors> types;
    std::array<uint8_t, kMaxTensors> dimensions;
    std::array<int64_t, kMaxSizes> size;

    void add(c10::ScalarType type, at::IntArrayRef shape, bool input);
    void add_list(const List& list, bool input);
    void add_in_one(const List& list, bool input);
    void add_flat(const List& list, bool input);
  };
  struct Slot;
  struct Taken;

  FlightRecorder();
  std::vector<Taken> taken() const;
  c10::IValue entry(const Taken& taken, const std::function<int64_t(uint64_t)>& clock) const;

  const size_t size_;
  Slot* const slots_;
  std::atomic<uint64_t> next_{0};
  c10::ApproximateClockToUnixTimeConverter clock_;
  std::mutex mutex_;  // all below
  FlightGroups groups_;
  bool failure_written_ = false;
};

}  // namespace ringwood
