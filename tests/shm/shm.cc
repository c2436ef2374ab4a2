// Shared memory where threads cannot show it: deaths, hostile peers, small systems, forks.

#include "transports/shm/shm.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "tests/support/link_processes.h"
#include "tests/support/patience.h"
#include "transports/base/clock.h"
#include "transports/shm/shared_region.h"

namespace ringwood {
namespace {

Setting without_listener(int size) {
  Setting setting;
  setting.size = size;
  setting.channels = 1;
  setting.address = [](int) { return ""; };
  return setting;
}

std::string read_file(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::set<std::string> files_in(const char* folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path());
  return names;
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
  return found;
}

// Names of ours, of all processes of this machine.
std::set<std::string> unix_sockets() {
  std::set<std::string> names;
  std::istringstream table(read_file("/proc/net/unix"));
  for (std::string line; std::getline(table, line);)
    if (const size_t at = line.find("@ringwood-"); at != std::string::npos)
      names.insert(line.substr(at));
  return names;
}

// Those of `names` that are there for good: groups of other programs come and go.
std::set<std::string> that_stay(std::set<std::string> names) {
  const Deadline patience = testing::patiently();
  while (!names.empty() && !patience.passed()) {
    const std::set<std::string> now = unix_sockets();
    std::erase_if(names, [&](const std::string& name) { return !now.contains(name); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return names;
}

TEST(Shm, LeavesNothingBehindWhenKilledAtAnyMoment) {
  const std::set<std::string> before = files_in("/dev/shm");
  const std::set<std::string> sockets_before = unix_sockets();
  for (int attempt = 0; attempt < 30; ++attempt) {
    Job job(without_listener(3));
    Signal stage;
    std::vector<Process> ranks;
    for (int r = 0; r < job.size(); ++r) {
      ranks.emplace_back([&, r]() -> int {
        stage.give();
        std::unique_ptr<Rank> rank = job.join(r, make_shm);
        for (;;) {
          stage.give();
          if (Status s = exchange(*rank, 100000); !s) throw s.error();
        }
      });
    }
    stage.await(1 + attempt % 10);  // while they meet, or have met, or are talking
    for (const Process& rank : ranks) rank.kill();
    for (Process& rank : ranks) EXPECT_EQ(rank.wait(), -SIGKILL);
  }
  EXPECT_EQ(files_in("/dev/shm"), before);
  std::set<std::string> sockets = unix_sockets();
  std::erase_if(sockets, [&](const std::string& name) { return sockets_before.contains(name); });
  EXPECT_EQ(that_stay(sockets), std::set<std::string>());
}

TEST(Shm, WorksWhereDevShmIsTiny) {
  Process alone([] {
    if (::unshare(CLONE_NEWNS) != 0) return 77;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    if (::mount("none", "/dev/shm", "tmpfs", 0, "size=65536") != 0) return 77;
    Ranks two = make_ranks(make_shm, without_listener(2));
    on_each(two, [](Rank& rank) {
      if (!rank.links[0][1 - rank.group.rank()]) throw std::runtime_error("not reached");
      if (Status s = exchange(rank, size_t{8} << 20); !s) throw s.error();
    });
    return 0;
  });
  const int code = alone.wait();
  if (code == 77) GTEST_SKIP() << "mounting needs privileges";
  EXPECT_EQ(code, 0);
}

// ---- ranks that cannot take part ---------------------------------------------------------------

struct Handicap {
  std::string name;
  int who;
  std::function<bool()> apply;  // false: not permitted here
  std::vector<int> left;        // the ranks that share memory all the same
};
void PrintTo(const Handicap& handicap, std::ostream* out) { *out << handicap.name; }

bool limit(__rlimit_resource what, rlim_t value) {
  const rlimit both{value, value};
  return ::setrlimit(what, &both) == 0;
}

class ShmHandicap : public ::testing::TestWithParam<Handicap> {};

TEST_P(ShmHandicap, LeavesOutWhoCannotAndAllAgree) {
  const Handicap& handicap = GetParam();
  Job job(without_listener(3));
  std::vector<Process> ranks;
  for (int r = 0; r < job.size(); ++r) {
    ranks.emplace_back([&, r] {
      if (r == handicap.who && !handicap.apply()) return 77;
      std::unique_ptr<Rank> rank = job.join(r, make_shm);
      int reached = 0;
      for (int p = 0; p < job.size(); ++p) reached |= rank->links[0][p] ? 1 << p : 0;
      if (Status s = exchange(*rank, 100000); !s) throw s.error();
      return reached;
    });
  }
  std::vector<int> codes;
  for (Process& rank : ranks) codes.push_back(rank.wait());
  if (codes[handicap.who] == 77) GTEST_SKIP() << "needs privileges";
  int all = 0;
  for (int r : handicap.left) all |= 1 << r;
  for (int r = 0; r < job.size(); ++r) {
    const bool takes_part = (all >> r & 1) != 0;
    EXPECT_EQ(codes[r], takes_part ? all & ~(1 << r) : 0) << "rank " << r;
  }
}

std::vector<Handicap> handicaps() {
  std::vector<Handicap> all = {
      {"nobody", 0, [] { return true; }, {0, 1, 2}},
      {"member_in_another_network_namespace",
       1,
       [] { return ::unshare(CLONE_NEWNET) == 0; },
       {0, 2}},
      {"leader_in_another_network_namespace", 0, [] { return ::unshare(CLONE_NEWNET) == 0; }, {}},
      {"leader_without_large_files", 0, [] { return limit(RLIMIT_FSIZE, 1 << 20); }, {}},
      {"member_without_large_files", 2, [] { return limit(RLIMIT_FSIZE, 1 << 20); }, {0, 1, 2}},
  };
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // The sanitizers themselves need more than that: addresses, and a pipe to look whether memory is
  // there.
  all.push_back({"member_without_descriptors",
                 2,
                 [] {
                   int highest = ::dup(0);
                   ::close(highest);
                   return limit(RLIMIT_NOFILE, static_cast<rlim_t>(highest) + 6);
                 },
                 {0, 1}});
  all.push_back({"member_without_address_space",
                 1,
                 [] {
                   std::istringstream pages(read_file("/proc/self/statm"));
                   rlim_t used = 0;
                   pages >> used;
                   return limit(RLIMIT_AS, used * 4096 + (1 << 20));
                 },
                 {0, 2}});
#endif
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, ShmHandicap, ::testing::ValuesIn(handicaps()),
                         [](const auto& info) { return info.param.name; });

// ---- hostile peers -----------------------------------------------------------------------------

struct Span {
  char* begin = nullptr;
  size_t bytes = 0;
};

// This process's mapping of the region.
Span mapping() {
  std::istringstream maps(read_file("/proc/self/maps"));
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:ringwood ") == std::string::npos) continue;
    uintptr_t begin = 0, end = 0;
    std::sscanf(line.c_str(), "%lx-%lx", &begin, &end);
    return {reinterpret_cast<char*>(begin), end - begin};
  }
  return {};
}

// What the peer overwrites once it has been told to.
struct Attack {
  std::string name;
  bool sends;  // the victim sends (or else receives)
  size_t bytes;
  std::function<void(shm::Direction& to_victim, shm::Direction& from_victim)> overwrite;
};
void PrintTo(const Attack& attack, std::ostream* out) { *out << attack.name; }

class ShmAttack : public ::testing::TestWithParam<Attack> {};

TEST_P(ShmAttack, IsAnErrorThatNamesThePeer) {
  const Attack& attack = GetParam();
  Job job(without_listener(2));
  Signal ready, go, done, end;
  Process attacker([&] {
    std::unique_ptr<Rank> rank = job.join(1, make_shm);
    ready.give();
    go.await();
    shm::Geometry geometry = shm::make_geometry(2, 1, rank->options.shm_ring_bytes);
    auto* directions =
        reinterpret_cast<shm::Direction*>(mapping().begin + geometry.directions_at());
    attack.overwrite(directions[1 * 2 + 0], directions[0 * 2 + 1]);
    done.give();
    end.await();
    return 0;
  });
  std::unique_ptr<Rank> rank = job.join(0, make_shm);
  ready.await();
  Link& link = *rank->links[0][1];
  std::vector<std::byte> data(attack.bytes);
  Completions now;
  Status s =
      attack.sends ? link.post_send(data.data(), data.size()) : link.post_incoming(data.size());
  ASSERT_TRUE(s) << s.error().message();
  ASSERT_TRUE(link.poll(now));
  go.give();
  done.await();
  for (int i = 0; i < 100 && s; ++i) {
    link.consume(link.incoming().size());
    s = link.poll(now);
  }
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, ErrorCode::internal);
  EXPECT_EQ(s.error().peer, 1);
  EXPECT_EQ(s.error().cause, "the peer wrote an impossible position into the shared memory");
  EXPECT_TRUE(link.incoming().empty());
  end.give();
  EXPECT_EQ(attacker.wait(), 0);
}

constexpr size_t kRing = size_t{1} << 20, kPiece = kRing / 8;

// Announces the first message of a direction.
void announce(shm::Direction& direction, uint64_t way, uint64_t at) {
  const shm::Notice notice{way, at, 0};
  std::memcpy(direction.slots[0].payload, &notice, sizeof notice);
  direction.slots[0].stamp = 1;
}
auto announces(shm::Way way, uint64_t at) {
  return [=](shm::Direction& in, shm::Direction&) { announce(in, static_cast<uint64_t>(way), at); };
}
auto goes_on_with(uint64_t head) {
  return [=](shm::Direction& in, shm::Direction&) {
    announce(in, static_cast<uint64_t>(shm::Way::staged), kPiece);
    in.writer.head = head;
  };
}

std::vector<Attack> attacks() {
  return {
      {"notice_far_ahead", false, 4096, announces(shm::Way::staged, kRing + 64)},
      {"notice_wraps", false, 4096, announces(shm::Way::staged, ~uint64_t{63})},
      {"notice_within_a_line", false, 4096, announces(shm::Way::staged, 100)},
      {"notice_of_nothing", false, 4096, announces(shm::Way::staged, 0)},
      {"unknown_way", false, 4096, [](auto& in, auto&) { announce(in, 77, 64); }},
      {"put_where_nothing_was_exposed", false, 4096, announces(shm::Way::placed, 0)},
      {"exposed_outside", false, 4096, announces(shm::Way::zero_copy, uint64_t{1} << 60)},
      {"exposed_wraps", false, 4096, announces(shm::Way::zero_copy, ~uint64_t{0} - 100)},
      {"head_far_ahead", false, 2 * kPiece, goes_on_with(2 * kRing)},
      {"head_wraps", false, 2 * kPiece, goes_on_with(~uint64_t{63})},
      {"head_within_a_line", false, 2 * kPiece, goes_on_with(kPiece + 100)},
      {"tail_ahead_of_head", true, 2 * kRing,
       [](auto&, auto& out) { out.reader.tail = kRing + 64; }},
      {"tail_wraps", true, 2 * kRing, [](auto&, auto& out) { out.reader.tail = ~uint64_t{63}; }},
      {"tail_within_a_line", true, 2 * kRing, [](auto&, auto& out) { out.reader.tail = 100; }},
  };
}

INSTANTIATE_TEST_SUITE_P(All, ShmAttack, ::testing::ValuesIn(attacks()),
                         [](const auto& info) { return info.param.name; });

// Whatever the peer writes, nothing beside the posted buffers is read or written.
TEST(Shm, SurvivesAPeerThatWritesAnythingAnywhere) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Job job(without_listener(2));
    Process vandal([&] {
      std::unique_ptr<Rank> rank = job.join(1, make_shm);
      const Span all = mapping();
      std::mt19937_64 random(seed);
      for (;;) {
        // Counters mostly, and plausible ones among them.
        const size_t area = random() % 8 == 0 ? all.bytes : 64 << 10;
        const uint64_t value = random() % 2 ? random() : (random() % 64) * 64;
        std::memcpy(all.begin + random() % (area / 8) * 8, &value, 8);
      }
      return 0;
    });
    std::unique_ptr<Rank> rank = job.join(0, make_shm);
    Link& link = *rank->links[0][1];
    std::mt19937 random(seed);
    // Between pages that must not be touched.
    const size_t bytes = 64 * 4096;
    auto* pages = static_cast<std::byte*>(
        ::mmap(nullptr, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(::mprotect(pages + 4096, bytes, PROT_READ | PROT_WRITE), 0);
    Completions now;
    Status s;
    for (int i = 0; i < 20000 && s; ++i) {
      const size_t length = 1 + random() % (random() % 2 ? 56 : bytes);
      if (i % 16 == 0) s = link.post_send(pages + 4096 + bytes - length, length);
      if (i % 16 == 1 && s) s = link.post_recv(pages + 4096 + bytes - length, length);
      if (i % 16 == 2 && s) s = link.post_incoming(length);
      if (s) s = link.poll(now);
      const std::span<const std::byte> piece = link.incoming();
      if (!piece.empty()) std::memcpy(pages + 4096, piece.data(), std::min(bytes, piece.size()));
      link.consume(piece.size());
    }
    EXPECT_TRUE(s || s.error().peer == 1);
    ::munmap(pages, bytes + 8192);
    vandal.kill();
    EXPECT_EQ(vandal.wait(), -SIGKILL);
  }
}

// ---- forks -------------------------------------------------------------------------------------

TEST(Shm, IsNotInheritedByAFork) {
  Process parent([] {
    Ranks two = make_ranks(make_shm, without_listener(2));
    EXPECT_EQ(count(read_file("/proc/self/maps"), "memfd:ringwood") >= 2, true);
    const pid_t child = ::fork();
    if (child == 0) {
      const bool gone = count(read_file("/proc/self/maps"), "memfd:ringwood") == 0;
      two.all.clear();  // as an interpreter that exits would
      ::_exit(gone ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return 1;
    on_each(two, [](Rank& rank) {
      if (Status s = exchange(rank, 100000); !s) throw s.error();
    });
    return 0;
  });
  EXPECT_EQ(parent.wait(), 0);
}

TEST(Shm, LimitsWhatManyRanksReserve) {
  for (size_t members : {2, 8, 64, 200}) {
    const shm::Geometry g = shm::make_geometry(members, 2, size_t{1} << 20);
    EXPECT_EQ(g.ring_bytes & (g.ring_bytes - 1), 0u);
    EXPECT_GE(g.ring_bytes, 65536u);
    EXPECT_TRUE(members > 8 || g.ring_bytes == size_t{1} << 20) << members;
    EXPECT_TRUE(g.ring_bytes == 65536 || g.total() <= uint64_t{1} << 30) << members;
  }
}

}  // namespace
}  // namespace ringwood
