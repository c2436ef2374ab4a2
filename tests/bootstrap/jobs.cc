// Which jobs may meet, and what launchers say about them.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/scoped_environment.h"
#include "tests/support/errors.h"
#include "transports/base/bytes.h"
#include "transports/base/options.h"
#include "transports/bootstrap/launch.h"
#include "transports/bootstrap/strangers/job.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

JobIdentity with_ids(const std::array<std::string, kJobIdKinds>& ids) {
  JobIdentity job;
  job.ids = ids;
  return job;
}
JobIdentity attempt(int number, int node = -1) {
  JobIdentity job;
  job.attempt = number;
  job.node = node;
  return job;
}
JobIdentity user(uint32_t id, uint64_t users) {
  JobIdentity job;
  job.user = id;
  job.users = users;
  return job;
}
JobIdentity ranks(int n) {
  JobIdentity job;
  job.ranks = n;
  return job;
}

TEST(Jobs, DifferIfTheyBothKnowThatTheyDo) {
  struct Case {
    const char* name;
    JobIdentity one, other;
    std::vector<std::string> differences;  // "": they may meet
  };
  const Case cases[] = {
      {"nothing is known", JobIdentity(), JobIdentity(), {}},
      {"one has no id", with_ids({"a", "b", "c", "d"}), JobIdentity(), {}},
      {"one id each, of other kinds", with_ids({"", "a"}), with_ids({"", "", "", "b"}), {}},
      {"the scheduler's",
       with_ids({"", "", "", "Slurm job 77"}),
       with_ids({"", "", "", "Slurm job 78"}),
       {"it belongs to Slurm job 78, this side to Slurm job 77", "set RINGWOOD_JOB_ID alike"}},
      {"torchrun's",
       with_ids({"", "a"}),
       with_ids({"", "b"}),
       {"it belongs to torchrun's run b, this side to torchrun's run a"}},
      {"mpirun's",
       with_ids({"", "", "a"}),
       with_ids({"", "", "b"}),
       {"it belongs to mpirun's job b, this side to mpirun's job a"}},
      {"the user's",
       with_ids({"a"}),
       with_ids({"b"}),
       {"it belongs to job b (RINGWOOD_JOB_ID), this side to job a (RINGWOOD_JOB_ID)"}},
      {"a run of torchrun over two jobs",
       with_ids({"", "run", "", "Slurm job 77"}),
       with_ids({"", "run", "", "Slurm job 78"}),
       {}},
      {"two runs of torchrun in a job",
       with_ids({"", "a", "", "Slurm job 77"}),
       with_ids({"", "b", "", "Slurm job 77"}),
       {"it belongs to torchrun's run b, this side to torchrun's run a"}},
      {"the user's word over two runs", with_ids({"mine", "a"}), with_ids({"mine", "b"}), {}},
      {"sizes", ranks(2), ranks(4), {"its group has 4 ranks, this side's 2"}},
      {"an unknown size", ranks(0), ranks(4), {}},
      {"attempts",
       attempt(1),
       attempt(0),
       {"it is of attempt 0 of the job, this side of attempt 1"}},
      {"attempts of a node", attempt(1, 3), attempt(0, 3), {"it is of attempt 0 of the job"}},
      {"nodes, each with its count", attempt(1, 0), attempt(0, 1), {}},
      {"no count", attempt(1), attempt(-1), {}},
      {"users of a host",
       user(1000, 7),
       user(1001, 7),
       {"it runs as user 1001 of this host, this side as user 1000"}},
      {"users of two hosts or containers", user(1000, 7), user(1001, 8), {}},
      {"users that are not compared", user(1000, 7), user(1001, 0), {}},
  };
  for (const Case& c : cases) {
    const std::string one = difference(c.one, c.other), other = difference(c.other, c.one);
    EXPECT_EQ(one.empty(), c.differences.empty()) << c.name << ": " << one;
    EXPECT_EQ(other.empty(), c.differences.empty()) << c.name << ": " << other;
    for (const std::string& part : c.differences) EXPECT_PRED2(contains, one, part) << c.name;
    EXPECT_EQ(difference(c.one, c.one), "") << c.name;
  }
}

TEST(Jobs, AllDifferencesAreNamed) {
  JobIdentity one = user(1000, 7), other = user(1001, 7);
  one.ranks = 2, other.ranks = 4;
  EXPECT_PRED2(contains, difference(one, other), "4 ranks, this side's 2; it runs as user 1001");
}

