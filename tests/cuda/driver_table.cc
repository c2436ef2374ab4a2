// The table of the driver's entries: what is loaded, and what is said where nothing can be.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/cuda/fresh_double.h"
#include "tests/support/errors.h"
#include "transports/cuda/check.h"
#include "transports/cuda/device.h"

namespace ringwood::cuda {
namespace {

using testing::contains;
using testing::error_of;
using testing::FreshDouble;

// The sentence of a library that cannot be used.
std::string refusal(const char* file) {
  auto loaded = load_from(file);
  if (loaded) return "it was loaded";
  EXPECT_EQ(loaded.error().code, ErrorCode::unsupported);
  return loaded.error().cause;
}

std::string refusal(const FreshDouble& cuda) {
  if (cuda.loaded()) return "it was loaded";
  EXPECT_EQ(cuda.error().code, ErrorCode::unsupported);
  return cuda.error().cause;
}

bool has_all_entries(const Driver& driver) {
  const auto full = [](const auto& calls) {
    void* entries[sizeof calls / sizeof(void*)];
    std::memcpy(entries, &calls, sizeof calls);
    return std::count(std::begin(entries), std::end(entries), nullptr) == 0;
  };
  return driver.init && driver.error_name && driver.error_string && full(driver.device) &&
         full(driver.context) && full(driver.stream) && full(driver.event) && full(driver.memory);
}

TEST(DriverTable, HasEveryEntryOfANewDriver) {
  const FreshDouble cuda;
  ASSERT_TRUE(cuda.loaded()) << refusal(cuda);
  EXPECT_EQ(cuda.driver().version, 13000);
  EXPECT_TRUE(has_all_entries(cuda.driver()));
  EXPECT_TRUE(cuda.driver().usable());
}

TEST(DriverTable, TheOldestDriverHasThemToo) {
  const FreshDouble cuda({{"FAKE_CUDA_DRIVER", "12000"}});
  ASSERT_TRUE(cuda.loaded()) << refusal(cuda);
  EXPECT_EQ(cuda.driver().version, 12000);
  EXPECT_TRUE(has_all_entries(cuda.driver()));
}

TEST(DriverTable, AnOldDriverIsToldByItsVersion) {
  const std::string why = refusal(FreshDouble({{"FAKE_CUDA_DRIVER", "11080"}}));
  EXPECT_PRED2(contains, why,
               "supports CUDA 11.8, and 12.0 is needed; install NVIDIA's driver 525");
}

TEST(DriverTable, AMissingLibraryIsOneSentenceWithItsRemedy) {
  const std::string why = refusal("libcuda-that-is-not-there.so.1");
  EXPECT_PRED2(contains, why, "libcuda-that-is-not-there.so.1: cannot open shared object file");
  EXPECT_PRED2(contains, why, "install NVIDIA's driver; in a container, start it with");
  EXPECT_EQ(why.find('\n'), why.npos);
}

TEST(DriverTable, AnotherLibraryIsNotTakenForTheDriver) {
  EXPECT_PRED2(contains, refusal("libm.so.6"), "libm.so.6 has no cuDriverGetVersion");
}

TEST(DriverTable, AMissingEntryIsNamed) {
  for (const char* name : {"cuInit", "cuStreamWaitValue32", "cuMemHostRegister"}) {
    const std::string why = refusal(FreshDouble({{"FAKE_CUDA_MISSING", name}}));
    EXPECT_PRED2(contains, why, std::string("has no ") + name + ", although it supports CUDA 13.0");
  }
}

TEST(DriverTable, NoVisibleDeviceIsNoDriver) {
  const std::string why = refusal(FreshDouble({{"CUDA_VISIBLE_DEVICES", ""}}));
  EXPECT_EQ(why,
            "cuInit: CUDA_ERROR_NO_DEVICE, no CUDA-capable device is detected; if nvidia-smi shows "
            "devices, CUDA_VISIBLE_DEVICES hides them");
}

TEST(DriverTable, ADriverThatDoesNotStartSaysWhy) {
  EXPECT_PRED2(contains, refusal(FreshDouble({{"FAKE_CUDA_FAIL", "cuInit:1=803"}})),
               "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, system has unsupported");
  EXPECT_PRED2(contains, refusal(FreshDouble({{"FAKE_CUDA_FAIL", "cuInit:1=34"}})),
               "cuInit: error 34; the CUDA toolkit's stub was found");
}

// The library of this name that is loaded already is taken, so the double stands in for it.
TEST(DriverTable, IsLoadedOnceForTheProcess) {
  const FreshDouble cuda;
  auto first = load();
  ASSERT_TRUE(first.ok()) << first.error().cause;
  auto second = load();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*first, *second);
}

TEST(DriverTable, AForkedChildMayNotUseIt) {
  const FreshDouble cuda;
  ASSERT_TRUE(load().ok());
  const pid_t child = ::fork();
  if (child == 0) {
    int count = 0;
    const bool refused = cuda.driver().device.get_count(&count) == CUDA_ERROR_NOT_INITIALIZED;
    auto loaded = load();
    const bool told = !loaded && contains(loaded.error().cause, "before this process was forked");
    ::_exit((refused ? 1 : 0) + (told ? 2 : 0) + (cuda.driver().usable() ? 0 : 4));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(DriverErrors, SayWhatWhereAndWhatToDo) {
  const FreshDouble cuda;
  const Driver& driver = cuda.driver();
  EXPECT_TRUE(check(driver, CUDA_SUCCESS, "cuMemHostRegister", 1).ok());
  const Status status = check(driver, CUDA_ERROR_OUT_OF_MEMORY, "cuMemHostRegister", 1);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::system);
  EXPECT_EQ(
      status.error().cause,
      "cuMemHostRegister on device 1: CUDA_ERROR_OUT_OF_MEMORY, out of memory; free memory of "
      "the device or of the host, or raise the limit on locked memory (ulimit -l)");
  EXPECT_EQ(failure(driver, CUDA_ERROR_INVALID_VALUE, "cuEventRecord").cause,
            "cuEventRecord: CUDA_ERROR_INVALID_VALUE, invalid argument");
  EXPECT_EQ(failure(driver, CUDA_ERROR_NOT_SUPPORTED, "cuEventRecord", 0).code,
            ErrorCode::unsupported);
  const Error unknown =
      error_of([&] { require(driver, static_cast<CUresult>(12345), "cuEventRecord", 0); });
  EXPECT_EQ(unknown.cause, "cuEventRecord on device 0: error 12345");
}

TEST(Devices, AreTheVisibleOnesInTheirOrder) {
  const auto uuids = [](const char* visible) {
    const FreshDouble cuda({{"FAKE_CUDA_DEVICES", "3"}, {"CUDA_VISIBLE_DEVICES", visible}});
    std::string text;
    for (const DeviceFacts& facts : devices(cuda.driver())) text += facts.uuid.text().back();
    return text;
  };
  EXPECT_EQ(uuids("0,1,2"), "012");
  EXPECT_EQ(uuids("2,0"), "20");
  EXPECT_EQ(uuids("GPU-fa5ece00-0000-0000-0000-000000000002,1"), "21");
  EXPECT_EQ(uuids("1,7,0"), "1");  // the list ends at a device that is not there
  EXPECT_EQ(uuids("1,1"), "1");
}

TEST(Devices, HaveTheirFacts) {
  const FreshDouble cuda;
  const auto all = devices(cuda.driver());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].ordinal, 1);
  EXPECT_EQ(all[1].uuid.text(), "GPU-fa5ece00-0000-0000-0000-000000000001");
  EXPECT_EQ(all[1].name, "Fake GPU 1");
  EXPECT_EQ(all[1].pci, "0000:1b:00.0");
  EXPECT_EQ(all[1].sm, 90);
  EXPECT_GT(all[1].bytes, size_t{1} << 30);
  EXPECT_TRUE(all[1].registers_host_memory);
  EXPECT_LT(all[0].uuid, all[1].uuid);
  EXPECT_PRED2(contains, error_of([&] { facts_of(cuda.driver(), 2); }).cause,
               "cuDeviceGetUuid on device 2: CUDA_ERROR_INVALID_DEVICE");
}

TEST(Devices, TheContextBeforeIsCurrentAgain) {
  const FreshDouble cuda;
  const Driver& driver = cuda.driver();
  const auto current = [&] {
    CUdevice device = -1;
    const auto ask = cuda.symbol<CUresult (*)(CUdevice*)>("cuCtxGetDevice");
    return ask(&device) == CUDA_SUCCESS ? device : -1;
  };
  {
    const Device zero(driver, 0), one(driver, 1);
    EXPECT_EQ(current(), -1);
    {
      const CurrentContext outer(zero);
      EXPECT_EQ(current(), 0);
      {
        const CurrentContext inner(one);
        EXPECT_EQ(current(), 1);
      }
      EXPECT_EQ(current(), 0);
    }
    EXPECT_EQ(current(), -1);
    EXPECT_EQ(cuda.left(), "2 contexts");
  }
  EXPECT_EQ(cuda.left(), "");
}

}  // namespace
}  // namespace ringwood::cuda
