// Another process for tests of shared memory: maps what it is sent over the Unix socket 3, tells
// what it reads there, writes, and ends. With FAKE_CUDA_LEAKS its exit code is 97 if it left
// anything.
//
//   peer LIBRARY arena|ipc
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "tests/cuda/peer_talk.h"
#include "transports/cuda/handles.h"
#include "transports/cuda/ipc.h"
#include "transports/cuda/memory.h"

namespace {

using namespace ringwood;
using namespace ringwood::cuda;
using namespace ringwood::testing;

constexpr int kSocket = 3;

// By the device, as everything of the device's memory.
class Words {
 public:
  explicit Words(const Device& device) : device_(device), stream_(device) {}
  uint64_t read(CUdeviceptr at) const {
    const CurrentContext current(device_);
    uint64_t word = 0;
    device_.require(device_.driver().memory.copy_to_host(&word, at, sizeof word, stream_.get()),
                    "cuMemcpyDtoHAsync");
    stream_.synchronize();
    return word;
  }
  void write(CUdeviceptr at, uint64_t word) const {
    const CurrentContext current(device_);
    device_.require(device_.driver().memory.copy_to_device(at, &word, sizeof word, stream_.get()),
                    "cuMemcpyHtoDAsync");
    stream_.synchronize();
  }

 private:
  const Device& device_;
  Stream stream_;
};

// Tells the first and the last word, adds one to each, and tells them again when it may go on.
void exchange(const Device& device, CUdeviceptr base, size_t bytes) {
  const Words words(device);
  const CUdeviceptr last = base + bytes - 8;
  say(kSocket, {words.read(base), words.read(last)});
  words.write(base, words.read(base) + 1);
  words.write(last, words.read(last) + 1);
  say(kSocket, {1, 1});
  hear(kSocket);
  say(kSocket, {words.read(base), words.read(last)});
}

void with_arena(const Device& device) {
  const std::vector<SharedPart> parts = receive_parts(kSocket);
  const PeerArena arena(device, parts);
  exchange(device, arena.base(), arena.bytes());
}

void with_ipc(const Device& device) {
  const IpcBuffer buffer = receive_buffer(kSocket);
  const auto open = OpenAllocation::of(device, buffer.allocation);
  if (OpenAllocation::of(device, buffer.allocation) != open)
    throw Error(ErrorCode::internal, "it was opened twice");
  {  // The driver counts, too.
    const CurrentContext current(device);
    const MemoryCalls& memory = device.driver().memory;
    CUdeviceptr again = 0;
    device.require(memory.ipc_open(&again, buffer.allocation.handle, 1), "cuIpcOpenMemHandle");
    if (again != open->base()) throw Error(ErrorCode::internal, "it has another address");
    device.require(memory.ipc_close(again), "cuIpcCloseMemHandle");
  }
  exchange(device, open->base() + buffer.offset, 16);
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 3) return 2;
  auto loaded = load_from(arguments[1]);
  if (!loaded) throw loaded.error();
  static const Driver& driver = **loaded;
  // The other device than the first one's, where there are two.
  const Device device(driver, static_cast<int>(devices(driver).size()) - 1);
  std::strcmp(arguments[2], "ipc") == 0 ? with_ipc(device) : with_arena(device);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "peer: %s\n", error.what());
  return 1;
}
