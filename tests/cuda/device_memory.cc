// Memory of devices between processes: arenas, buffers of several allocations, IPC handles, and
// pinned memory.
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstring>

#include "tests/cuda/device_memory.h"
#include "tests/cuda/peer_talk.h"
#include "tests/support/errors.h"
#include "transports/cuda/ipc.h"

namespace ringwood::cuda {
namespace {

using testing::contains;
using testing::error_of;
using testing::hear;
using testing::say;
using testing::TwoWords;

// A process that runs peer.cc on the same devices.
class Peer {
 public:
  explicit Peer(const char* what) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("socketpair");
    own_ = OwnedFd(ends[0]);
    const OwnedFd theirs(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // Not dup2 of 3 on 3, which would leave it to be closed.
    const OwnedFd high(::fcntl(theirs.get(), F_DUPFD_CLOEXEC, 10));
    posix_spawn_file_actions_adddup2(&actions, high.get(), 3);
    std::string library = CUDA_DOUBLE, program = CUDA_PEER, mode = what;
    char* arguments[] = {program.data(), library.data(), mode.data(), nullptr};
    ::setenv("FAKE_CUDA_LEAKS", "1", 1);
    const int error = ::posix_spawn(&pid_, CUDA_PEER, &actions, nullptr, arguments, environ);
    ::unsetenv("FAKE_CUDA_LEAKS");
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("posix_spawn");
  }
  ~Peer() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), wait();
  }
  int socket() const { return own_.get(); }
  // Its exit code, or 128 and the signal.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  OwnedFd own_;
  pid_t pid_ = -1;
};

TEST_F(DeviceMemory, AnArenaIsRoundedUpAndAligned) {
  const DeviceArena small(*device, 1), exact(*device, kUnit), more(*device, kUnit + 1);
  EXPECT_EQ(small.bytes(), kUnit);
  EXPECT_EQ(exact.bytes(), kUnit);
  EXPECT_EQ(more.bytes(), 2 * kUnit);
  EXPECT_EQ(more.base() % kUnit, 0u);
  write(more.base() + 2 * kUnit - 8, 42);
  EXPECT_EQ(read(more.base() + 2 * kUnit - 8), 42u);
}

TEST_F(DeviceMemory, AnotherProcessReadsAndWritesAnArena) {
  Peer peer("arena");
  const DeviceArena arena(*device, kUnit);
  write(arena.base(), 10);
  write(arena.base() + arena.bytes() - 8, 20);
  std::vector<SharedPart> parts;
  parts.push_back({arena.share(), arena.bytes()});
  testing::send_parts(peer.socket(), parts);
  EXPECT_EQ(hear(peer.socket()), (TwoWords{10, 20}));
  hear(peer.socket());
  EXPECT_EQ(read(arena.base()), 11u);
  EXPECT_EQ(read(arena.base() + arena.bytes() - 8), 21u);
  write(arena.base(), 30);
  say(peer.socket(), {});
  EXPECT_EQ(hear(peer.socket()), (TwoWords{30, 21}));
  EXPECT_EQ(peer.wait(), 0);
}

// A buffer in two allocations that follow each other, as PyTorch's expandable segments.
TEST_F(DeviceMemory, AnotherProcessMapsABufferOfSeveralAllocations) {
  Peer peer("arena");
  std::vector<Allocation> allocations;
  allocations.push_back(Allocation::create(*device, kUnit));
  allocations.push_back(Allocation::create(*device, 2 * kUnit));
  const MappedRow row(*device, std::move(allocations), {kUnit, 2 * kUnit});
  const CUdeviceptr buffer = row.base() + kUnit - 1024;
  write(row.base(), 10);
  write(row.base() + 3 * kUnit - 8, 20);
  const SharedRange shared = share_range(*device, buffer, 2048);
  EXPECT_EQ(shared.offset, kUnit - 1024);
  ASSERT_EQ(shared.parts.size(), 2u);
  EXPECT_EQ(shared.parts[1].bytes, 2 * kUnit);
  EXPECT_EQ(share_range(*device, row.base(), kUnit).parts.size(), 1u);
  testing::send_parts(peer.socket(), shared.parts);
  EXPECT_EQ(hear(peer.socket()), (TwoWords{10, 20}));
  hear(peer.socket());
  EXPECT_EQ(read(row.base()), 11u);
  EXPECT_EQ(read(row.base() + 3 * kUnit - 8), 21u);
  say(peer.socket(), {});
  hear(peer.socket());
  EXPECT_EQ(peer.wait(), 0);
}

