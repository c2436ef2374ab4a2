// The double's own rules: invalid use gets the driver's codes, and what it counts at exit.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/cuda/fresh_double.h"
#include "transports/cuda/handles.h"
#include "transports/cuda/memory.h"

namespace ringwood::cuda {
namespace {

using testing::FreshDouble;

constexpr size_t kUnit = size_t{2} << 20;

class DoubleRules : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ASSERT_TRUE(cuda.loaded()) << cuda.error().cause;
  }
  const FreshDouble cuda;
  const Driver& driver = cuda.driver();
};

TEST_F(DoubleRules, NothingBeforeItIsInitialised) {
  // Its own copy, whose entries are asked for by hand.
  testing::TemporaryPath copy;
  std::filesystem::copy_file(CUDA_DOUBLE, copy.path());
  void* const library = ::dlopen(copy.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  const auto entry = [&]<class F>(F*, const char* name) {
    return reinterpret_cast<F>(::dlsym(library, name));
  };
  int count = 0;
  const auto get_count = entry(&driver.device.get_count, "cuDeviceGetCount");
  EXPECT_EQ(get_count(&count), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(entry(&driver.init, "cuInit")(1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(entry(&driver.init, "cuInit")(0), CUDA_SUCCESS);
  EXPECT_EQ(get_count(&count), CUDA_SUCCESS);
}

TEST_F(DoubleRules, WhatNeedsAContextSaysSo) {
  CUstream stream = nullptr;
  CUevent event = nullptr;
  EXPECT_EQ(driver.stream.create(&stream, 0, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(driver.event.create(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(driver.stream.synchronize(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(driver.context.pop(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(driver.context.push(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  CUcontext context = nullptr;
  ASSERT_EQ(driver.device.retain_primary_context(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver.context.push(context), CUDA_SUCCESS);
  ASSERT_EQ(driver.stream.create(&stream, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver.stream.destroy(stream), CUDA_SUCCESS);
  ASSERT_EQ(driver.device.release_primary_context(0), CUDA_SUCCESS);
  EXPECT_EQ(driver.stream.create(&stream, 0, 0), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(driver.device.release_primary_context(0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(driver.context.pop(nullptr), CUDA_SUCCESS);
}

TEST_F(DoubleRules, HandlesThatAreGoneAreTold) {
  const Device zero(driver, 0), one(driver, 1);
  CUstream stale = nullptr;
  CUevent gone = nullptr;
  {
    Stream stream(zero);
    Event event(zero);
    stale = stream.get();
    gone = event.get();
  }
  const CurrentContext current(zero);
  EXPECT_EQ(driver.stream.query(stale), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(driver.stream.destroy(stale), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(driver.event.query(gone), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(driver.graph.launch(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  Stream stream(zero);
  Event other(one);
  // An event is recorded in its own context's streams only, and waited for in any.
  EXPECT_EQ(driver.event.record(other.get(), stream.get()), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(driver.stream.wait_event(stream.get(), other.get(), 0), CUDA_SUCCESS);
  const Module module(one, "image");
  const CUfunction function = module.function("count");
  EXPECT_EQ(driver.kernel.launch(function, 1, 1, 1, 1, 1, 1, 0, stream.get(), nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(DoubleRules, VirtualMemoryIsWholeAndAligned) {
  const Device device(driver, 0);
  const VirtualMemoryCalls& calls = driver.virtual_memory;
  const Allocation allocation = Allocation::create(device, kUnit);
  const Reservation reservation(device, 2 * kUnit);
  const CUdeviceptr base = reservation.base();
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT_EQ(calls.map(base + 4096, kUnit, 0, allocation.handle(), 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(calls.map(base, 4096, 0, allocation.handle(), 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(calls.map(base, 2 * kUnit, 0, allocation.handle(), 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(calls.map(base + 2 * kUnit, kUnit, 0, allocation.handle(), 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(calls.map(base, kUnit, 0, 12345, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(calls.set_access(base, kUnit, &access, 1), CUDA_ERROR_INVALID_VALUE);
  {
    const Mapping mapping(device, base, kUnit, allocation);
    EXPECT_EQ(calls.map(base, kUnit, 0, allocation.handle(), 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(calls.unmap(base, 2 * kUnit), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(calls.free_addresses(base, 2 * kUnit), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(calls.set_access(base, 2 * kUnit, &access, 1), CUDA_ERROR_INVALID_VALUE);
    access.location.id = 7;
    EXPECT_EQ(calls.set_access(base, kUnit, &access, 1), CUDA_ERROR_INVALID_DEVICE);
  }
  EXPECT_EQ(calls.unmap(base, kUnit), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(calls.release(12345), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(calls.free_addresses(base, kUnit), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DoubleRules, CopiesStayInsideTheirMemory) {
  const Device device(driver, 0);
  const DeviceArena arena(device, kUnit);
  const Reservation reserved(device, kUnit);
  Stream stream(device);
  const CurrentContext current(device);
  const CUdeviceptr last = arena.base() + kUnit - 8;
  std::vector<char> host(64);
  const MemoryCalls& memory = driver.memory;
  EXPECT_EQ(memory.fill(last, 1, 8, stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(memory.fill(last, 1, 9, stream.get()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.copy_to_device(last, host.data(), 9, stream.get()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.copy_to_host(host.data(), last, 9, stream.get()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.copy(reserved.base(), last, 8, stream.get()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.copy_to_host(host.data(), last, 8, stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(host[7], 1);
  // Pageable memory is read before the call returns.
  host.assign(64, 5);
  EXPECT_EQ(memory.copy_to_device(last, host.data(), 8, stream.get()), CUDA_SUCCESS);
  host.assign(64, 6);
  stream.synchronize();
  EXPECT_EQ(*reinterpret_cast<const char*>(last), 5);
}

TEST_F(DoubleRules, PointersAreDescribed) {
  const Device device(driver, 1);
  const DeviceArena arena(device, 2 * kUnit);
  const CurrentContext current(device);
  const MemoryCalls& memory = driver.memory;
  int ordinal = -1;
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  uint64_t id = 0, other_id = 0;
  const CUdeviceptr inside = arena.base() + 100;
  EXPECT_EQ(memory.pointer_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside),
            CUDA_SUCCESS);
  EXPECT_EQ(memory.pointer_attribute(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside),
            CUDA_SUCCESS);
  EXPECT_EQ(memory.pointer_attribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside),
            CUDA_SUCCESS);
  EXPECT_EQ(memory.pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, inside), CUDA_SUCCESS);
  EXPECT_EQ(ordinal, 1);
  EXPECT_EQ(begin, arena.base());
  EXPECT_EQ(bytes, 2 * kUnit);
  const DeviceArena other(device, 1);
  EXPECT_EQ(memory.pointer_attribute(&other_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, other.base()),
            CUDA_SUCCESS);
  EXPECT_NE(id, other_id);
  EXPECT_EQ(memory.pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                     reinterpret_cast<CUdeviceptr>(&id)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.address_range(&begin, &bytes, reinterpret_cast<CUdeviceptr>(&id)),
            CUDA_ERROR_NOT_FOUND);
  size_t free = 0, total = 0, later = 0;
  EXPECT_EQ(driver.context.free_memory(&free, &total), CUDA_SUCCESS);
  const DeviceArena more(device, 3 * kUnit);
  EXPECT_EQ(driver.context.free_memory(&later, &total), CUDA_SUCCESS);
  EXPECT_EQ(free - later, 3 * kUnit);
}

TEST_F(DoubleRules, ImagesThatCannotBeOnesAreRefused) {
  const Device device(driver, 0);
  const CurrentContext current(device);
  CUmodule module = nullptr;
  const auto code = [&](const void* image) {
    const CUresult result = driver.kernel.load_module(&module, image);
    if (result == CUDA_SUCCESS) driver.kernel.unload_module(module);
    return result;
  };
  struct {
    unsigned magic = 0xba55ed50;
    unsigned short version = 1, header = 16;
    unsigned long long bytes = 100;
  } fat;
  EXPECT_EQ(code(&fat), CUDA_SUCCESS);
  fat.bytes = 0;
  EXPECT_EQ(code(&fat), CUDA_ERROR_INVALID_IMAGE);
  unsigned char elf[64] = {0x7f, 'E', 'L', 'F', 2};
  elf[18] = 62;  // of a processor
  EXPECT_EQ(code(elf), CUDA_ERROR_INVALID_IMAGE);
  elf[18] = 190;
  EXPECT_EQ(code(elf), CUDA_SUCCESS);
  EXPECT_EQ(code(".version 9.0\n.target sm_80\n"), CUDA_SUCCESS);
  EXPECT_EQ(code(".version 9.0\n"), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(code(""), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(code(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DoubleRules, LaunchesAreChecked) {
  const Device device(driver, 0);
  Stream stream(device);
  const Module module(device, "image");
  const CUfunction function = module.function("count");
  const CurrentContext current(device);
  PinnedMemory pinned(device, 8);
  auto* to = reinterpret_cast<uint64_t*>(pinned.data());
  void* parameters[] = {&to};
  CUlaunchConfig how{1, 1, 1, 1024, 1, 1, 0, stream.get(), nullptr, 0};
  const auto launch = [&] {
    return driver.kernel.launch_with(&how, function, parameters, nullptr);
  };
  EXPECT_EQ(launch(), CUDA_SUCCESS);
  how.blockDimX = 1025;
  EXPECT_EQ(launch(), CUDA_ERROR_INVALID_VALUE);
  how.blockDimX = 0;
  EXPECT_EQ(launch(), CUDA_ERROR_INVALID_VALUE);
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  how.blockDimX = 1024, how.gridDimX = 17, how.attrs = &cooperative, how.numAttrs = 1;
  EXPECT_EQ(launch(), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);  // 8 multiprocessors of 2048
  how.gridDimX = 16;
  EXPECT_EQ(launch(), CUDA_SUCCESS);
  EXPECT_EQ(driver.kernel.launch(function, 1, 1, 1, 1, 1, 1, 0, stream.get(), nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  int blocks = 0;
  EXPECT_EQ(driver.kernel.blocks_per_multiprocessor(&blocks, function, 512, 0), CUDA_SUCCESS);
  EXPECT_EQ(blocks, 4);
  stream.synchronize();
  EXPECT_EQ(*to, 2u + 16 * 2);
}

using DoubleRulesDeathTest = DoubleRules;

TEST_F(DoubleRulesDeathTest, WhatIsNotReleasedIsCountedAtExit) {
  const auto end_with = [](bool leave) {
    const FreshDouble counting({{"FAKE_CUDA_LEAKS", "1"}});
    auto* device = new Device(counting.driver(), 0);
    auto* stream = new Stream(*device);
    if (!leave) {
      delete stream;
      delete device;
    }
    std::exit(0);
  };
  EXPECT_EXIT(end_with(true), ::testing::ExitedWithCode(97),
              "fake CUDA: not released: 1 context, 1 stream");
  EXPECT_EXIT(end_with(false), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ringwood::cuda
