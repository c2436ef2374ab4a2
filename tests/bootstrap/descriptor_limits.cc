// Ranks, and a store, whose process may open few files: the soft limit is raised in time, and where
// the hard one is too low, one sentence says so.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/bootstrap/free_port.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "transports/base/descriptors.h"
#include "transports/bootstrap/store.h"
#include "transports/mesh.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

constexpr int kRanks = 24;
// Fewer than rank 0 has peers, and more than it needs to come to them.
constexpr int kFew = 20;
// Hard limits.
constexpr rlim_t kPlenty = 4096, kAsTheSoftOne = 0;

// Of this process, which has to be one of the test's own.
void limit_files(int more, rlim_t hard) {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  const auto soft = static_cast<rlim_t>(std::distance(begin(open), end(open)) + more);
  const rlimit both{soft, hard == kAsTheSoftOne ? soft : hard};
  if (::setrlimit(RLIMIT_NOFILE, &both) != 0) throw std::runtime_error("setrlimit");
}

std::unique_ptr<Mesh> meet(const std::string& path, int rank) {
  return make_mesh(file_store(path), rank, kRanks, options_for(usual_transport(), rank), {}, "",
                   {});
}

// All ranks but 0, as threads; says what the first of them to fail throws.
void meet_all_others(const std::string& path, const Reporter& reporter) {
  std::vector<std::unique_ptr<Mesh>> meshes(kRanks);
  std::vector<std::string> errors(kRanks);
  std::vector<std::thread> ranks;
  for (size_t rank = 1; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      try {
        meshes[rank] = meet(path, static_cast<int>(rank));
      } catch (const Error& error) {
        errors[rank] = error.message();
      }
    });
  for (std::thread& rank : ranks) rank.join();
  for (const std::string& error : errors)
    if (!error.empty()) return reporter.say(error);
  reporter.say("met");
  reporter.await_go();
}

struct Ends {
  std::string root, others;
};
// Rank 0 with few files, and the others: what they say.
Ends meet_with(rlim_t hard) {
  const TemporaryPath place;
  Processes ranks(2, [&](int process, const Reporter& reporter) {
    if (process == 1) return meet_all_others(place.path(), reporter);
    limit_files(kFew, hard);
    const auto mesh = meet(place.path(), 0);
    reporter.say("met");
    reporter.await_go();
  });
  Ends ends{ranks.line(0), ranks.line(1)};
  if (ends.root == "met" && ends.others == "met") ranks.go_all();
  return ends;
}

TEST(DescriptorLimit, OfRankZeroIsRaisedBeforeTheOthersDialIt) {
  const Ends ends = meet_with(kPlenty);
  EXPECT_EQ(ends.root, "met");
  EXPECT_EQ(ends.others, "met");
}

TEST(DescriptorLimit, OfRankZeroThatIsTooLowIsToldToAll) {
  const Ends ends = meet_with(kAsTheSoftOne);
  for (const std::string& text : {ends.root, ends.others}) {
    EXPECT_PRED2(contains, text, "rank 0");
    EXPECT_PRED2(contains, text, " for the control connections, but may open ");
    EXPECT_PRED2(contains, text, "raise ulimit -n");
  }
}

// What a server says first that has few files, and a client who comes as often as there are ranks.
Ends fill_a_store(rlim_t hard) {
  const int port = free_port();
  Processes both(2, [&](int process, const Reporter& reporter) {
    if (process == 0) {
      limit_files(kFew, hard);
      const auto store = tcp_store("127.0.0.1", port, true, patiently(), Options(), 2 * kRanks);
      reporter.say("serves");
      return reporter.await_go();
    }
    reporter.await_go();
    std::vector<std::shared_ptr<Store>> clients;
    for (int i = 0; i < 2 * kRanks; ++i)
      clients.push_back(tcp_store("127.0.0.1", port, false, patiently()));
    reporter.say("all are in");
  });
  Ends ends{both.line(0), ""};
  if (ends.root != "serves") return ends;
  both.go(1);
  ends.others = both.line(1);
  return ends;
}

TEST(DescriptorLimit, OfAServerIsRaisedForAllRanks) {
  const Ends ends = fill_a_store(kPlenty);
  EXPECT_EQ(ends.root, "serves");
  EXPECT_EQ(ends.others, "all are in");
}

TEST(DescriptorLimit, OfAServerThatIsTooLowIsToldAtOnce) {
  EXPECT_PRED2(contains, fill_a_store(kAsTheSoftOne).root,
               " for the ranks at the store, but may open ");
}

// Who may open no file cannot look how many there are.
TEST(DescriptorLimit, ThatIsReachedIsTold) {
  Processes one(1, [](int, const Reporter& reporter) {
    limit_files(kFew, kAsTheSoftOne);
    while (::dup(STDERR_FILENO) >= 0) continue;
    const Error error = error_of([] { make_room_for_descriptors(1, "a test"); });
    reporter.say(error.cause);
  });
  EXPECT_PRED2(contains, one.line(0), "1 of them for a test, but may open ");
}

}  // namespace
}  // namespace ringwood
