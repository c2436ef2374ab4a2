// The entry points of collectives, send, receive and groups.
#include <fmt/format.h>

#include "collectives/kernels/types.h"
#include "collectives/nccl/memory.h"
#include "collectives/nccl/thread_group.h"

namespace ringwood::nccl {
namespace {

struct Type {
  DataType type;
  bool is_unsigned = false;  // where `type` is not
};
// By ncclDataType_t.
constexpr Type kTypes[] = {{DataType::int8},     {DataType::uint8},       {DataType::int32},
                           {DataType::uint32},   {DataType::int64},       {DataType::int64, true},
                           {DataType::float16},  {DataType::float32},     {DataType::float64},
                           {DataType::bfloat16}, {DataType::float8_e4m3}, {DataType::float8_e5m2}};
static_assert(std::size(kTypes) == ncclNumTypes);
// By ncclRedOp_t.
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min,
                             ReduceOp::avg};
static_assert(std::size(kOps) == ncclNumOps);

Type type_of(ncclDataType_t type) {
  if (type < 0 || type >= ncclNumTypes)
    refuse(fmt::format("{} is no data type of NCCL", static_cast<int>(type)));
  return kTypes[type];
}

// What a program says of a call.
struct Said {
  const void* in;
  void* out;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  cudaStream_t stream;
};

bool uses_input(Kind kind, bool is_root) {
  return kind == Kind::broadcast || kind == Kind::scatter ? is_root : kind != Kind::recv;
}
bool uses_output(Kind kind, bool is_root) {
  return kind == Kind::reduce || kind == Kind::gather ? is_root : kind != Kind::send;
}

void set_op(Call& call, ncclRedOp_t op) {
  if (!reduces(call.kind)) return;
  if (op >= 0 && op < ncclNumOps) {
    call.op = kOps[op];
  } else {
    call.op = ReduceOp::premul_sum;
    call.factor = call.comm->factor_of(op);
    if (call.factor.type != call.type)
      refuse(fmt::format("{}: the factor is a {}, and the elements are {}", to_string(call.kind),
                         to_string(call.factor.type), to_string(call.type)));
  }
}

// All buffers that are used are in one memory.
void set_memory(Call& call) {
  std::optional<int> gpu;
  const void* first = nullptr;
  for (const void* data : {call.in, static_cast<const void*>(call.out)}) {
    if (!data) continue;
    const std::optional<int> own = gpu_of(data, call.comm->ordinal);
    if (first && own != gpu)
      refuse(
          fmt::format("{}: its buffers are in different memories: one in the CPU's, or on "
                      "another GPU",
                      to_string(call.kind)));
    first = data;
    gpu = own;
  }
  call.gpu = gpu.value_or(-1);
}

Call checked(Kind kind, const Said& said, CommPtr comm) {
  Call call;
  call.kind = kind;
  const char* const name = to_string(kind);
  const Type type = type_of(said.type);
  const bool is_root = said.root == comm->rank;
  if (said.root < 0 || said.root >= comm->size)
    refuse(fmt::format("{}: there is no rank {} among {}", name, said.root, comm->size));
  call.comm = std::move(comm);
  call.count = said.count;
  call.type = type.type;
  call.is_unsigned = type.is_unsigned;
  call.root = said.root;
  call.stream = said.stream;
  set_op(call, said.op);
  if (uses_input(kind, is_root)) call.in = said.in;
  if (uses_output(kind, is_root)) call.out = said.out;
  if (call.count > 0 &&
      ((uses_input(kind, is_root) && !said.in) || (uses_output(kind, is_root) && !said.out)))
    refuse(fmt::format("{}: a buffer is null", name));
  set_memory(call);
  return call;
}

ncclResult_t submit(Kind kind, ncclComm_t handle, const Said& said) {
  ThreadGroup& group = ThreadGroup::of_this_thread();
  CommPtr comm;
  try {
    comm = find(handle);
    (void)comm->usable();
    Call call = checked(kind, said, comm);
    if (call.count > 0) group.add(std::move(call));
    return ncclSuccess;
  } catch (...) {
    const Error error = caught_error();
    group.fail(error);
    return tell(error, comm.get());
  }
}

}  // namespace
}  // namespace ringwood::nccl

