// What the library shows, and what programs find: every function of NCCL's that PyTorch's library
// for CUDA imports, and no other library behind it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "collectives/nccl/nccl.h"

namespace ringwood::testing {
namespace {

// Of libtorch_cuda.so of torch 2.14.1: `nm -D --undefined-only`.
constexpr const char* kImports[] = {"ncclAllGather",
                                    "ncclAllReduce",
                                    "ncclAlltoAll",
                                    "ncclBcast",
                                    "ncclBroadcast",
                                    "ncclCommAbort",
                                    "ncclCommCount",
                                    "ncclCommDeregister",
                                    "ncclCommDestroy",
                                    "ncclCommFinalize",
                                    "ncclCommGetAsyncError",
                                    "ncclCommGetUniqueId",
                                    "ncclCommGrow",
                                    "ncclCommInitAll",
                                    "ncclCommInitRank",
                                    "ncclCommInitRankConfig",
                                    "ncclCommInitRankScalable",
                                    "ncclCommMemStats",
                                    "ncclCommRegister",
                                    "ncclCommResume",
                                    "ncclCommRevoke",
                                    "ncclCommShrink",
                                    "ncclCommSplit",
                                    "ncclCommSuspend",
                                    "ncclCommUserRank",
                                    "ncclCommWindowDeregister",
                                    "ncclCommWindowRegister",
                                    "ncclDevCommCreate",
                                    "ncclDevCommDestroy",
                                    "ncclGather",
                                    "ncclGetErrorString",
                                    "ncclGetLastError",
                                    "ncclGetLsaMultimemDevicePointer",
                                    "ncclGetPeerDevicePointer",
                                    "ncclGetUniqueId",
                                    "ncclGetVersion",
                                    "ncclGroupEnd",
                                    "ncclGroupSimulateEnd",
                                    "ncclGroupStart",
                                    "ncclMemAlloc",
                                    "ncclMemFree",
                                    "ncclPutSignal",
                                    "ncclRecv",
                                    "ncclRedOpCreatePreMulSum",
                                    "ncclRedOpDestroy",
                                    "ncclReduce",
                                    "ncclReduceScatter",
                                    "ncclSend",
                                    "ncclSignal",
                                    "ncclWaitSignal",
                                    "ncclWinGetUserPtr"};
static_assert(std::size(kImports) == 51);

constexpr const char* kAbsent[] = {"ncclCommGetUniqueId",
                                   "ncclCommGrow",
                                   "ncclCommMemStats",
                                   "ncclCommResume",
                                   "ncclCommRevoke",
                                   "ncclCommSuspend",
                                   "ncclCommWindowDeregister",
                                   "ncclCommWindowRegister",
                                   "ncclDevCommCreate",
                                   "ncclDevCommDestroy",
                                   "ncclGetLsaMultimemDevicePointer",
                                   "ncclGetPeerDevicePointer",
                                   "ncclPutSignal",
                                   "ncclSignal",
                                   "ncclWaitSignal",
                                   "ncclWinGetUserPtr"};

TEST(NcclSymbols, AreThoseThatPyTorchImports) {
  void* const library = ::dlopen(NCCL_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  for (const char* const name : kImports) {
    EXPECT_NE(::dlsym(library, name), nullptr) << name;
    EXPECT_NE(::dlsym(library, ("p" + std::string(name)).c_str()), nullptr) << name;
  }
  for (const char* const name : kAbsent) {
    const auto call = reinterpret_cast<ncclResult_t (*)()>(::dlsym(library, name));
    EXPECT_EQ(call(), ncclInvalidUsage);
    EXPECT_EQ(std::string(ncclGetLastError(nullptr)).find(std::string(name) + " is not supported"),
              0u)
        << ncclGetLastError(nullptr);
  }
}

TEST(NcclSymbols, BringNoCuda) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, NCCL_VERSION_CODE);
  EXPECT_EQ(NCCL_VERSION(2, 32, 3), NCCL_VERSION_CODE);
  EXPECT_EQ(NCCL_VERSION(2, 8, 3), 2803);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    EXPECT_EQ(line.find("libcuda.so"), line.npos) << line;
    EXPECT_EQ(line.find("libcudart"), line.npos) << line;
  }
}

TEST(NcclMemory, IsTheCpusWithoutCuda) {
  void* data = nullptr;
  ASSERT_EQ(ncclMemAlloc(&data, 100), ncclSuccess);
  static_cast<char*>(data)[99] = 1;
  EXPECT_EQ(ncclMemFree(data), ncclSuccess);
  EXPECT_EQ(ncclMemFree(data), ncclInvalidArgument);
  EXPECT_EQ(ncclMemFree(nullptr), ncclSuccess);
}

TEST(NcclHeader, IsOfC) { EXPECT_EQ(std::system(NCCL_C_USER), 0); }

}  // namespace
}  // namespace ringwood::testing
