// Each path is compared with its own rate, and the right table comes back after a wrong probe.
// Links that say what the test wants, and a clock of the test's own.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/planner/group_planner.h"
#include "collectives/tuner/model_tuner.h"
#include "collectives/tuner/watch/path_monitor.h"
#include "collectives/tuner/watch/row_changes.h"
#include "tests/tuner/watch/counting_link.h"
#include "transports/base/wait_set.h"
#include "transports/channels.h"

namespace ringwood {
namespace {

Clock::time_point the_time;

// Rank 0 of 4 hosts with `per_host` ranks each.
class PathMonitorTest : public ::testing::Test {
 protected:
  void begin(int per_host, const MachineModel& machine) {
    mesh_.size = 4 * per_host;
    mesh_.several_hosts = true;
    mesh_.ranks_on_this_host = per_host;
    mesh_.announcement = print(machine);
    mesh_.peers.resize(mesh_.size);
    traffic_.resize(mesh_.size);
    for (int r = 0; r < mesh_.size; ++r) {
      mesh_.host_numbers.push_back(r / per_host);
      if (r > 0)
        mesh_.peers[r].link[kCollectiveChannel] =
            std::make_unique<testing::CountingLink>(traffic_[r]);
    }
    monitor_.use(mesh_, [this] { return plans_ ? plans_->in_use() : TunerInUse{}; });
    (void)monitor_.look();
  }
  // By peer: bytes/s of messages of 1 MiB, for some seconds. Who is reported.
  std::vector<int> carry(const std::vector<double>& rates, int seconds = 8) {
    std::vector<int> reported;
    for (int i = 0; i < 4 * seconds; ++i) {
      for (size_t peer = 0; peer < rates.size(); ++peer) {
        LinkTraffic& t = traffic_[peer];
        t.bytes += static_cast<uint64_t>(rates[peer] / 4);
        t.messages = t.bytes >> 20;
        t.busy += rates[peer] > 0 ? 0.25 : 0;
      }
      the_time += std::chrono::milliseconds(250);
      for (const PathReport& report : monitor_.look()) {
        reported.push_back(report.to);
        monitor_.reported(report);
      }
    }
    return reported;
  }

