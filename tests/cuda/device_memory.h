// For tests: a device of a fresh double, whose memory is written and read as a program does it, and
// of which nothing is left at the end.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "tests/cuda/fresh_double.h"
#include "transports/cuda/handles.h"

namespace ringwood::cuda {

class DeviceMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ASSERT_TRUE(cuda.loaded()) << cuda.error().cause;
  }
  void TearDown() override {
    device.reset();
    EXPECT_EQ(cuda.left(), "");
  }

  CUdeviceptr allocate(size_t bytes) {
    const CurrentContext current(*device);
    CUdeviceptr at = 0;
    EXPECT_EQ(cuda.symbol<CUresult (*)(CUdeviceptr*, size_t)>("cuMemAlloc_v2")(&at, bytes),
              CUDA_SUCCESS);
    return at;
  }
  void free(CUdeviceptr at) {
    const CurrentContext current(*device);
    EXPECT_EQ(cuda.symbol<CUresult (*)(CUdeviceptr)>("cuMemFree_v2")(at), CUDA_SUCCESS);
  }
  void write(CUdeviceptr at, uint64_t word) {
    const CurrentContext current(*device);
    Stream stream(*device);
    ASSERT_EQ(driver.memory.copy_to_device(at, &word, sizeof word, stream.get()), CUDA_SUCCESS);
    stream.synchronize();
  }
  uint64_t read(CUdeviceptr at) {
    const CurrentContext current(*device);
    Stream stream(*device);
    uint64_t word = 0;
    EXPECT_EQ(driver.memory.copy_to_host(&word, at, sizeof word, stream.get()), CUDA_SUCCESS);
    stream.synchronize();
    return word;
  }

  const testing::FreshDouble cuda;
  const Driver& driver = cuda.driver();
  std::optional<Device> device{std::in_place, driver, 0};
};

}  // namespace ringwood::cuda