TEST(Jobs, AnAttemptIsLaterThanAnotherOfTheSameJobOnly) {
  EXPECT_TRUE(is_later_attempt(attempt(0), attempt(1)));
  EXPECT_FALSE(is_later_attempt(attempt(1), attempt(0)));
  EXPECT_FALSE(is_later_attempt(attempt(1), attempt(1)));
  EXPECT_FALSE(is_later_attempt(attempt(0, 0), attempt(1, 1)));
  JobIdentity here = attempt(0), there = attempt(1);
  here.ids[1] = "a", there.ids[1] = "b";
  EXPECT_FALSE(is_later_attempt(here, there));
}

TEST(Jobs, AreWhatLaunchersSay) {
  struct Case {
    const char* name;
    Environment variables;
    std::array<std::string, kJobIdKinds> ids;
    int attempt = -1, node = -1;
  };
  const Case cases[] = {
      {"nothing", {}, {}},
      {"torchrun",
       {{"RANK", "0"},
        {"TORCHELASTIC_RUN_ID", "a1b2"},
        {"TORCHELASTIC_RESTART_COUNT", "2"},
        {"GROUP_RANK", "3"}},
       {"", "a1b2"},
       2,
       3},
      {"torchrun without an id", {{"TORCHELASTIC_RUN_ID", "none"}}, {}},
      {"a count that is none",
       {{"TORCHELASTIC_RESTART_COUNT", "some"}, {"GROUP_RANK", "-1"}, {"RANK", "x"}},
       {}},
      {"srun", {{"SLURM_PROCID", "1"}, {"SLURM_JOB_ID", "77"}}, {"", "", "", "Slurm job 77"}},
      {"a part of a job",
       {{"SLURM_JOB_ID", "78"}, {"SLURM_HET_JOB_ID", "77"}},
       {"", "", "", "Slurm job 77"}},
      {"PBS", {{"PBS_JOBID", "12[3].head"}}, {"", "", "", "PBS job 12[3].head"}},
      {"mpirun",
       {{"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_NAMESPACE", "prterun-9@1"}, {"SLURM_JOB_ID", "77"}},
       {"", "", "prterun-9@1", "Slurm job 77"}},
      // Each node's torchrun may have been started by a step of its own.
      {"torchrun in steps of srun",
       {{"RANK", "0"},
        {"PMIX_RANK", "0"},
        {"PMIX_NAMESPACE", "slurm.pmix.77.3"},
        {"SLURM_JOB_ID", "77"},
        {"TORCHELASTIC_RUN_ID", "none"}},
       {"", "", "", "Slurm job 77"}},
  };
  for (const Case& c : cases) {
    const ScopedEnvironment environment(c.variables);
    const JobIdentity job = job_of(Options(), 4);
    EXPECT_EQ(job.ids, c.ids) << c.name;
    EXPECT_EQ(job.attempt, c.attempt) << c.name;
    EXPECT_EQ(job.node, c.node) << c.name;
    EXPECT_EQ(job.ranks, 4) << c.name;
  }
}

TEST(Jobs, TheUsersIdAndKeyComeFromTheOptions) {
  Options options;
  options.job_id = "training-7";
  EXPECT_EQ(job_of(options, 1).ids[0], "training-7");
  EXPECT_NE(job_of(options, 1).users, 0u);
  options.key_file = "/etc/ringwood.key";
  EXPECT_EQ(job_of(options, 1).users, 0u) << "the key says who may come";
}

TEST(Jobs, LongIdsDifferAtTheirEndsToo) {
  Options options;
  std::vector<std::string> all;
  for (const char* end : {"a", "b"}) {
    options.job_id = std::string(200, 'x') + end;
    all.push_back(job_of(options, 1).ids[0]);
    EXPECT_LE(all.back().size(), kMaxJobId);
  }
  EXPECT_NE(all[0], all[1]);
  options.job_id = "two\nlines";
  JobIdentity sent = job_of(options, 1), come;
  ASSERT_TRUE(decode(encode(sent), come));
  EXPECT_EQ(difference(sent, come), "") << "what is sent is what is compared";
  EXPECT_LE(encode(sent).size(), kJobBytes);
}

}  // namespace
}  // namespace ringwood