  Mesh mesh_;
  std::vector<LinkTraffic> traffic_;
  std::unique_ptr<GroupPlanner> plans_;
  PathMonitor monitor_{Options(), [] { return the_time; }};
};

TEST_F(PathMonitorTest, AHostThatIsSlowByNatureIsNotReported) {
  MachineModel machine;
  machine.net.nic = 1e9;
  machine.net.exceptions = {{2, 0.5, "c"}};
  begin(1, machine);
  EXPECT_EQ(carry({0, 0, 0.47e9}), std::vector<int>{});
  EXPECT_EQ(carry({0, 0, 0.12e9}), std::vector<int>{2}) << "a quarter of its own rate";
}

TEST_F(PathMonitorTest, ARailIsComparedWithItsOwnRate) {
  MachineModel machine;
  machine.net.nic = 2e9;  // of two rails
  machine.net.rails = 2;
  machine.net.rail_of_rank = true;
  machine.net.exceptions = {{2, 0.5, "c", 0}};
  begin(2, machine);
  // Rank 0 uses rail 0: 1 GB/s to host 1, and half of it to host 2.
  EXPECT_EQ(carry({0, 0, 0.5e9, 0, 0.25e9}), std::vector<int>{}) << "the host's other rank, too";
  EXPECT_EQ(carry({0, 0, 0.5e9, 0, 0.06e9}), std::vector<int>{4});
  EXPECT_EQ(carry({0, 0, 1.3e9, 0, 0.06e9}), std::vector<int>{2}) << "more than its rail has";
}

TEST_F(PathMonitorTest, AHostThatIsAtAQuarterFromTheBeginningOnIsReported) {
  MachineModel machine;
  machine.net.nic = 1e9;
  machine.net.exceptions = {{2, 0.5, "c"}};
  begin(1, machine);
  EXPECT_EQ(carry({0, 0, 0.12e9}), std::vector<int>{2});
}

TEST_F(PathMonitorTest, PathsOfOnePortShareItsRate) {
  MachineModel machine;
  machine.net.nic = 1e9;
  begin(1, machine);
  EXPECT_EQ(carry({0, 0.3e9, 0.3e9, 0.3e9}), std::vector<int>{});
}

TEST_F(PathMonitorTest, AnOutageOfAPathIsReportedAtOnce) {
  begin(1, MachineModel());
  traffic_[1].carrying = 0.5;
  EXPECT_EQ(carry({0, 0, 0, 0}, 1), std::vector<int>{1});
  EXPECT_EQ(carry({0, 0, 0, 0}, 1), std::vector<int>{});
}

// ---- wrong probes -------------------------------------------------------------------------------

// Rank 0 of 4 hosts at 50 MB/s, which sums up 4 MiB with rank 3 as its neighbour.
class WrongProbe : public PathMonitorTest {
 protected:
  WrongProbe() {
    machine_.hosts = {0, 1, 2, 3};
    machine_.net.nic = 50e6;
    begin(1, machine_);
    plans_ =
        std::make_unique<GroupPlanner>(0, 4, std::make_shared<ModelTuner>(machine_, Options()));
    first_ = call();
  }
  std::string call() {
    const CollectiveArgs sum{
        Collective::all_reduce, DataType::uint8, ReduceOp::sum, 0, 4 << 20, {}};
    return plans_->get({sum, {}})->form.algorithm;
  }
  NetworkParameters with_host_3_at(double part) const {
    NetworkParameters net = machine_.net;
    if (part < 1) net.exceptions = {{3, part, "d"}};
    return net;
  }
  // Carries at this rate until the network is to be measured; seconds, or -1: not within an hour.
  int until_measured(double rate) {
    for (int t = 0; t < 3600; ++t) {
      const Proposal proposal = monitor_.next_change();
      if (proposal.parameters == kMeasureAgain) return t;
      EXPECT_TRUE(proposal.parameters.empty());
      carry({0, 0, 0, rate}, 1);
    }
    return -1;
  }
  // The probe finds that. Whether the parameters change.
  bool probe(const NetworkParameters& found) {
    monitor_.found(found);
    Proposal proposal;
    while (monitor_.weighs()) {
      proposal = monitor_.next_change();
      std::this_thread::yield();
    }
    if (proposal.parameters.empty()) return false;
    plans_->prepare(++epoch_, proposal.parameters);
    Plan like;
    like.key.args.collective = Collective::barrier;
    (void)plans_->plan_again(like, epoch_);
    monitor_.renew();
    return true;
  }

