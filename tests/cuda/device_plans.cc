// Plans for memory of a device, carried out over real links with the double's copies: every row of
// the table ends with the bytes that the host's plan gives, and no host thread touches the device.
#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/executors/plan_runner.h"
#include "tests/cuda/fresh_double.h"
#include "tests/support/errors.h"
#include "tests/support/plan_groups.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"
#include "tests/support/values.h"
#include "transports/cuda/copies.h"
#include "transports/mesh.h"

namespace ringwood::testing {
namespace {

using cuda::CurrentContext;

// The buffers of one rank, on the host and with the same bytes on a device.
class Mirrored {
 public:
  Mirrored(const FreshDouble& cuda, const cuda::Device& device) : cuda_(cuda), device_(device) {}
  ~Mirrored() {
    const CurrentContext current(device_);
    for (void* at : on_device_)
      if (at) free_(reinterpret_cast<cuda::CUdeviceptr>(at));
  }
  void add(std::vector<std::byte> bytes) {
    const CurrentContext current(device_);
    cuda::CUdeviceptr at = 0;
    if (!bytes.empty()) {
      ASSERT_EQ(allocate_(&at, bytes.size()), cuda::CUDA_SUCCESS);
      ASSERT_EQ(device_.driver().memory.copy_to_device(at, bytes.data(), bytes.size(), nullptr),
                cuda::CUDA_SUCCESS);
      ASSERT_EQ(device_.driver().stream.synchronize(nullptr), cuda::CUDA_SUCCESS);
    }
    on_device_.push_back(reinterpret_cast<void*>(at));
    bytes_.push_back(std::move(bytes));
    on_host_.push_back(bytes_.back().empty() ? nullptr : bytes_.back().data());
  }
  std::span<void* const> on_host() const { return on_host_; }
  std::span<void* const> on_device() const { return on_device_; }
  // What the device has, beside what the host has.
  void expect_equal(const std::string& what) {
    const CurrentContext current(device_);
    for (size_t i = 0; i < bytes_.size(); ++i) {
      std::vector<std::byte> read(bytes_[i].size());
      if (read.empty()) continue;
      ASSERT_EQ(device_.driver().memory.copy_to_host(
                    read.data(), reinterpret_cast<cuda::CUdeviceptr>(on_device_[i]), read.size(),
                    nullptr),
                cuda::CUDA_SUCCESS);
      ASSERT_EQ(std::memcmp(read.data(), bytes_[i].data(), read.size()), 0)
          << "buffer " << i << ", " << what;
    }
  }

 private:
  const FreshDouble& cuda_;
  const cuda::Device& device_;
  using Allocate = cuda::CUresult (*)(cuda::CUdeviceptr*, size_t);
  using Free = cuda::CUresult (*)(cuda::CUdeviceptr);
  const Allocate allocate_ = cuda_.symbol<Allocate>("cuMemAlloc_v2");
  const Free free_ = cuda_.symbol<Free>("cuMemFree_v2");
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<void*> on_host_, on_device_;
};

// Ranks of one process, each with a device, a stream and copies of its own.
class DeviceRanks {
 public:
  DeviceRanks(const FreshDouble& cuda, int n, const std::string& transports)
      : cuda_(cuda), meshes_(static_cast<size_t>(n)) {
    for (int r = 0; r < n; ++r) ranks_.push_back(std::make_unique<Rank>(cuda, r % 2));
    auto store = memory_store();
    in_threads([&](size_t r) {
      const int rank = static_cast<int>(r);
      meshes_[r] = make_mesh(store, rank, n, options_for(transports, rank), {});
      ranks_[r]->runner = std::make_unique<PlanRunner>(*meshes_[r]);
    });
    slots_ = std::ranges::all_of(meshes_, [](const auto& m) { return m && slots_to_all(*m); });
  }
  ~DeviceRanks() {
    in_threads([&](size_t r) {
      ranks_[r]->runner.reset();
      meshes_[r].reset();
    });
  }
  DeviceRanks(const DeviceRanks&) = delete;
  DeviceRanks& operator=(const DeviceRanks&) = delete;
  bool slots() const { return slots_; }
  Mirrored mirrored(int rank) const { return {cuda_, ranks_[static_cast<size_t>(rank)]->device}; }

