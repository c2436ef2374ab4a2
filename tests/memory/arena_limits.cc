// The arena where memory is short: an error in time, never a signal at the first touch.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "tests/support/inputs.h"
#include "tests/support/link_processes.h"
#include "tests/support/ranks.h"
#include "transports/memory/arena.h"

namespace ringwood {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// That the arena's file has by now.
uint64_t bytes_there() {
  struct stat file {};
  EXPECT_EQ(::fstat(Arena::of_process()->fd(), &file), 0);
  return static_cast<uint64_t>(file.st_blocks) * 512;
}

// Takes blocks of 64 MiB and writes all of them until there is an error, which it returns.
std::string fill(size_t most) {
  constexpr size_t kBlock = 64 * kMiB;
  std::vector<void*> blocks;
  std::string why = "no error";
  for (size_t taken = 0; taken < most; taken += kBlock) {
    try {
      blocks.push_back(Arena::of_process()->allocate(kBlock));
      std::memset(blocks.back(), 1, kBlock);
    } catch (const Error& error) {
      why = error.cause;
      break;
    }
  }
  for (void* block : blocks) Arena::of_process()->release(block);
  return why;
}

// The exit code of a process of its own: 0 if the error has `words` and the arena stays usable.
int fails_with(const std::string& words, size_t most, const std::function<bool()>& limit) {
  Process limited([&] {
    if (!limit()) return 77;
    const std::string why = fill(most);
    if (why.find(words) == std::string::npos) {
      std::fprintf(stderr, "%s\n", why.c_str());
      return 1;
    }
    void* const small = Arena::of_process()->allocate(kMiB);
    std::memset(small, 1, kMiB);
    return 0;
  });
  return limited.wait();
}

TEST(ArenaReservation, IsOfWhatIsAllocatedAndNoMore) {
  Process alone([] {
    Arena& arena = *Arena::of_process();
    if (bytes_there() != 0) return 1;
    void* const block = arena.allocate(3 * kMiB);
    const uint64_t reserved = bytes_there();
    // Huge pages, where a system gives them to such files, are larger than what is asked for.
    if (reserved < 3 * kMiB || reserved > 4 * kMiB) return 2;
    std::memset(block, 1, 3 * kMiB);
    if (bytes_there() != reserved) return 3;
    arena.release(block);  // and keeps the pages
    for (int i = 0; i < 100; ++i) arena.release(arena.allocate(3 * kMiB));
    return bytes_there() == reserved ? 0 : 4;
  });
  EXPECT_EQ(alone.wait(), 0);
}

// What is kept for the next allocation is bounded, in whatever sizes blocks come and go.
TEST(ArenaReservation, GoesBackToTheKernelBeyondABound) {
  Process alone([] {
    Arena& arena = *Arena::of_process();
    std::mt19937 random(3);
    for (int round = 0; round < 40; ++round) {
      std::vector<void*> blocks;
      for (int i = 0; i < 4; ++i)
        blocks.push_back(arena.allocate((1 + random() % 60) * kMiB + random() % kMiB));
      std::shuffle(blocks.begin(), blocks.end(), random);
      for (void* block : blocks) arena.release(block);
    }
    return bytes_there() <= 514 * kMiB ? 0 : 1;
  });
  EXPECT_EQ(alone.wait(), 0);
}

// ---- limits of control groups ------------------------------------------------------------------

// A control group with so much memory; empty path: none can be made here.
class MemoryGroup {
 public:
  explicit MemoryGroup(uint64_t bytes) {
    const std::string name = fmt::format("ringwood-test-{}", ::getpid());
    for (const auto& [root, limit] : {std::pair{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                                      std::pair{"/sys/fs/cgroup", "memory.max"}}) {
      const std::filesystem::path folder = std::filesystem::path(root) / name;
      std::error_code failed;
      if (!std::filesystem::create_directory(folder, failed)) continue;
      std::ofstream file(folder / limit);
      if (file << bytes << std::flush) {
        path_ = folder;
        return;
      }
      ::rmdir(folder.c_str());
    }
  }
  ~MemoryGroup() {
    if (!path_.empty()) ::rmdir(path_.c_str());
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  bool exists() const { return !path_.empty(); }
  bool enter() const {
    std::ofstream members(path_ / "cgroup.procs");
    members << ::getpid() << std::flush;
    return static_cast<bool>(members);
  }

 private:
  std::filesystem::path path_;
};

TEST(ArenaLimits, OfAControlGroupAreAnErrorThatSaysSo) {
  if (testing::kSlow) GTEST_SKIP() << "a sanitizer's own memory counts, too";
  const MemoryGroup group(512 * kMiB);
  if (!group.exists()) GTEST_SKIP() << "no control group can be made here";
  const int code = fails_with("control group", 2048 * kMiB, [&] { return group.enter(); });
  if (code == 77) GTEST_SKIP() << "no control group can be entered here";
  EXPECT_EQ(code, 0);
}

// In the laboratory: tests/roce-lab/lab run --mem 2048 -- sh -c 'echo 2 >
// /proc/sys/vm/overcommit_memory && build/tests/link_tests --gtest_filter=ArenaLimits.*'
TEST(ArenaLimits, OfCommittedMemoryAreAnErrorThatSaysSo) {
  int mode = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> mode;
  if (mode != 2) GTEST_SKIP() << "needs vm.overcommit_memory = 2";
  EXPECT_EQ(fails_with("vm.overcommit_memory", ~size_t{0}, [] { return true; }), 0);
}

// ---- refusals ----------------------------------------------------------------------------------

constexpr int kPopulateWrite = 23;

// From now on this process's system call number `call`, with `value` as its argument `argument`, is
// refused with `error`.
bool refuse(int call, unsigned argument, uint32_t value, int error) {
  const auto refusal = static_cast<uint32_t>(SECCOMP_RET_ERRNO | error);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
               static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8 * argument),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, refusal),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof filter / sizeof filter[0], filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(ArenaLimits, OfTheKernelLeaveNothingBehind) {
  Process alone([] {
    Arena& arena = *Arena::of_process();
    void* const kept = arena.allocate(kMiB);
    std::memset(kept, 7, kMiB);
    const uint64_t before = bytes_there();
    // As the kernel says it where a page is not to be had.
    if (!refuse(SYS_madvise, 2, kPopulateWrite, EFAULT)) return 77;
    for (int i = 0; i < 3; ++i) {
      try {
        (void)arena.allocate(100 * kMiB);
        return 1;
      } catch (const Error& error) {
        if (error.code != ErrorCode::system || error.cause.find("104857600") == std::string::npos)
          return 2;
      }
    }
    if (bytes_there() != before) return 3;
    // What there is can still be used, and used again.
    arena.release(kept);
    void* const again = arena.allocate(kMiB);
    return again == kept ? 0 : 4;
  });
  const int code = alone.wait();
  if (code == 77) GTEST_SKIP() << "no system call can be refused here";
  EXPECT_EQ(code, 0);
}

// Before Linux 5.14.
TEST(ArenaLimits, OfKernelsThatCannotPopulateAreGotRound) {
  Process alone([] {
    if (!refuse(SYS_madvise, 2, kPopulateWrite, EINVAL)) return 77;
    (void)Arena::of_process()->allocate(3 * kMiB);
    return bytes_there() >= 3 * kMiB ? 0 : 1;
  });
  const int code = alone.wait();
  if (code == 77) GTEST_SKIP() << "no system call can be refused here";
  EXPECT_EQ(code, 0);
}

// Memory that cannot be shared is as good for the partial results of a collective, only slower.
TEST(ArenaLimits, EndNoCollective) {
  Process alone([] {
    if (!Arena::of_process() || !refuse(SYS_madvise, 2, kPopulateWrite, EFAULT)) return 77;
    testing::run_ranks(3, [](Communicator& c) {
      for (size_t count : {1, 1000, 300000}) {
        std::vector<float> x(count, 1);
        testing::must(c.all_reduce(x.data(), count, DataType::float32, ReduceOp::sum));
        if (x != std::vector<float>(count, 3)) throw std::runtime_error("wrong sum");
      }
    });
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  const int code = alone.wait();
  if (code == 77) GTEST_SKIP() << "no system call can be refused here";
  EXPECT_EQ(code, 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// A child's copies are of what is in use: no more memory need be had than that.
TEST(ArenaLimits, OfDataLeaveRoomForTheCopiesOfForks) {
  Process parent([] {
    Arena& arena = *Arena::of_process();
    arena.give_copies_to_forks();
    auto* const block = static_cast<std::byte*>(arena.allocate(kMiB));
    std::memset(block, 5, kMiB);
    const rlimit data{512 * kMiB, 512 * kMiB};
    if (::setrlimit(RLIMIT_DATA, &data) != 0) return 1;
    Process child([&] {
      if (block[0] != std::byte{5} || block[kMiB - 1] != std::byte{5}) return 2;
      std::memset(block, 6, kMiB);
      return 0;
    });
    const int code = child.wait();
    return block[0] == std::byte{5} ? code : 3;
  });
  EXPECT_EQ(parent.wait(), 0);
}
#endif

}  // namespace
}  // namespace ringwood