  MachineModel machine_;
  std::string first_;
  uint32_t epoch_ = 0;
};

TEST_F(WrongProbe, ThatSeesNothingIsRepeated) {
  carry({0, 0, 0, 48e6});
  for (const int soonest : {0, 50, 100}) {
    EXPECT_GE(until_measured(11e6), soonest);
    EXPECT_FALSE(probe(with_host_3_at(1)));
  }
  EXPECT_GE(until_measured(11e6), 200);
  EXPECT_TRUE(probe(with_host_3_at(0.25))) << "right at last";
  EXPECT_NE(call(), first_);
}

TEST_F(WrongProbe, ThatSeesAFaultIsContradictedByWhatIsCarried) {
  carry({0, 0, 0, 48e6});
  ASSERT_GE(until_measured(20e6), 0);
  ASSERT_TRUE(probe(with_host_3_at(0.2)));
  ASSERT_NE(call(), first_);
  const int seconds = until_measured(48e6);
  EXPECT_GT(seconds, 0);
  EXPECT_LE(seconds, 35);
  EXPECT_TRUE(probe(with_host_3_at(1)));
  EXPECT_EQ(call(), first_) << "the better figure is back";
}

// No word from the runs, as by a row that does not use the path.
TEST_F(WrongProbe, ThatSeesAFaultIsRepeated) {
  carry({0, 0, 0, 48e6});
  ASSERT_GE(until_measured(20e6), 0);
  ASSERT_TRUE(probe(with_host_3_at(0.2)));
  EXPECT_LE(until_measured(0), 35);
  EXPECT_FALSE(probe(with_host_3_at(1))) << "one probe against the other";
  EXPECT_NE(call(), first_);
  EXPECT_LE(until_measured(0), 35) << "it would change the table";
  EXPECT_TRUE(probe(with_host_3_at(1)));
  EXPECT_EQ(call(), first_);
  EXPECT_EQ(until_measured(0), -1) << "all is as at first";
}

TEST_F(WrongProbe, ThatFindsTheOldFaultAfterARepairIsRepeated) {
  carry({0, 0, 0, 48e6});
  ASSERT_GE(until_measured(11e6), 0);
  ASSERT_TRUE(probe(with_host_3_at(0.25)));
  ASSERT_GE(until_measured(0), 0);
  EXPECT_FALSE(probe(with_host_3_at(0.25))) << "confirmed";
  const int seconds = until_measured(0);
  EXPECT_GT(seconds, 400) << "what does not change is measured seldom";
  EXPECT_LE(seconds, 481);
  EXPECT_FALSE(probe(with_host_3_at(0.25))) << "wrong: it is repaired";
  EXPECT_GE(until_measured(0), 0);
  EXPECT_FALSE(probe(with_host_3_at(1)));
  EXPECT_GE(until_measured(0), 0);
  EXPECT_TRUE(probe(with_host_3_at(1)));
  EXPECT_EQ(call(), first_);
}

// ---- weighing -----------------------------------------------------------------------------------

// Weighs until it is allowed to end, or stopped.
class SlowTuner final : public Tuner {
 public:
  TuningChoice choose(const TuningQuery&, const std::string&, int) const override { return {}; }
  std::vector<Candidate> explain(const TuningQuery&) const override { return {}; }
  const GroupFacts& group() const override { return facts_; }
  std::shared_ptr<const Tuner> with(const std::string&) const override { return nullptr; }
  Proposal weigh(const NetworkParameters&, const std::vector<UsedChoice>&,
                 const std::atomic<bool>& stop) const override {
    weigher = std::this_thread::get_id();
    weighs = true;
    while (!allowed && !stop) std::this_thread::yield();
    return allowed ? Proposal{"other parameters", "words"} : Proposal{};
  }
  mutable std::atomic<bool> weighs{false};
  mutable std::thread::id weigher;
  std::atomic<bool> allowed{false};

 private:
  const GroupFacts facts_;
};

// Nothing that the control thread calls waits for it.
TEST_F(PathMonitorTest, TheControlThreadGoesOnWhileOthersWeigh) {
  const auto tuner = std::make_shared<SlowTuner>();
  begin(1, MachineModel());
  monitor_.use(mesh_, [&] { return TunerInUse{tuner, {}}; });
  carry({0, 0, 0, 1e6});  // reported
  NetworkParameters other;
  other.nic *= 0.5;
  monitor_.found(other);
  while (!tuner->weighs) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) {
    (void)carry({0, 0, 0, 1e6}, 1);
    EXPECT_TRUE(monitor_.next_change().parameters.empty()) << "one is being weighed";
  }
  EXPECT_TRUE(monitor_.weighs());
  tuner->allowed = true;
  std::string proposed;
  while (monitor_.weighs()) proposed = monitor_.next_change().parameters;
  EXPECT_EQ(proposed, "other parameters");
  EXPECT_NE(tuner->weigher, std::this_thread::get_id());
}

TEST_F(PathMonitorTest, EndsWhileOthersWeigh) {
  const auto tuner = std::make_shared<SlowTuner>();
  PathMonitor monitor{Options()};
  mesh_.several_hosts = true;
  monitor.use(mesh_, [&] { return TunerInUse{tuner, {}}; });
  monitor.found(NetworkParameters());
  while (!tuner->weighs) std::this_thread::yield();
}

}  // namespace
}  // namespace ringwood
