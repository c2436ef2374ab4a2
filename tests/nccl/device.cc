// NCCL's interface on memory of GPUs, on the double of the driver: calls take effect in the order
// of their stream, and the results are those of the same calls on memory of the CPU, bit for bit.
#include "collectives/nccl/device_calls.h"
#include "tests/cuda/device_shapes.h"
#include "tests/nccl/nccl_ranks.h"

namespace ringwood::testing {
namespace {

// A rank's GPU, and memory on it.
class Gpu {
 public:
  explicit Gpu(int rank) : device(double_with_kernels(), rank % 2), stream(device) {
    static const bool with_images = [] {
      nccl::device_options() = with_any_image(small());
      return true;
    }();
    (void)with_images;
  }

  void* memory(size_t bytes) {
    arenas_.push_back(std::make_unique<cuda::DeviceArena>(device, std::max<size_t>(bytes, 1)));
    return reinterpret_cast<void*>(arenas_.back()->base());
  }
  // Both are only given to the stream.
  void write(void* to, const std::vector<std::byte>& from) {
    const cuda::CurrentContext current(device);
    device.require(
        device.driver().memory.copy_to_device(address(to), from.data(), from.size(), stream.get()),
        "cuMemcpyHtoDAsync");
  }
  void read(std::vector<std::byte>& to, const void* from) {
    const cuda::CurrentContext current(device);
    device.require(
        device.driver().memory.copy_to_host(to.data(), address(from), to.size(), stream.get()),
        "cuMemcpyDtoHAsync");
  }
  cudaStream_t on() const { return stream.get(); }

  const cuda::Device device;
  const cuda::Stream stream;

 private:
  static cuda::CUdeviceptr address(const void* data) {
    return reinterpret_cast<cuda::CUdeviceptr>(data);
  }
  std::vector<std::unique_ptr<cuda::DeviceArena>> arenas_;
};

using Collectives = std::function<void(const void* in, void* out, cudaStream_t)>;

// On the GPU and on the CPU, with `elements` elements of input and of output.
void compare(Gpu& gpu, int rank, const NcclType& type, size_t in, size_t out,
             const Collectives& call) {
  NcclBuffer from(in, type.type, rank), expected(out, type.type), found(out, type.type);
  void* const input = gpu.memory(from.bytes.size());
  void* const output = gpu.memory(expected.bytes.size());
  gpu.write(input, from.bytes);
  gpu.write(output, found.bytes);
  call(input, output, gpu.on());
  gpu.read(found.bytes, output);
  gpu.stream.synchronize();
  call(from.bytes.data(), expected.bytes.data(), nullptr);
  EXPECT_EQ(found.bytes, expected.bytes) << to_string(type.type) << " rank " << rank;
}

TEST(NcclDevice, HasTheBitsOfTheCpu) {
  for (const int n : {2, 4})
    run_nccl(n, [&](ncclComm_t comm, int rank) {
      Gpu gpu(rank);
      const auto ranks = static_cast<size_t>(n);
      for (const NcclType& type : kNcclTypes) {
        const size_t count = 301, all = count * ranks;
        const ncclRedOp_t again = type.nccl == ncclUint64 ? ncclProd : ncclMax;
        compare(gpu, rank, type, count, count, [&](const void* in, void* out, cudaStream_t on) {
          expect_success(ncclAllReduce(in, out, count, type.nccl, ncclSum, comm, on), comm);
          expect_success(ncclAllReduce(out, out, 100, type.nccl, again, comm, on), comm);
        });
        compare(gpu, rank, type, count, count, [&](const void* in, void* out, cudaStream_t on) {
          expect_success(ncclReduce(in, out, count, type.nccl, ncclProd, 1, comm, on), comm);
          expect_success(ncclBroadcast(in, out, 50, type.nccl, 0, comm, on), comm);
        });
        compare(gpu, rank, type, count, all, [&](const void* in, void* out, cudaStream_t on) {
          expect_success(ncclAllGather(in, out, count, type.nccl, comm, on), comm);
        });
        compare(gpu, rank, type, all, count, [&](const void* in, void* out, cudaStream_t on) {
          expect_success(ncclReduceScatter(in, out, count, type.nccl, ncclSum, comm, on), comm);
        });
        compare(gpu, rank, type, all, all, [&](const void* in, void* out, cudaStream_t on) {
          expect_success(ncclAlltoAll(in, out, count, type.nccl, comm, on), comm);
        });
        compare(gpu, rank, type, count, all, [&](const void* in, void* out, cudaStream_t on) {
          expect_success(ncclGather(in, out, count, type.nccl, 1, comm, on), comm);
        });
        compare(gpu, rank, type, all, count, [&](const void* in, void* out, cudaStream_t on) {
          expect_success(ncclScatter(in, out, count, type.nccl, 0, comm, on), comm);
        });
      }
    });
}

TEST(NcclDevice, MultipliesBeforeItAdds) {
  run_nccl(2, [](ncclComm_t comm, int rank) {
    Gpu gpu(rank);
    float factor = rank == 0 ? 2 : 4;
    ncclRedOp_t op;
    expect_success(
        ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, comm));
    ncclRedOp_t other;
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&other, gpu.memory(4), ncclFloat, ncclScalarDevice, comm),
              ncclInvalidUsage);
    compare(gpu, rank, {ncclFloat, DataType::float32}, 9, 9,
            [&](const void* in, void* out, cudaStream_t on) {
              expect_success(ncclAllReduce(in, out, 9, ncclFloat, op, comm, on), comm);
            });
  });
}

