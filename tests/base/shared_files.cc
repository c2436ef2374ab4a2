// The files whose memory processes share: how they are made, mapped, and what of them is there.

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>

#include <cstring>
#include <fstream>

#include "tests/support/link_processes.h"
#include "transports/memory/arena.h"
#include "transports/shm/shared_region.h"
#include "transports/shm/shm.h"

namespace ringwood {
namespace {

Setting host_of(int size) {
  Setting setting;
  setting.size = size;
  setting.address = [](int) { return ""; };
  return setting;
}

// ---- files that nobody can execute -------------------------------------------------------------

#if !defined(F_SEAL_EXEC)
#define F_SEAL_EXEC 0x0020
#endif

// Whether the kernel knows files that can never be executed.
bool files_can_be_inert() {
  const OwnedFd file(::memfd_create("test", MFD_CLOEXEC | 8));
  return static_cast<bool>(file);
}

TEST(SharedFiles, CanNeverBeExecuted) {
  if (!files_can_be_inert()) GTEST_SKIP() << "needs Linux 6.3";
  const auto segment = shm::SharedRegion::create(shm::make_geometry(2, 1, 65536));
  for (int fd : {Arena::of_process()->fd(), segment->fd()}) {
    EXPECT_NE(::fcntl(fd, F_GET_SEALS) & F_SEAL_EXEC, 0);
    EXPECT_NE(::fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK, 0);
  }
}

// In a namespace of its own for process numbers, where the system refuses (2) files that could be
// executed.
int where_files_must_not_be_executable(const std::function<int()>& body) {
  Process outer([&] {
    if (::unshare(CLONE_NEWPID) != 0) return 77;
    Process inner([&] {
      std::ofstream knob("/proc/sys/vm/memfd_noexec");
      knob << 2 << std::flush;
      return knob ? body() : 77;
    });
    return inner.wait();
  });
  return outer.wait();
}

TEST(SharedFiles, AreMadeWhereTheyMustNotBeExecutable) {
  const int code = where_files_must_not_be_executable([] {
    if (!Arena::of_process()) return 1;
    Ranks two = make_ranks(make_shm, host_of(2));
    on_each(two, [](Rank& rank) {
      if (!rank.links[0][1 - rank.group.rank()]) throw std::runtime_error("not reached");
      if (Status s = exchange(rank, 100000); !s) throw s.error();
    });
    return 0;
  });
  if (code == 77) GTEST_SKIP() << "needs vm.memfd_noexec (Linux 6.3) and privileges";
  EXPECT_EQ(code, 0);
}

// ---- the arenas of peers -----------------------------------------------------------------------

int arenas_mapped() {
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);)
    found += line.find("memfd:ringwood-arena") != std::string::npos ? 1 : 0;
  return found;
}

// Ranks that are threads have one arena among them, whatever they are in.
#if defined(__SANITIZE_THREAD__)
constexpr bool kShared = false;  // peer_arena.cc says why
#else
constexpr bool kShared = true;
#endif

TEST(PeerArenas, AreMappedOncePerProcessWhateverTheNumberOfGroups) {
  if (!kShared) GTEST_SKIP() << "not under the thread sanitizer";
  ASSERT_NE(Arena::of_process(), nullptr);
  const int own = arenas_mapped();
  {
    std::vector<Ranks> groups;
    for (int g = 0; g < 4; ++g) {
      groups.push_back(make_ranks(make_shm, host_of(4)));
      EXPECT_EQ(arenas_mapped(), own + 1) << g + 1 << " groups";
    }
    groups.erase(groups.begin(), groups.begin() + 3);
    EXPECT_EQ(arenas_mapped(), own + 1) << "one group is left";
  }
  EXPECT_EQ(arenas_mapped(), own);
}

TEST(PeerArenas, AreMappedOncePerPeerProcess) {
  if (!kShared) GTEST_SKIP() << "not under the thread sanitizer";
  constexpr int kGroups = 3, kRanks = 3;
  std::vector<std::unique_ptr<Job>> jobs;
  for (int g = 0; g < kGroups; ++g) jobs.push_back(std::make_unique<Job>(host_of(kRanks)));
  std::vector<Process> processes;
  for (int p = 0; p < kRanks; ++p) {
    processes.emplace_back([&, p] {
      std::vector<std::unique_ptr<Rank>> groups;
      std::vector<int> counts;
      for (int g = 0; g < kGroups; ++g) {
        // Another rank in every group.
        groups.push_back(jobs[g]->join((p + g) % kRanks, make_shm));
        if (arenas_mapped() != kRanks) return 10 + arenas_mapped();
      }
      // Each group still reads where its peers' memory lies.
      for (auto& rank : groups)
        if (Status s = exchange(*rank, 100000); !s) throw s.error();
      groups.pop_back();
      if (arenas_mapped() != kRanks) return 30 + arenas_mapped();
      groups.clear();
      return arenas_mapped() == 1 ? 0 : 50 + arenas_mapped();
    });
  }
  for (Process& process : processes) EXPECT_EQ(process.wait(), 0);
}

// What a fork has not inherited it maps anew.
TEST(PeerArenas, AreMappedAnewInAFork) {
  if (!kShared) GTEST_SKIP() << "not under the thread sanitizer";
  Ranks before = make_ranks(make_shm, host_of(2));
  Process child([] {
    if (arenas_mapped() != 0) return 1;
    Ranks two = make_ranks(make_shm, host_of(2));
    on_each(two, [](Rank& rank) {
      if (Status s = exchange(rank, 100000); !s) throw s.error();
    });
    return arenas_mapped() == 2 ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
  on_each(before, [](Rank& rank) {
    if (Status s = exchange(rank, 100000); !s) throw s.error();
  });
}

}  // namespace
}  // namespace ringwood