  // On the host, or on the devices. The error of the first rank that fails, or "".
  std::string run(const PlanGroup& group, std::vector<Mirrored>& buffers, bool on_device) {
    std::string failed;
    ++sequence_;
    for (size_t r = 0; r < ranks_.size() && failed.empty(); ++r) {
      PlanExecution execution;
      execution.plan = group.plans[r].get();
      execution.fingerprint = group.plans[r]->fingerprint;
      execution.fingerprint.sequence = sequence_;
      execution.buffers = on_device ? buffers[r].on_device() : buffers[r].on_host();
      try {
        if (on_device) ranks_[r]->enter(execution);
        ranks_[r]->runner->start(execution);
      } catch (const Error& error) {
        failed = error.cause;
      }
    }
    const Deadline deadline = patiently();
    for (bool all = false; !all && failed.empty();) {
      all = true;
      for (auto& rank : ranks_) {
        bool progressed = false;
        if (rank->runner->idle()) continue;
        all = false;
        if (Status s = rank->runner->step(progressed); !s) failed = s.error().message();
      }
      if (deadline.passed()) failed = "no end";
    }
    if (!failed.empty())
      for (auto& rank : ranks_) rank->runner->drop();
    if (on_device)
      for (auto& rank : ranks_) rank->stream.synchronize();
    return failed;
  }

