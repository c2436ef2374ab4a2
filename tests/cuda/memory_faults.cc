// Device memory that is gone faults, and of a set-up that fails nothing is left.
#include <fcntl.h>
#include <sys/wait.h>

#include <functional>

#include "tests/cuda/device_memory.h"
#include "tests/support/errors.h"

namespace ringwood::cuda {
namespace {

using testing::contains;
using testing::error_of;
using testing::FreshDouble;

class MemoryFaults : public DeviceMemory {};
using MemoryFaultsDeathTest = MemoryFaults;

// With what faults afterwards read once before, so that it is the end of the mapping that kills.
void touch(CUdeviceptr at) { *reinterpret_cast<volatile char*>(at) = 1; }

TEST_F(MemoryFaultsDeathTest, MemoryThatIsUnmappedFaults) {
  EXPECT_DEATH(
      {
        CUdeviceptr at = 0;
        {
          const DeviceArena arena(*device, 1);
          at = arena.base();
          touch(at);
          fprintf(stderr, "was mapped\n");
        }
        touch(at);
      },
      "was mapped");
}

TEST_F(MemoryFaultsDeathTest, AddressesWithoutMemoryFault) {
  EXPECT_DEATH(
      {
        const Allocation allocation = Allocation::create(*device, kUnit);
        const Reservation reservation(*device, kUnit);
        {
          Mapping mapping(*device, reservation.base(), kUnit, allocation);
          mapping.give_access();
          touch(reservation.base());
          fprintf(stderr, "was mapped\n");
        }
        touch(reservation.base());
      },
      "was mapped");
}

TEST_F(MemoryFaultsDeathTest, MemoryWithoutAccessFaults) {
  EXPECT_DEATH(
      {
        const Allocation allocation = Allocation::create(*device, kUnit);
        const Reservation reservation(*device, kUnit);
        Mapping mapping(*device, reservation.base(), kUnit, allocation);
        fprintf(stderr, "is mapped\n");
        touch(reservation.base());
      },
      "is mapped");
}

// The child may have something else at the address: a runtime that maps memory in it fills the gap.
TEST_F(MemoryFaultsDeathTest, AForkedChildHasNoDeviceMemory) {
  const DeviceArena arena(*device, 1);
  write(arena.base(), 42);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    ::_exit(*reinterpret_cast<volatile uint64_t*>(arena.base()) == 42 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_NE(status, 0);
}

// What a forked child inherits is ended without a call.
TEST_F(MemoryFaults, AForkedChildEndsInheritedMemoryQuietly) {
  std::optional<DeviceArena> arena(std::in_place, *device, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    arena.reset();
    device.reset();
    ::_exit(cuda.left() == "1 context, 1 handle, 1 reservation, 1 mapping" ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(MemoryFaults, WhatIsLeftBehindOnPurposeStays) {
  CUdeviceptr at = 0;
  {
    DeviceArena arena(*device, 1);
    at = arena.base();
    arena.leave();
  }
  touch(at);
  EXPECT_EQ(cuda.left(), "1 context, 1 handle, 1 reservation, 1 mapping");
  // What leave() gives up is the process's; here it is taken back.
  const VirtualMemoryCalls& calls = driver.virtual_memory;
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(calls.retain(&handle, reinterpret_cast<void*>(at)), CUDA_SUCCESS);
  EXPECT_EQ(calls.release(handle), CUDA_SUCCESS);
  EXPECT_EQ(calls.unmap(at, kUnit), CUDA_SUCCESS);
  EXPECT_EQ(calls.free_addresses(at, kUnit), CUDA_SUCCESS);
  EXPECT_EQ(calls.release(handle), CUDA_SUCCESS);
}

// Every call of a set-up fails once: it throws, or does without the call, and leaves nothing.
void fail_each_call(const FreshDouble& cuda, int min_errors, const std::function<void()>& set_up) {
  const std::string before = cuda.left();
  int errors = 0;
  for (int call = 1; call <= 80; ++call) {
    cuda.fail("*:" + std::to_string(call) + "=2");
    try {
      set_up();
    } catch (const Error& error) {
      ++errors;
      EXPECT_PRED2(contains, error.cause, "CUDA_ERROR_OUT_OF_MEMORY");
    }
    EXPECT_EQ(cuda.left(), before) << "call " << call;
  }
  cuda.fail("");
  EXPECT_GE(errors, min_errors);
}

TEST_F(MemoryFaults, ASetUpThatFailsLeavesNothing) {
  // Kept until the plan is over: that the end of something fails is another matter.
  const auto kept = [&](auto make) {
    return [&, make] {
      const auto made = make();
      cuda.fail("");
    };
  };
  fail_each_call(cuda, 6, kept([&] { return std::make_unique<DeviceArena>(*device, 1); }));
  fail_each_call(cuda, 2, kept([&] { return std::make_unique<PinnedMemory>(*device, 1); }));
  fail_each_call(cuda, 3, kept([&] { return std::make_unique<Stream>(*device); }));
  fail_each_call(cuda, 2, kept([&] { return std::make_unique<Event>(*device); }));
  fail_each_call(cuda, 2, kept([&] { return std::make_unique<Module>(*device, "image"); }));
  fail_each_call(cuda, 9, kept([&] { return std::make_unique<Device>(driver, 1); }));
  const DeviceArena arena(*device, 1);
  std::vector<SharedPart> parts;
  parts.push_back({arena.share(), arena.bytes()});
  parts.push_back({arena.share(), arena.bytes()});
  fail_each_call(cuda, 8, kept([&] { return std::make_unique<PeerArena>(*device, parts); }));
  for (const char* entry :
       {"cuMemGetAddressRange", "cuMemRetainAllocationHandle", "cuMemExportToShareableHandle"}) {
    const std::string before = cuda.left();
    cuda.fail(std::string(entry) + ":1=2");
    EXPECT_PRED2(contains, error_of([&] { share_range(*device, arena.base(), 8); }).cause, entry);
    EXPECT_EQ(cuda.left(), before);
  }
}

TEST_F(MemoryFaults, APlannedFailureIsOfTheCallThatItNames) {
  cuda.fail("cuMemMap:2=1,cuMemCreate:3=2");
  const DeviceArena first(*device, 1);
  EXPECT_PRED2(contains, error_of([&] { DeviceArena(*device, 1); }).cause,
               "cuMemMap on device 0: CUDA_ERROR_INVALID_VALUE");
  EXPECT_PRED2(contains, error_of([&] { DeviceArena(*device, 1); }).cause,
               "cuMemCreate on device 0: CUDA_ERROR_OUT_OF_MEMORY");
  const DeviceArena last(*device, 1);
}

TEST_F(MemoryFaults, ADeviceIsFullAtSomePoint) {
  EXPECT_PRED2(contains, error_of([&] { DeviceArena(*device, device->facts().bytes + 1); }).cause,
               "cuMemCreate on device 0: CUDA_ERROR_OUT_OF_MEMORY");
}

TEST_F(MemoryFaults, ADescriptorOfSomethingElseIsRefused) {
  std::vector<SharedPart> parts;
  parts.push_back({OwnedFd(::open("/dev/null", O_RDWR | O_CLOEXEC)), kUnit});
  EXPECT_PRED2(contains, error_of([&] { PeerArena(*device, parts); }).cause,
               "cuMemImportFromShareableHandle on device 0: CUDA_ERROR_INVALID_VALUE");
  const DeviceArena arena(*device, 1);
  for (const size_t bytes : {size_t{0}, ~size_t{0}}) {
    parts.clear();
    parts.push_back({arena.share(), bytes});
    EXPECT_PRED2(contains, error_of([&] { PeerArena(*device, parts); }).cause,
                 "bytes of a peer's memory were to be mapped");
  }
  parts[0].bytes = 2 * kUnit;  // more than there is
  EXPECT_PRED2(contains, error_of([&] { PeerArena(*device, parts); }).cause,
               "cuMemMap on device 0: CUDA_ERROR_INVALID_VALUE");
}

}  // namespace
}  // namespace ringwood::cuda