TEST_F(DeviceMemory, TheLastWhoMapsItKeepsIt) {
  Peer peer("arena");
  {
    const DeviceArena arena(*device, kUnit);
    write(arena.base(), 10);
    std::vector<SharedPart> parts;
    parts.push_back({arena.share(), arena.bytes()});
    testing::send_parts(peer.socket(), parts);
    hear(peer.socket());
    hear(peer.socket());
  }
  say(peer.socket(), {});
  EXPECT_EQ(hear(peer.socket()), (TwoWords{11, 1}));
  EXPECT_EQ(peer.wait(), 0);
}

TEST_F(DeviceMemory, AnotherProcessOpensAnIpcHandleOnce) {
  Peer peer("ipc");
  const CUdeviceptr segment = allocate(3 * kUnit);
  const CUdeviceptr buffer = segment + kUnit + 512;
  write(buffer, 10);
  write(buffer + 8, 20);
  const IpcBuffer exported = export_buffer(*device, buffer);
  EXPECT_EQ(exported.allocation.base, segment);
  EXPECT_EQ(exported.allocation.bytes, 3 * kUnit);
  EXPECT_EQ(exported.offset, kUnit + 512);
  testing::send_buffer(peer.socket(), exported);
  EXPECT_EQ(hear(peer.socket()), (TwoWords{10, 20}));
  hear(peer.socket());
  EXPECT_EQ(read(buffer), 11u);
  write(buffer, 30);
  say(peer.socket(), {});
  EXPECT_EQ(hear(peer.socket()), (TwoWords{30, 21}));
  EXPECT_EQ(peer.wait(), 0);
  // The driver's rule: not by the process that exported it.
  EXPECT_PRED2(contains, error_of([&] { OpenAllocation::of(*device, exported.allocation); }).cause,
               "cuIpcOpenMemHandle on device 0: CUDA_ERROR_INVALID_CONTEXT");
  free(segment);
}

TEST_F(DeviceMemory, SaysHowABufferCanBeShared) {
  const DeviceArena arena(*device, 1);
  const PinnedMemory pinned(*device, 100);
  const CUdeviceptr plain = allocate(100);
  int local = 0;
  EXPECT_EQ(sharing_of(*device, arena.base() + 100), Sharing::by_descriptor);
  EXPECT_EQ(sharing_of(*device, plain + 50), Sharing::by_ipc_handle);
  EXPECT_EQ(sharing_of(*device, pinned.on_device()), Sharing::none);
  EXPECT_EQ(sharing_of(*device, reinterpret_cast<CUdeviceptr>(&local)), Sharing::none);
  EXPECT_EQ(error_of([&] { export_buffer(*device, arena.base()); }).code, ErrorCode::unsupported);
  EXPECT_PRED2(contains, error_of([&] { share_range(*device, plain, 8); }).cause,
               "cuMemRetainAllocationHandle on device 0: CUDA_ERROR_INVALID_VALUE");
  free(plain);
}

TEST_F(DeviceMemory, PinnedMemoryIsZeroedAndTheDevices) {
  const PinnedMemory pinned(*device, 4096);
  for (size_t i = 0; i < 4096; ++i) ASSERT_EQ(pinned.data()[i], std::byte{0});
  write(pinned.on_device() + 8, 42);
  uint64_t word = 0;
  std::memcpy(&word, pinned.data() + 8, sizeof word);
  EXPECT_EQ(word, 42u);
}

}  // namespace
}  // namespace ringwood::cuda