using namespace ringwood::nccl;

extern "C" {

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(Kind::all_reduce, comm, {sendbuff, recvbuff, count, datatype, op, 0, stream});
}
ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::reduce, comm, {sendbuff, recvbuff, count, datatype, op, root, stream});
}
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(Kind::broadcast, comm,
                {sendbuff, recvbuff, count, datatype, ncclSum, root, stream});
}
ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return submit(Kind::reduce_scatter, comm,
                {sendbuff, recvbuff, recvcount, datatype, op, 0, stream});
}
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::all_gather, comm,
                {sendbuff, recvbuff, sendcount, datatype, ncclSum, 0, stream});
}
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::all_to_all, comm, {sendbuff, recvbuff, count, datatype, ncclSum, 0, stream});
}
ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::gather, comm, {sendbuff, recvbuff, count, datatype, ncclSum, root, stream});
}
ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::scatter, comm, {sendbuff, recvbuff, count, datatype, ncclSum, root, stream});
}
ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::send, comm, {sendbuff, nullptr, count, datatype, ncclSum, peer, stream});
}
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::recv, comm, {nullptr, recvbuff, count, datatype, ncclSum, peer, stream});
}

ncclResult_t ncclGroupStart(void) {
  ThreadGroup::of_this_thread().start();
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void) {
  return guarded([] { ThreadGroup::of_this_thread().end(); });
}
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t*) {
  return guarded([] {
    ThreadGroup::of_this_thread().drop();
    refuse_to_use(
        "ncclGroupSimulateEnd is not supported: `ringwood explain` predicts what a collective "
        "takes; the group was dropped");
  });
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return guarded([&] {
    const CommPtr found = find(comm);
    (void)found->usable();
    const ringwood::DataType type = type_of(datatype).type;
    if (!op || !scalar) refuse("ncclRedOpCreatePreMulSum: a pointer is null");
    if (!ringwood::is_float(type))
      refuse(fmt::format("ncclRedOpCreatePreMulSum: factors are of floating types, not {}",
                         to_string(type)));
    if (gpu_of(scalar, found->ordinal))
      refuse_to_use(
          "ncclRedOpCreatePreMulSum: a factor in memory of a GPU is not supported, since a kernel "
          "gets it with its launch: give it with ncclScalarHostImmediate");
    Factor factor{type, 1, nullptr};
    if (residence == ncclScalarHostImmediate)
      factor.value = value_of(scalar, type);
    else
      factor.at = scalar;
    *op = found->add_factor(factor);
  });
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return guarded([&] { find(comm)->remove_factor(op); });
}

}  // extern "C"

RINGWOOD_NCCL_TWIN(ncclAllReduce);
RINGWOOD_NCCL_TWIN(ncclReduce);
RINGWOOD_NCCL_TWIN(ncclBroadcast);
RINGWOOD_NCCL_TWIN(ncclBcast);
RINGWOOD_NCCL_TWIN(ncclReduceScatter);
RINGWOOD_NCCL_TWIN(ncclAllGather);
RINGWOOD_NCCL_TWIN(ncclAlltoAll);
RINGWOOD_NCCL_TWIN(ncclGather);
RINGWOOD_NCCL_TWIN(ncclScatter);
RINGWOOD_NCCL_TWIN(ncclSend);
RINGWOOD_NCCL_TWIN(ncclRecv);
RINGWOOD_NCCL_TWIN(ncclGroupStart);
RINGWOOD_NCCL_TWIN(ncclGroupEnd);
RINGWOOD_NCCL_TWIN(ncclGroupSimulateEnd);
RINGWOOD_NCCL_TWIN(ncclRedOpCreatePreMulSum);
RINGWOOD_NCCL_TWIN(ncclRedOpDestroy);
