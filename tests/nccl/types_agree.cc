// The layout and the values of NCCL's types, and the type of each function. Compiled with our
// header in the suite, and with NVIDIA's where its package is installed: both agree with this file.
#include <cstddef>
#include <type_traits>

#ifdef NVIDIAS_NCCL_HEADER
#include NVIDIAS_NCCL_HEADER
#else
#include "collectives/nccl/nccl.h"
#endif

namespace {

static_assert(NCCL_VERSION_CODE == 23203 && NCCL_VERSION(2, 32, 3) == 23203);
static_assert(NCCL_VERSION(2, 8, 3) == 2803 && NCCL_VERSION(2, 9, 0) == 20900);
static_assert(NCCL_API_MAGIC == 0xcafebeef && NCCL_CONFIG_UNDEF_INT == INT_MIN);
static_assert(NCCL_SPLIT_NOCOLOR == -1 && NCCL_SHRINK_DEFAULT == 0 && NCCL_SHRINK_ABORT == 1);
static_assert(NCCL_UNIQUE_ID_BYTES == 128 && sizeof(ncclUniqueId) == 128);
static_assert(alignof(ncclUniqueId) == 1);

static_assert(ncclSuccess == 0 && ncclUnhandledCudaError == 1 && ncclSystemError == 2);
static_assert(ncclInternalError == 3 && ncclInvalidArgument == 4 && ncclInvalidUsage == 5);
static_assert(ncclRemoteError == 6 && ncclInProgress == 7 && ncclTimeout == 8);
static_assert(ncclNumResults == 9);
static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4);
static_assert(ncclNumOps == 5 && ncclMaxRedOp == INT_MAX && sizeof(ncclRedOp_t) == 4);
static_assert(ncclInt8 == 0 && ncclChar == 0 && ncclUint8 == 1 && ncclInt32 == 2 && ncclInt == 2);
static_assert(ncclUint32 == 3 && ncclInt64 == 4 && ncclUint64 == 5 && ncclFloat16 == 6);
static_assert(ncclHalf == 6 && ncclFloat32 == 7 && ncclFloat == 7 && ncclFloat64 == 8);
static_assert(ncclDouble == 8 && ncclBfloat16 == 9 && ncclFloat8e4m3 == 10);
static_assert(ncclFloat8e5m2 == 11 && ncclNumTypes == 12);
static_assert(ncclScalarDevice == 0 && ncclScalarHostImmediate == 1);

static_assert(sizeof(ncclConfig_t) == 120 && offsetof(ncclConfig_t, magic) == 8);
static_assert(offsetof(ncclConfig_t, version) == 12 && offsetof(ncclConfig_t, blocking) == 16);
static_assert(offsetof(ncclConfig_t, netName) == 32 && offsetof(ncclConfig_t, splitShare) == 40);
static_assert(offsetof(ncclConfig_t, commName) == 48);
static_assert(offsetof(ncclConfig_t, collnetEnable) == 56);
static_assert(offsetof(ncclConfig_t, nvlsHostMode) == 112);
static_assert(sizeof(ncclSimInfo_t) == 24 && offsetof(ncclSimInfo_t, estimatedTime) == 16);
static_assert(std::is_same_v<cudaStream_t, CUstream_st*>);

template <class... Args>
using Function = ncclResult_t(Args...);
template <auto* function, class Type>
constexpr bool is = std::is_same_v<std::remove_pointer_t<decltype(function)>, Type>;
using Type = ncclDataType_t;
using Op = ncclRedOp_t;
using Comm = ncclComm_t;
using Stream = cudaStream_t;
using Config = ncclConfig_t*;
using In = const void*;
using Out = void*;

static_assert(is<&ncclGetErrorString, const char*(ncclResult_t)>);
static_assert(is<&ncclGetLastError, const char*(Comm)>);
static_assert(is<&ncclGetVersion, Function<int*>>);
static_assert(is<&ncclGetUniqueId, Function<ncclUniqueId*>>);
static_assert(is<&ncclCommInitRank, Function<Comm*, int, ncclUniqueId, int>>);
static_assert(is<&ncclCommInitRankConfig, Function<Comm*, int, ncclUniqueId, int, Config>>);
static_assert(is<&ncclCommInitRankScalable, Function<Comm*, int, int, int, ncclUniqueId*, Config>>);
static_assert(is<&ncclCommInitAll, Function<Comm*, int, const int*>>);
static_assert(is<&ncclCommFinalize, Function<Comm>>);
static_assert(is<&ncclCommDestroy, Function<Comm>>);
static_assert(is<&ncclCommAbort, Function<Comm>>);
static_assert(is<&ncclCommSplit, Function<Comm, int, int, Comm*, Config>>);
static_assert(is<&ncclCommShrink, Function<Comm, int*, int, Comm*, Config, int>>);
static_assert(is<&ncclCommGetAsyncError, Function<Comm, ncclResult_t*>>);
static_assert(is<&ncclCommCount, Function<Comm, int*>>);
static_assert(is<&ncclCommCuDevice, Function<Comm, int*>>);
static_assert(is<&ncclCommUserRank, Function<Comm, int*>>);
static_assert(is<&ncclCommRegister, Function<Comm, void*, size_t, void**>>);
static_assert(is<&ncclCommDeregister, Function<Comm, void*>>);
static_assert(is<&ncclMemAlloc, Function<void**, size_t>>);
static_assert(is<&ncclMemFree, Function<void*>>);
static_assert(
    is<&ncclRedOpCreatePreMulSum, Function<Op*, void*, Type, ncclScalarResidence_t, Comm>>);
static_assert(is<&ncclRedOpDestroy, Function<Op, Comm>>);
static_assert(is<&ncclAllReduce, Function<In, Out, size_t, Type, Op, Comm, Stream>>);
static_assert(is<&ncclReduce, Function<In, Out, size_t, Type, Op, int, Comm, Stream>>);
static_assert(is<&ncclReduceScatter, Function<In, Out, size_t, Type, Op, Comm, Stream>>);
static_assert(is<&ncclBcast, Function<Out, size_t, Type, int, Comm, Stream>>);
static_assert(is<&ncclBroadcast, Function<In, Out, size_t, Type, int, Comm, Stream>>);
static_assert(is<&ncclAllGather, Function<In, Out, size_t, Type, Comm, Stream>>);
static_assert(is<&ncclAlltoAll, Function<In, Out, size_t, Type, Comm, Stream>>);
static_assert(is<&ncclGather, Function<In, Out, size_t, Type, int, Comm, Stream>>);
static_assert(is<&ncclScatter, Function<In, Out, size_t, Type, int, Comm, Stream>>);
static_assert(is<&ncclSend, Function<In, size_t, Type, int, Comm, Stream>>);
static_assert(is<&ncclRecv, Function<Out, size_t, Type, int, Comm, Stream>>);
static_assert(is<&ncclGroupStart, Function<>> && is<&ncclGroupEnd, Function<>>);
static_assert(is<&ncclGroupSimulateEnd, Function<ncclSimInfo_t*>>);

}  // namespace
