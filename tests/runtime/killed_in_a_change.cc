// A rank is killed while the parameters change: in either phase of a change, while all ranks
// measure the network, or in the change that follows. The others name it as lost, and end.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/epochs/epochs.h"
#include "tests/runtime/measuring_rank.h"
#include "tests/support/processes.h"
#include "tests/support/seeds.h"
#include "transports/bootstrap/store.h"

namespace ringwood::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kKills = 2;
#else
constexpr uint64_t kKills = 6;
#endif

struct Death {
  int n, victim;
  // After the victim has heard of the first change, which it answers before or never.
  std::chrono::microseconds after;
  bool answers;
};

// Without an answer, for which the others are delayed; between the phases, which takes a round
// trip; or in what follows: the measurement, which takes 50 ms and more, and the change that its
// result leads to.
Death draw(uint64_t seed) {
  constexpr uint64_t kSpread[] = {150000, 3000, 150000};
  std::mt19937_64 random(seed);
  const int n = 3 + static_cast<int>(random() % 4);
  const int victim = static_cast<int>(random() % n);
  return {n, victim, std::chrono::microseconds(random() % kSpread[seed % 3]), seed % 3 != 0};
}

std::set<std::string> our_shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (const std::string name = entry.path().filename(); name.find("ringwood") != name.npos)
      names.insert(name);
  return names;
}

// Says "ready", and then that it dies, or of what it has heard.
void run(const Death& how, std::shared_ptr<Store> store, int rank, const Reporter& reporter) {
  MeasuringRank self(std::move(store), rank, how.n);
  std::thread killer;
  const auto die = [&] {
    reporter.say("dies");
    raise(SIGKILL);
  };
  self.planner->on_prepare = [&](uint32_t epoch) {
    if (rank != how.victim || epoch != 1) return;
    const auto late = [&] {
      std::this_thread::sleep_for(how.after);
      die();
    };
    if (!how.answers) late();
    killer = std::thread(late);
  };
  self.planner->changes = true;
  std::mt19937_64 common(how.n);
  must(self.call(common));
  must(self.finish());
  reporter.say("ready");
  reporter.await_go();
  if (rank == 0) self.engine->mesh().control->propose({std::string(kMeasureAgain), "a test"});
  Status s;
  for (const Deadline limit = patiently(); s && !limit.passed();) s = self.call(common);
  reporter.say(s ? "nothing" : s.error().message());
  (void)self.finish();
}

TEST(KilledInAChange, IsNamedByAllOthers) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow the fork of a process that has had threads";
#endif
  const std::set<std::string> before = our_shared_memory();
  for_seeds(kKills, [&](uint64_t seed) {
    const Death how = draw(seed);
    SCOPED_TRACE(fmt::format("seed {}: rank {} of {} after {} us{}", seed, how.victim, how.n,
                             how.after.count(), how.answers ? "" : ", silent"));
    TemporaryPath place;
    Processes ranks(how.n, [&](int rank, const Reporter& reporter) {
      run(how, file_store(place.path()), rank, reporter);
    });
    for (int rank = 0; rank < how.n; ++rank) ASSERT_EQ(ranks.line(rank), "ready");
    for (int rank = how.n - 1; rank >= 0; --rank) ranks.go(rank);  // rank 0 begins the change
    ASSERT_EQ(ranks.line(how.victim), "dies");
    for (int rank = 0; rank < how.n; ++rank) {
      if (rank == how.victim) continue;
      const std::string heard = ranks.line(rank);
      EXPECT_NE(heard.find("(peer_lost)"), heard.npos) << "rank " << rank << ": " << heard;
      EXPECT_NE(heard.find(fmt::format("rank {}", how.victim)), heard.npos)
          << "rank " << rank << ": " << heard;
      EXPECT_EQ(ranks.wait(rank), 0) << "rank " << rank;
    }
  });
  EXPECT_EQ(our_shared_memory(), before);
}

}  // namespace
}  // namespace ringwood::testing
