// The entry points that only tell something, and those that have no counterpart here.
#include <fmt/format.h>

#include "collectives/nccl/comm.h"

namespace {

const char* words_of(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "success";
    case ncclUnhandledCudaError: return "a call of CUDA failed";
    case ncclSystemError: return "the operating system refused a call";
    case ncclInternalError: return "the library failed, or the communicator was aborted";
    case ncclInvalidArgument: return "an argument is not valid";
    case ncclInvalidUsage: return "the call is not allowed or not supported here, or ranks differ";
    case ncclRemoteError: return "another rank has died, is late or cannot be reached";
    case ncclInProgress: return "the call is in progress";
    case ncclTimeout: return "a deadline has passed";
    case ncclNumResults: break;
  }
  return "not a result of NCCL";
}

// What this thread was told last.
std::string& told() {
  thread_local std::string sentence;
  return sentence;
}

ncclResult_t absent(const char* name, const char* why) {
  return ringwood::nccl::guarded(
      [&] { ringwood::nccl::refuse_to_use(fmt::format("{} is not supported: {}", name, why)); });
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  return ringwood::nccl::guarded([&] {
    if (!version) ringwood::nccl::refuse("ncclGetVersion: the place for the number is null");
    *version = NCCL_VERSION_CODE;
  });
}

const char* ncclGetErrorString(ncclResult_t result) { return words_of(result); }

const char* ncclGetLastError(ncclComm_t comm) {
  try {
    const auto found = comm ? ringwood::nccl::find_or_null(comm) : nullptr;
    told() = found ? found->sentence() : ringwood::nccl::last_sentence();
  } catch (...) {
    return "";
  }
  return told().c_str();
}

}  // extern "C"

RINGWOOD_NCCL_TWIN(ncclGetVersion);
RINGWOOD_NCCL_TWIN(ncclGetErrorString);
RINGWOOD_NCCL_TWIN(ncclGetLastError);

// A program that was compiled with NVIDIA's header may need these to be linked or loaded. What they
// are given is not read.
#define RINGWOOD_NCCL_ABSENT(name, why)                                   \
  extern "C" __attribute__((visibility("default"))) ncclResult_t name() { \
    return absent(#name, why);                                            \
  }                                                                       \
  RINGWOOD_NCCL_TWIN(name)

namespace {
constexpr const char* kWindows = "buffers are not registered as windows here; use collectives";
constexpr const char* kInKernels = "kernels of a program cannot communicate by themselves here";
constexpr const char* kOneSided = "there are no writes to windows here; use ncclSend and ncclRecv";
constexpr const char* kMemory = "the memory of a communicator is kept as long as it lives";
constexpr const char* kGrow = "make a new communicator with ncclCommInitRank";
constexpr const char* kRevoke = "use ncclCommAbort";
}  // namespace

RINGWOOD_NCCL_ABSENT(ncclCommGetUniqueId, kGrow);
RINGWOOD_NCCL_ABSENT(ncclCommGrow, kGrow);
RINGWOOD_NCCL_ABSENT(ncclCommRevoke, kRevoke);
RINGWOOD_NCCL_ABSENT(ncclCommSuspend, kMemory);
RINGWOOD_NCCL_ABSENT(ncclCommResume, kMemory);
RINGWOOD_NCCL_ABSENT(ncclCommMemStats, kMemory);
RINGWOOD_NCCL_ABSENT(ncclCommWindowRegister, kWindows);
RINGWOOD_NCCL_ABSENT(ncclCommWindowDeregister, kWindows);
RINGWOOD_NCCL_ABSENT(ncclWinGetUserPtr, kWindows);
RINGWOOD_NCCL_ABSENT(ncclDevCommCreate, kInKernels);
RINGWOOD_NCCL_ABSENT(ncclDevCommDestroy, kInKernels);
RINGWOOD_NCCL_ABSENT(ncclGetLsaMultimemDevicePointer, kInKernels);
RINGWOOD_NCCL_ABSENT(ncclGetPeerDevicePointer, kInKernels);
RINGWOOD_NCCL_ABSENT(ncclPutSignal, kOneSided);
RINGWOOD_NCCL_ABSENT(ncclSignal, kOneSided);
RINGWOOD_NCCL_ABSENT(ncclWaitSignal, kOneSided);
