// Ranks on GPUs as threads or processes, and calls that are compared with the CPU's executors.
//
// All memory is there before the first kernel runs: what allocates or frees device memory may wait
// for kernels, and those of one rank wait for other ranks.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/device/group/device_group.h"
#include "transports/base/options.h"
#include "transports/cuda/handles.h"
#include "transports/cuda/memory.h"

namespace ringwood::gpu_check {

using Bytes = std::vector<std::byte>;

class GpuRank final {
 public:
  // Collective. `room`: bytes of each of the four buffers.
  GpuRank(Communicator& group, const cuda::Driver& driver, int ordinal,
          device::DeviceOptions options, size_t room);

  enum class Kind { mapped, plain };
  // Peers map the memory of the one kind; the other is copied to memory that they map.
  cuda::CUdeviceptr input(Kind kind) const { return kind == Kind::mapped ? mapped_ : user_.base(); }
  cuda::CUdeviceptr output(Kind kind) const { return input(kind) + room_; }
  size_t room() const { return room_; }

  void write(cuda::CUdeviceptr to, std::span<const std::byte> bytes) const;
  Bytes read(cuda::CUdeviceptr from, size_t bytes) const;
  void fill(cuda::CUdeviceptr to, unsigned char value, size_t bytes) const;
  // To its end.
  Status run(const device::DeviceCall& call) const;

  Communicator& group;
  const cuda::Device device;
  const cuda::Stream stream;
  const std::unique_ptr<device::DeviceGroup> calls;

 private:
  const size_t room_;
  const cuda::DeviceArena user_;
  const cuda::CUdeviceptr mapped_;
};

struct Case {
  Collective collective{};
  const char* row = "";
  size_t count = 1;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0, segments = 1;
  bool packets = false, mapped = true;
  size_t shift = 0;  // bytes from aligned addresses
};
std::string describe(const Case& of);
size_t input_bytes(const Case& of, const Communicator& group);

// The call on GPUs and on the CPU, on the same input. "" where all bytes are the same.
std::string compare(const GpuRank& rank, const Case& of, Bytes input);

// Bits of any numbers, and every fourth one of those that break careless sums: zeros, infinities,
// NaN, the largest and the smallest.
void draw(Bytes& to, DataType type, uint64_t seed);
uint64_t mixed(uint64_t x);

Options options_of_ranks();
// Each on a thread of its own. "" or what is wrong at the rank that says so first.
std::string on_threads(int n, const std::function<std::string(Communicator&)>& body);

// How many blocks of any kernel are resident on the device at once.
int resident_blocks(const cuda::Driver& driver, int ordinal);
// "" or why so many blocks of each rank would not all run at once: they would wait for ever.
std::string does_not_fit(const cuda::Driver& driver, int ranks, int blocks);
int device_count(const cuda::Driver& driver);

}  // namespace ringwood::gpu_check