// Neither the copy of the input nor the collective waits for the host.
TEST(NcclDevice, FollowsTheStream) {
  run_nccl(2, [](ncclComm_t comm, int rank) {
    Gpu gpu(rank);
    NcclBuffer ones(1000, DataType::float32, 1), out(1000, DataType::float32);
    void* const in = gpu.memory(ones.bytes.size());
    void* const sum = gpu.memory(ones.bytes.size());
    gpu.write(in, ones.bytes);
    for (int turn = 0; turn < 8; ++turn)
      expect_success(
          ncclAllReduce(turn == 0 ? in : sum, sum, 1000, ncclFloat, ncclSum, comm, gpu.on()));
    gpu.read(out.bytes, sum);
    gpu.stream.synchronize();
    for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(out.value(i), 256 * given(1, i));
  });
}

TEST(NcclDevice, OneThreadHasAllRanks) {
  const int n = 2;
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::vector<void*> data;
  NcclBuffer ones(500, DataType::int32, 1), out(500, DataType::int32);
  for (int rank = 0; rank < n; ++rank) {
    gpus.push_back(std::make_unique<Gpu>(rank));
    data.push_back(gpus.back()->memory(ones.bytes.size()));
    gpus.back()->write(data.back(), ones.bytes);
  }
  ncclComm_t comms[n];
  expect_success(ncclCommInitAll(comms, n, nullptr));
  for (int turn = 0; turn < 2; ++turn) {
    expect_success(ncclGroupStart());
    for (int rank = 0; rank < n; ++rank)
      for (int call = 0; call < 3; ++call)
        expect_success(ncclAllReduce(data[rank], data[rank], 500, ncclInt, ncclSum, comms[rank],
                                     gpus[rank]->on()));
    expect_success(ncclGroupEnd());
  }
  for (int rank = 0; rank < n; ++rank) {
    gpus[rank]->read(out.bytes, data[rank]);
    gpus[rank]->stream.synchronize();
    for (size_t i = 0; i < 500; ++i) ASSERT_EQ(out.value(i), 64 * given(1, i));
  }
  // One after the other, although each waits for its peers.
  for (ncclComm_t comm : comms) expect_success(ncclCommDestroy(comm));
}

TEST(NcclDevice, RefusesWhatItCannotDoAndLivesOn) {
  run_nccl(2, [](ncclComm_t comm, int rank) {
    Gpu gpu(rank);
    void* const data = gpu.memory(800);
    std::vector<uint64_t> host(100);
    const auto says = [&](const char* what) {
      return std::string(ncclGetLastError(comm)).find(what) != std::string::npos;
    };
    EXPECT_EQ(ncclAllReduce(host.data(), data, 100, ncclUint64, ncclSum, comm, gpu.on()),
              ncclInvalidArgument);
    EXPECT_TRUE(says("different memories")) << ncclGetLastError(comm);
    EXPECT_EQ(ncclSend(data, 100, ncclUint64, 1 - rank, comm, gpu.on()), ncclInvalidUsage);
    EXPECT_TRUE(says("not supported yet")) << ncclGetLastError(comm);
    EXPECT_EQ(ncclAllReduce(data, data, 100, ncclUint64, ncclMax, comm, gpu.on()),
              ncclInvalidUsage);
    EXPECT_TRUE(says("unsigned")) << ncclGetLastError(comm);
    expect_success(ncclAllReduce(data, data, 100, ncclUint64, ncclSum, comm, gpu.on()), comm);
    // Memory of the CPU goes by the CPU, when its stream has come to it.
    host.assign(100, 3);
    expect_success(
        ncclAllReduce(host.data(), host.data(), 100, ncclUint64, ncclSum, comm, gpu.on()), comm);
    EXPECT_EQ(host, std::vector<uint64_t>(100, 6));
    gpu.stream.synchronize();
  });
}

TEST(NcclDevice, GivesMemoryOfTheCurrentGpu) {
  Gpu gpu(1);
  const cuda::CurrentContext current(gpu.device);
  void* data = nullptr;
  expect_success(ncclMemAlloc(&data, 1000));
  std::vector<std::byte> bytes(1000, std::byte{7}), back(1000);
  gpu.write(data, bytes);
  gpu.read(back, data);
  gpu.stream.synchronize();
  EXPECT_EQ(bytes, back);
  expect_success(ncclMemFree(data));
}

}  // namespace
}  // namespace ringwood::testing
