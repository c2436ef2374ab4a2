/* The part of NCCL's C interface that libringwood-nccl.so carries out: programs written for it are
 * compiled with this header, or with NVIDIA's own, and linked with this library instead. The layout
 * of every type is that of NCCL 2.32 (tests/nccl/types_agree.cc).
 *
 * Memory. A buffer is in memory of a GPU if the driver of this process knows it, and in memory of
 * the CPU otherwise; all buffers of a call are in the one or the other.
 *   GPU   calls are given to the stream and return. Send and receive are not supported there.
 *   CPU   calls are done when they return, or when the outermost ncclGroupEnd() returns. What the
 *         stream was given before is waited for first. The null stream stands for no stream.
 *
 * Rules. All ranks make the same collectives in the same order, and the same groups of them. Calls
 * of one thread on several communicators stand in one group, as do the ncclCommInitRank() that make
 * them. Communicators block: ncclInProgress is never returned. One device per rank.
 *
 * Errors. ncclGetLastError() has the sentence of the last one: of that communicator, or, for a null
 * one, of this thread, else of any. A rank that dies or is late ends the communicator on all ranks:
 * every call returns ncclRemoteError, and ncclCommGetAsyncError() tells so without a call. A handle
 * that is not of a live communicator is ncclInvalidArgument. Minimum, maximum and average of
 * unsigned 64-bit numbers are for memory of the CPU only.
 *
 * Thread safety: all functions; groups belong to a thread. ncclCommAbort() may be called while
 * other threads are in calls, which then return ncclInternalError. */
#ifndef RINGWOOD_NCCL_H
#define RINGWOOD_NCCL_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 32
#define NCCL_PATCH 3
#define NCCL_SUFFIX ""
#define NCCL_VERSION_CODE 23203
/* Until 2.8 a version had one digit less. */
#define NCCL_VERSION(major, minor, patch)                                 \
  ((major) > 2 || (minor) > 8 ? 10000 * (major) + 100 * (minor) + (patch) \
                              : 1000 * (major) + 100 * (minor) + (patch))

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* CUDA's own types, so that its headers are not needed here and may be included too. */
struct CUstream_st;
typedef struct CUstream_st* cudaStream_t;

typedef struct ncclComm* ncclComm_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8,
  ncclNumResults = 9
} ncclResult_t;

typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5, /* from here on: ncclRedOpCreatePreMulSum() */
  ncclMaxRedOp = INT_MAX
} ncclRedOp_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = ncclInt8,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = ncclInt32,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = ncclFloat16,
  ncclFloat32 = 7,
  ncclFloat = ncclFloat32,
  ncclFloat64 = 8,
  ncclDouble = ncclFloat64,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_API_MAGIC 0xcafebeef
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01

/* Used are size, magic and commName; the others are hints for NCCL's kernels. */
typedef struct ncclConfig_v23100 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
  int launchOrderImplicit;
  int numRmaSig;
  int rmaEagerInit;
  int hostCftMode;
  int nvlsHostMode;
} ncclConfig_t;

/* clang-format off */
#define NCCL_CONFIG_INITIALIZER                                                                    \
  {sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE,                                        \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,     \
   NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR,     \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,     \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,     \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,     \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT}
/* clang-format on */

typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;
#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, -1.0f }

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
/* Valid until this thread calls it again. */
const char* ncclGetLastError(ncclComm_t comm);

/* Communicators. The process that makes an id serves it, and must live until all ranks have made
 * their communicators, and those split or shrunk from them. NCCL_COMM_ID=host:port: rank 0 serves
 * there instead. Whoever reads an id can join its group. */
ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config);
/* Uses the first id. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t* config);
ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);
/* After it a communicator can only be destroyed. */
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
/* Ends the communicator on all ranks, and this handle. */
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config);
/* Called by the ranks that stay. */
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);
/* 0 where no GPU is used. */
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);

/* Memory of the current GPU, or of the CPU in a process that does not use CUDA. */
ncclResult_t ncclMemAlloc(void** ptr, size_t size);
ncclResult_t ncclMemFree(void* ptr);
/* No effect: buffers need no registration. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);

/* For floating types, and factors in memory of the CPU. */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);

/* A call that fails within a group is that of ncclGroupEnd(), too, and nothing is launched. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
/* ncclInvalidUsage, and the group is dropped. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
