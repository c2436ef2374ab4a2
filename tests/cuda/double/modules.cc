// Modules, functions and launches. The code of a kernel is its host build (host_kernel.h).
#include <elf.h>

#include <algorithm>
#include <cstring>

#include "tests/cuda/double/captures.h"
#include "tests/cuda/double/kernels.h"

struct CUfunc_st {
  const HostKernel* kernel = nullptr;
  CUcontext context = nullptr;
};

struct CUmod_st {
  CUcontext context = nullptr;
  std::vector<CUfunction> functions;
};

namespace fake_cuda {
namespace {

constexpr int kMaxThreadsPerMultiprocessor = 2048;

Objects<CUmod_st>& modules() { return forever<Objects<CUmod_st>>(); }
Objects<CUfunc_st>& functions() { return forever<Objects<CUfunc_st>>(); }

// Of an image that begins like one of NVIDIA's kinds, whether it can be one; others are taken.
bool may_be_an_image(const void* image) {
  constexpr unsigned kFatBinary = 0xba55ed50;
  constexpr unsigned kMachineCuda = 190;
  const auto* text = static_cast<const char*>(image);
  if (text[0] == '\0') return false;
  if (std::strncmp(text, "//", 2) == 0 || std::strncmp(text, ".version", 8) == 0)
    return std::strstr(text, ".target") != nullptr;
  if (std::strncmp(text, ELFMAG, SELFMAG) == 0) {
    Elf64_Ehdr header;
    std::memcpy(&header, image, sizeof header);
    return header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == kMachineCuda;
  }
  unsigned magic = 0;
  for (int i = 0; i < 4 && (i == 0 || text[i - 1] != '\0'); ++i)
    magic |= static_cast<unsigned>(static_cast<unsigned char>(text[i])) << (8 * i);
  if (magic == kFatBinary) {
    struct {
      unsigned magic;
      unsigned short version, header_bytes;
      unsigned long long bytes;
    } header;
    std::memcpy(&header, image, sizeof header);
    return header.version == 1 && header.header_bytes == sizeof header && header.bytes > 0;
  }
  return true;
}

CUresult launch(const CUlaunchConfig& how, CUfunction handle, void** parameters, void** extra) {
  const auto function = functions().find(handle);
  const auto stream = stream_of(how.hStream);
  if (!function || !stream || function->context != stream->context)
    return CUDA_ERROR_INVALID_HANDLE;
  const unsigned blocks = how.gridDimX * how.gridDimY * how.gridDimZ;
  const unsigned threads = how.blockDimX * how.blockDimY * how.blockDimZ;
  if (blocks == 0 || threads == 0 || threads > kMaxThreadsPerBlock) return CUDA_ERROR_INVALID_VALUE;
  if (extra) return CUDA_ERROR_NOT_SUPPORTED;
  const HostKernel& kernel = *function->kernel;
  if (kernel.parameter_bytes > 0 && !(parameters && parameters[0])) return CUDA_ERROR_INVALID_VALUE;
  const unsigned resident = kMultiprocessors * (kMaxThreadsPerMultiprocessor / threads);
  for (unsigned i = 0; i < how.numAttrs; ++i)
    if (how.attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && how.attrs[i].value.cooperative &&
        blocks > resident)
      return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  auto copied = std::make_shared<Bytes>(std::max<size_t>(kernel.parameter_bytes, 1), 16);
  if (kernel.parameter_bytes > 0) std::memcpy(copied->get(), parameters[0], kernel.parameter_bytes);
  const unsigned count = std::min<unsigned>(static_cast<unsigned>(settings().threads), threads);
  return submit(how.hStream, [=, &kernel] { run_blocks(kernel, copied->get(), blocks, count); });
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

CUresult cuModuleLoadData(CUmodule* handle, const void* image) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  if (!handle || !image) return CUDA_ERROR_INVALID_VALUE;
  if (!may_be_an_image(image)) return CUDA_ERROR_INVALID_IMAGE;
  auto module = std::make_shared<CUmod_st>();
  module->context = current_context();
  *handle = modules().add(std::move(module));
  hold(Held::module, 1);
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule handle) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  const auto module = modules().remove(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  for (const CUfunction function : module->functions) functions().remove(function);
  hold(Held::module, -1);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* handle, CUmodule module_handle, const char* name) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto module = modules().find(module_handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  const HostKernel* const kernel = host_kernel(name);
  if (!kernel) return CUDA_ERROR_NOT_FOUND;
  auto function = std::make_shared<CUfunc_st>();
  function->kernel = kernel;
  function->context = module->context;
  *handle = functions().add(std::move(function));
  module->functions.push_back(*handle);  // a module is filled by one thread
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction handle) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  return functions().find(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto function = functions().find(handle);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = kMaxThreadsPerBlock; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(function->kernel->shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle, int threads,
                                                     size_t) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (!functions().find(handle)) return CUDA_ERROR_INVALID_HANDLE;
  if (threads <= 0 || threads > kMaxThreadsPerBlock) return CUDA_ERROR_INVALID_VALUE;
  *blocks = std::min(kMaxThreadsPerMultiprocessor / threads, 32);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void** parameters, void** extra) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  return launch({grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, nullptr, 0},
                function, parameters, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* how, CUfunction function, void** parameters,
                          void** extra) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  return how ? launch(*how, function, parameters, extra) : CUDA_ERROR_INVALID_VALUE;
}
}
