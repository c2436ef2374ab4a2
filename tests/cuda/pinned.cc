// The arena's blocks that devices copy from and to directly.
#include "transports/cuda/pinned.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "tests/cuda/device_memory.h"
#include "tests/support/errors.h"
#include "transports/cuda/group_devices.h"

namespace ringwood::cuda {
namespace {

using testing::contains;

class PinnedBlocksTest : public DeviceMemory {
 protected:
  std::byte* block(size_t bytes) { return static_cast<std::byte*>(arena.allocate(bytes)); }
  // Whether a copy from there does not wait for the host's memory.
  bool is_pinned(const void* data) {
    const CurrentContext current(*device);
    unsigned type = 0;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    void* answers[] = {&type};
    EXPECT_EQ(
        driver.memory.pointer_attributes(1, asked, answers, reinterpret_cast<CUdeviceptr>(data)),
        CUDA_SUCCESS);
    return type == CU_MEMORYTYPE_HOST;
  }

  Arena& arena = *Arena::of_process();
  static constexpr size_t kBytes = size_t{4} << 20;
};

TEST_F(PinnedBlocksTest, ABlockIsPinnedAsAWholeAndOnce) {
  PinnedBlocks pinned(arena, *device, size_t{64} << 20);
  std::byte* const data = block(kBytes);
  cuda.fail("cuMemHostRegister:2=1");  // a second one would fail
  auto seen = pinned.pin(data + 4096, 100);
  ASSERT_TRUE(seen) << seen.error().cause;
  EXPECT_EQ(*seen, reinterpret_cast<CUdeviceptr>(data + 4096));
  EXPECT_TRUE(is_pinned(data));
  EXPECT_TRUE(is_pinned(data + kBytes - 1));
  EXPECT_GE(pinned.bytes(), kBytes);
  EXPECT_TRUE(pinned.pin(data + kBytes - 1, 1));
  EXPECT_EQ(cuda.left(), "1 context, 1 registration");
  arena.release(data);
}

TEST_F(PinnedBlocksTest, APageThatGoesIsNotPinnedAnyMore) {
  PinnedBlocks pinned(arena, *device, size_t{1} << 30);
  // More than the arena keeps for later (page_accounts.h): some go back to the kernel.
  std::vector<std::byte*> all;
  for (int i = 0; i < 5; ++i) {
    all.push_back(block(size_t{128} << 20));
    ASSERT_TRUE(pinned.pin(all.back(), 1));
  }
  const size_t before = pinned.bytes();
  for (std::byte* data : all) arena.release(data);
  EXPECT_EQ(pinned.bytes(), before / 5 * 4);
  EXPECT_EQ(cuda.left(), "1 context, 4 registrations");
  // Two blocks in the place of one: each is pinned for itself.
  std::byte* const one = block(size_t{8} << 20);
  std::byte* const two = block(size_t{8} << 20);
  ASSERT_TRUE(pinned.pin(one, 1));
  ASSERT_TRUE(pinned.pin(two, 1));
  EXPECT_TRUE(is_pinned(one));
  EXPECT_TRUE(is_pinned(two));
  arena.release(one);
  arena.release(two);
}

TEST_F(PinnedBlocksTest, AreCopiedToAndFromWithoutTheHost) {
  PinnedBlocks pinned(arena, *device, size_t{64} << 20);
  std::byte* const data = block(kBytes);
  ASSERT_TRUE(pinned.pin(data, kBytes));
  const CUdeviceptr at = allocate(kBytes);
  {
    Stream stream(*device);
    const CurrentContext current(*device);
    std::memset(data, 7, kBytes);
    cuda.pause(true);
    EXPECT_EQ(driver.memory.copy_to_device(at, data, kBytes, stream.get()), CUDA_SUCCESS);
    std::memset(data, 9, kBytes);  // seen, because the copy has not begun
    cuda.pause(false);
    stream.synchronize();
    EXPECT_EQ(read(at) & 0xff, 9u);
  }
  free(at);
  arena.release(data);
}

TEST_F(PinnedBlocksTest, TheirBytesAreBounded) {
  PinnedBlocks pinned(arena, *device, kBytes);
  std::byte* const one = block(kBytes);
  std::byte* const two = block(kBytes);
  ASSERT_TRUE(pinned.pin(one, 1));
  auto refused = pinned.pin(two, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::system);
  EXPECT_PRED2(contains, refused.error().cause, "4194304 are in use, and 4194304 are allowed");
  arena.release(one);
  arena.release(two);
}

TEST_F(PinnedBlocksTest, WhatTheDriverRefusesIsSaidAndNothingIsLeft) {
  PinnedBlocks pinned(arena, *device, size_t{64} << 20);
  std::byte* const data = block(kBytes);
  cuda.fail("cuMemHostRegister:1=2");
  auto refused = pinned.pin(data, 1);
  ASSERT_FALSE(refused);
  EXPECT_PRED2(contains, refused.error().cause,
               "cuMemHostRegister on device 0: CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_PRED2(contains, refused.error().cause, "ulimit -l");
  cuda.fail("cuMemHostGetDevicePointer:1=1");
  EXPECT_FALSE(pinned.pin(data, 1));
  EXPECT_EQ(pinned.bytes(), 0u);
  EXPECT_EQ(cuda.left(), "1 context");
  int outside = 0;
  EXPECT_FALSE(pinned.pin(&outside, sizeof outside));
  cuda.fail("");
  EXPECT_TRUE(pinned.pin(data, 1));
  arena.release(data);
}

// Of every track its own, as large as the largest call so far.
TEST(PinnedScratch, GrowsWithTheCalls) {
  CudaOptions options;
  options.library = CUDA_DOUBLE;
  const auto devices = make_group_devices(options, 2, -1);
  for (const size_t bytes : {size_t{100}, size_t{1} << 20, size_t{300} << 10, size_t{9} << 20}) {
    ASSERT_TRUE(devices->ready(0, bytes));
    const auto apart = devices->scratch(0) - devices->scratch(1);
    EXPECT_GE(static_cast<size_t>(std::abs(apart)), bytes);
    for (const int track : {0, 1})
      EXPECT_TRUE(Arena::of_process()->offset_of(devices->scratch(track), bytes));
  }
}

// And what is given back is used again, by messages of about the size.
TEST(PinnedScratch, StagingIsUsedAgain) {
  CudaOptions options;
  options.library = CUDA_DOUBLE;
  const auto devices = make_group_devices(options, 1, -1);
  ASSERT_TRUE(devices->ready(0, 1));
  auto first = devices->staging(5000), other = devices->staging(5000);
  ASSERT_TRUE(first && other);
  EXPECT_GE(static_cast<size_t>(std::abs(*first - *other)), 5000u);
  devices->give_back(*first);
  EXPECT_EQ(*devices->staging(6000), *first);
  EXPECT_NE(*devices->staging(60'000), *other);
}

}  // namespace
}  // namespace ringwood::cuda
