// The double's own rules: invalid use gets the driver's codes, and what it counts at exit.
#include <gtest/gtest.h>

#include "tests/cuda/device_memory.h"

namespace ringwood::cuda {
namespace {

using testing::FreshDouble;

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
  Stream stream(zero);
  Event other(one);
  // An event is recorded in its own context's streams only, and waited for in any.
  EXPECT_EQ(driver.event.record(other.get(), stream.get()), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(driver.stream.wait_event(stream.get(), other.get(), 0), CUDA_SUCCESS);
}

class DoubleMemory : public DeviceMemory {};

TEST_F(DoubleMemory, CopiesStayInsideIt) {
  const CUdeviceptr at = allocate(4096);
  const CUdeviceptr last = at + 4096 - 8;
  std::vector<char> host(64);
  {
    Stream stream(*device);
    const CurrentContext current(*device);
    const MemoryCalls& memory = driver.memory;
    EXPECT_EQ(memory.copy_to_device(last, host.data(), 9, stream.get()), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(memory.copy_to_host(host.data(), last, 9, stream.get()), CUDA_ERROR_INVALID_VALUE);
    // Pageable memory is read before the call returns.
    host.assign(64, 5);
    EXPECT_EQ(memory.copy_to_device(last, host.data(), 8, stream.get()), CUDA_SUCCESS);
    host.assign(64, 6);
    EXPECT_EQ(memory.copy_to_host(host.data(), last, 8, stream.get()), CUDA_SUCCESS);
    EXPECT_EQ(host[7], 5);
  }
  free(at);
}

TEST_F(DoubleMemory, PointersAreDescribed) {
  const CUdeviceptr at = allocate(64);
  {
    const CurrentContext current(*device);
    unsigned type = 0;
    int ordinal = -1;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void* answers[] = {&type, &ordinal};
    EXPECT_EQ(driver.memory.pointer_attributes(2, asked, answers, at + 63), CUDA_SUCCESS);
    EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
    EXPECT_EQ(ordinal, 0);
    type = 0;
    const auto own = reinterpret_cast<CUdeviceptr>(&type);
    EXPECT_EQ(driver.memory.pointer_attributes(1, asked, answers, own), CUDA_SUCCESS);
    EXPECT_EQ(type, 0u);
  }
  free(at);
}

using DoubleMemoryDeathTest = DoubleMemory;

TEST_F(DoubleMemoryDeathTest, TheHostCannotTouchIt) {
  const CUdeviceptr at = allocate(64);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(at) = 1, "");
  EXPECT_DEATH((void)*reinterpret_cast<volatile char*>(at), "");
  free(at);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(at) = 1, "");
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