 private:
  struct Rank {
    Rank(const FreshDouble& cuda, int ordinal)
        : device(cuda.driver(), ordinal),
          pinned(*Arena::of_process(), device, size_t{256} << 20),
          gates(device, *Arena::of_process(), pinned, bell),
          copies(device, *Arena::of_process(), pinned, gates, bell),
          stream(device) {}
    ~Rank() {
      copies.idle_by(patiently());
      for (std::byte* block : scratch) Arena::of_process()->release(block);
    }
    Rank(const Rank&) = delete;
    Rank& operator=(const Rank&) = delete;
    // What a caller does, before it has its number. Throws Error.
    void enter(PlanExecution& execution) {
      const size_t bytes = std::max<size_t>(execution.plan->memory.scratch_bytes, 1);
      scratch.push_back(static_cast<std::byte*>(Arena::of_process()->allocate(bytes)));
      if (auto pin = pinned.pin(scratch.back(), bytes); !pin) throw std::move(pin.error());
      auto entered = gates.enter(stream.get());
      if (!entered) throw std::move(entered.error());
      if (Status s = gates.hold_back(stream.get(), *entered); !s) throw std::move(s.error());
      execution.device = &copies;
      execution.entered = *entered;
      execution.scratch = scratch.back();
    }
    cuda::Device device;
    cuda::PinnedBlocks pinned;
    const cuda::Doorbell bell{-1};
    cuda::Gates gates;
    cuda::Copies copies;
    cuda::Stream stream;
    std::vector<std::byte*> scratch;
    std::unique_ptr<PlanRunner> runner;
  };
  template <class Body>
  void in_threads(Body body) {
    std::vector<std::thread> threads;
    for (size_t r = 0; r < meshes_.size(); ++r) threads.emplace_back(body, r);
    for (auto& thread : threads) thread.join();
  }
  const FreshDouble& cuda_;
  std::vector<std::unique_ptr<Mesh>> meshes_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  bool slots_ = false;
  uint64_t sequence_ = 0;
};

// Small integers, as every type has them exactly.
std::vector<std::byte> numbers(DataType type, size_t count, int rank, int buffer) {
  std::vector<std::byte> bytes(count * size_of(type));
  for (size_t i = 0; i < count; ++i)
    put_value(bytes.data(), i, type,
              static_cast<double>((i * 7 + static_cast<size_t>(rank * 3 + buffer)) % 4));
  return bytes;
}

struct Case {
  DataType type;
  ReduceOp op;
  int segments;
};

class DevicePlans : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, DevicePlans, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

TEST_P(DevicePlans, OfEveryRowEndAsTheHosts) {
  const FreshDouble cuda({{"FAKE_CUDA_DELAY", "7"}});
  ASSERT_TRUE(cuda.loaded()) << cuda.error().cause;
  int plans = 0;
  for (const int n : {2, 3, 4}) {
    DeviceRanks ranks(cuda, n, GetParam());
    for (const AlgorithmRow& row : algorithm_table()) {
      const auto places = places_for(row, n);
      if (!places || !moves_data(row.collective)) continue;
      const Case cases[] = {{DataType::float32, ReduceOp::sum, 1},
                            {DataType::bfloat16, ReduceOp::avg, 2},
                            {DataType::int64, ReduceOp::max, 3}};
      const Case& one = cases[plans++ % 3];
      const ReduceOp op = reduces(row.collective) ? one.op : ReduceOp::sum;
      if (!supports(row.collective, one.type, op)) continue;
      const int root = has_root(row.collective) ? n - 1 : 0;
      const std::vector<Schedule> all = build_all(row, places->where(0, n, root));
      const CollectiveArgs args = plan_args(row.collective, one.type, op, 1001, root);
      PlanWay way{.segments = one.segments};
      const PlanGroup host = plan_group(all, args, row.name, way, *places);
      way.memory = MemoryKind::device;
      way.slots = ranks.slots() && plans % 2 == 0;
      const PlanGroup device = plan_group(all, args, row.name, way, *places);
      std::vector<Mirrored> buffers;
      buffers.reserve(static_cast<size_t>(n));
      const int count =
          cut_from_one_buffer(row.collective) ? 1 : required_chunks(row.collective, n);
      for (int r = 0; r < n; ++r) {
        buffers.push_back(ranks.mirrored(r));
        for (int b = 0; b < count; ++b) {
          const bool has = has_memory(row.collective, {r, n, root}, b);
          buffers.back().add(has ? numbers(one.type, args.count, r, b) : std::vector<std::byte>());
        }
      }
      ASSERT_EQ(ranks.run(host, buffers, false), "") << host.name;
      ASSERT_EQ(ranks.run(device, buffers, true), "") << device.name;
      for (Mirrored& of_rank : buffers) of_rank.expect_equal(device.name);
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(plans, 50);
}

// An all_reduce of three ranks on devices.
class DeviceFaults : public ::testing::Test {
 protected:
  PlanGroup plans() const {
    const AlgorithmRow& row = *find_algorithm(Collective::all_reduce, "direct");
    return plan_group(build_all(row, Places{}.where(0, 3, 0)),
                      plan_args(Collective::all_reduce, DataType::float32, ReduceOp::sum, 3001, 0),
                      "direct", {.memory = MemoryKind::device});
  }
  // What is said, and whether the devices' memory is as it was.
  std::string run(const FreshDouble& cuda, const PlanGroup& group, bool untouched) {
    DeviceRanks ranks(cuda, 3, "shm");
    std::vector<Mirrored> buffers;
    buffers.reserve(3);
    for (int r = 0; r < 3; ++r) {
      buffers.push_back(ranks.mirrored(r));
      buffers.back().add(numbers(DataType::float32, 3001, r, 0));
    }
    const std::string failed = ranks.run(group, buffers, true);
    cuda.fail("");
    for (Mirrored& of_rank : buffers)
      if (untouched) of_rank.expect_equal("it was written");
    return failed;
  }
};

TEST_F(DeviceFaults, MemoryOfAnotherKindOnOneRankIsNamedAndNothingIsWritten) {
  const FreshDouble cuda;
  ASSERT_TRUE(cuda.loaded());
  const PlanGroup group = plans();
  group.plans[1]->fingerprint.memory = 0;
  const std::string failed = run(cuda, group, true);
  EXPECT_PRED2(contains, failed, "float32 x 3001, sum, in memory of a device");
  EXPECT_PRED2(contains, failed, "while rank");
}

// Whichever call fails, on whichever rank it is: it is named, all streams go on, nothing is left.
TEST_F(DeviceFaults, EveryCallOfTheDriverMayFail) {
  const PlanGroup group = plans();
  for (const char* call : {"cuStreamWaitValue32", "cuMemHostRegister", "cuMemcpyDtoHAsync",
                           "cuMemcpyHtoDAsync", "cuStreamWriteValue32", "cuLaunchHostFunc"})
    for (int nth = 1; nth <= 3; ++nth) {
      const FreshDouble cuda;
      ASSERT_TRUE(cuda.loaded());
      {
        DeviceRanks ranks(cuda, 3, "shm");
        std::vector<Mirrored> buffers;
        buffers.reserve(3);
        for (int r = 0; r < 3; ++r) {
          buffers.push_back(ranks.mirrored(r));
          buffers.back().add(numbers(DataType::float32, 3001, r, 0));
        }
        cuda.fail(fmt::format("{}:{}=999", call, nth));
        const std::string failed = ranks.run(group, buffers, true);
        cuda.fail("");
        if (std::string(call) != "cuLaunchHostFunc") {  // the ranks here have no doorbell
          EXPECT_PRED2(contains, failed, fmt::format("{} on device", call));
          EXPECT_PRED2(contains, failed, "error 999");
        }
      }
      EXPECT_EQ(cuda.left(), "") << call << " " << nth;
    }
}

}  // namespace
}  // namespace ringwood::testing
