#include "transports/cuda/check.h"

#include <fmt/format.h>

namespace ringwood::cuda {
namespace {

struct Known {
  CUresult result;
  ErrorCode code;
  const char* remedy;
};

constexpr const char* kBrokenDevice =
    "the device or its driver is broken until it is reset; see nvidia-smi and the kernel's log "
    "(dmesg, Xid)";
constexpr const char* kFaultyKernel =
    "a kernel of this process failed, not necessarily one of this library; run with "
    "CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer to find it";

constexpr Known kKnown[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, ErrorCode::system,
     "free memory of the device or of the host, or raise the limit on locked memory (ulimit -l)"},
    {CUDA_ERROR_NOT_INITIALIZED, ErrorCode::internal,
     "CUDA cannot be used in a process that was forked after its first use: start processes with "
     "spawn"},
    {CUDA_ERROR_DEINITIALIZED, ErrorCode::internal,
     "the process is ending: destroy communicators before main() returns"},
    {CUDA_ERROR_STUB_LIBRARY, ErrorCode::unsupported,
     "the CUDA toolkit's stub was found instead of the driver: take its folder (stubs) out of "
     "LD_LIBRARY_PATH"},
    {CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, ErrorCode::unsupported, "install a newer driver"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, ErrorCode::unsupported,
     "another process has the device for itself: end it, or set the compute mode to default "
     "(nvidia-smi -c 0)"},
    {CUDA_ERROR_NO_DEVICE, ErrorCode::unsupported,
     "if nvidia-smi shows devices, CUDA_VISIBLE_DEVICES hides them"},
    {CUDA_ERROR_INVALID_DEVICE, ErrorCode::invalid_argument,
     "CUDA_VISIBLE_DEVICES decides which devices there are, and their numbers"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, ErrorCode::system, kBrokenDevice},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, ErrorCode::system, kBrokenDevice},
    {CUDA_ERROR_OPERATING_SYSTEM, ErrorCode::system,
     "see ulimit -l and -n, and whether a container forbids the call"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, ErrorCode::system, kFaultyKernel},
    {CUDA_ERROR_LAUNCH_FAILED, ErrorCode::system, kFaultyKernel},
    {CUDA_ERROR_LAUNCH_TIMEOUT, ErrorCode::system,
     "the device also serves a display, which limits the time of a kernel"},
    {CUDA_ERROR_NOT_PERMITTED, ErrorCode::system,
     "a container or the kernel's settings forbid it: see its limits and capabilities"},
    {CUDA_ERROR_NOT_SUPPORTED, ErrorCode::unsupported,
     "this device, driver or virtual machine lacks it"},
    {CUDA_ERROR_SYSTEM_NOT_READY, ErrorCode::unsupported,
     "start nvidia-fabricmanager, of the same version as the driver"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, ErrorCode::unsupported,
     "libcuda and the kernel's driver have different versions: reboot, or load the new module "
     "(in a container: recreate it)"},
    {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, ErrorCode::unsupported,
     "take the forward-compatible libcuda (cuda-compat) out of LD_LIBRARY_PATH"},
    {CUDA_ERROR_MPS_CONNECTION_FAILED, ErrorCode::unsupported,
     "start nvidia-cuda-mps-control, or unset CUDA_MPS_PIPE_DIRECTORY"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, ErrorCode::unsupported,
     "it cannot be done while a stream is captured: do it once before the capture"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, ErrorCode::unsupported,
     "an earlier call broke the capture: its error says which"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, ErrorCode::unsupported,
     "the default stream cannot be used while another stream is captured: use a stream of its own"},
    {CUDA_ERROR_UNKNOWN, ErrorCode::system,
     "see the kernel's log (dmesg); after a suspend, reload nvidia-uvm"},
};

const Known* find(CUresult result) {
  for (const Known& known : kKnown)
    if (known.result == result) return &known;
  return nullptr;
}

// The driver knows codes that are newer than this list.
std::string text_of(const Driver& driver, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name(result, &name) != CUDA_SUCCESS || !name)
    return fmt::format("error {}", static_cast<unsigned>(result));
  if (driver.error_string(result, &text) != CUDA_SUCCESS || !text) return name;
  return fmt::format("{}, {}", name, text);
}

}  // namespace

Error failure(const Driver& driver, CUresult code, const char* call, int device) {
  std::string cause = call;
  if (device >= 0) cause += fmt::format(" on device {}", device);
  cause += fmt::format(": {}", text_of(driver, code));
  const Known* known = find(code);
  if (known) cause += fmt::format("; {}", known->remedy);
  return {known ? known->code : ErrorCode::system, std::move(cause)};
}

}  // namespace ringwood::cuda
