// Groups that find a tuning file: all ranks take what rank 0 has found, results are right, and a
// file that cannot be used changes nothing.
#include <fstream>
#include <mutex>

#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/runtime/group_parts.h"
#include "collectives/tuner/candidate.h"
#include "collectives/tuner/tuning/find_tuning.h"
#include "collectives/tuner/tuning/group_tuning.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"

namespace ringwood::testing {
namespace {

constexpr const char* kTransports = "mixed";

TunedRange tuned(const TuningFile& file, Collective collective, const std::string& algorithm,
                 size_t from, size_t to) {
  TunedRange r;
  r.collective = collective;
  r.algorithm = r.proved = algorithm;
  r.from = from;
  r.to = to;
  r.with = "float32,sum,private";
  r.schedule = schedules_hash(schedules_of(file, r));
  return r;
}

// For groups of four, whose rows are chosen nowhere without it: a chain of sends as a text, and a
// ring in 5 segments.
TuningFile file_for_four() {
  TuningFile file;
  file.measured = "2026-11-23";
  file.version = "0.1.0";
  std::mutex mutex;
  run_ranks(4, kTransports, [&](Communicator& c) {
    const TuningFingerprint own = own_fingerprint(parts_of(c).mesh(), options_for(kTransports, 0));
    const std::lock_guard lock(mutex);
    if (c.rank() == 0) file.fingerprint = own;
  });
  const AlgorithmRow& ring = *find_algorithm(Collective::all_reduce, "ring");
  file.schedules = {
      {"mine", ProvedSchedules::create(Collective::all_reduce, build_all(ring, {0, 4}))}};
  file.ranges.push_back(tuned(file, Collective::all_reduce, "mine", 64, 4096));
  file.ranges.push_back(tuned(file, Collective::all_reduce, "ring", 4097, 1 << 20));
  file.ranges.back().segments = file.ranges.back().proved_segments = 5;
  return file;
}

std::function<Options(int)> options_with(const std::string& path) {
  return [path](int rank) {
    Options o = options_for(kTransports, rank);
    if (rank == 0)
      o.tuning_file = path;  // the others' does not matter
    else
      o.tuning_file = "off";
    return o;
  };
}

void check_sums(Communicator& c) {
  for (const size_t count : {16, 100, 1000, 5000}) {
    std::vector<float> sums(count, static_cast<float>(1 + c.rank()));
    must(c.all_reduce(sums.data(), count, DataType::float32, ReduceOp::sum));
    EXPECT_EQ(sums, std::vector<float>(count, 10));
  }
}

TEST(TunedGroups, AllRanksTakeWhatRankZeroFound) {
  const TemporaryPath path;
  write_tuning_file(path.path(), file_for_four());
  run_ranks(4, options_with(path.path()), [](Communicator& c) {
    const auto own = c.choice(Collective::all_reduce, 400, DataType::float32, ReduceOp::sum);
    EXPECT_TRUE(own.tuned);
    EXPECT_EQ(own.why, "the tuning file says so");
    EXPECT_EQ(own.algorithm, "mine");
    const auto row = c.choice(Collective::all_reduce, 20000, DataType::float32, ReduceOp::sum);
    EXPECT_TRUE(row.tuned);
    EXPECT_EQ(row.segments, 5);
    EXPECT_FALSE(c.choice(Collective::all_reduce, 8, DataType::float32, ReduceOp::sum).tuned);
    check_sums(c);
    // Whoever names something else has it.
    CallOptions call;
    call.algorithm = "direct";
    float one = 1;
    must(c.all_reduce(&one, 1, DataType::float32, ReduceOp::sum, call));
    EXPECT_EQ(one, 4);
  });
}

TEST(TunedGroups, AFileForOthersChangesNothing) {
  const TemporaryPath path;
  TuningFile file = file_for_four();
  const std::string good = print(file);
  file.fingerprint.hardware = "another one";
  for (const std::string& text :
       {print(file), std::string("\xff\x00nonsense", 10), good.substr(0, good.size() / 2) + "x"}) {
    std::ofstream(path.path(), std::ios::trunc | std::ios::binary) << text;
    run_ranks(4, options_with(path.path()), [](Communicator& c) {
      EXPECT_FALSE(c.choice(Collective::all_reduce, 400, DataType::float32, ReduceOp::sum).tuned);
      check_sums(c);
    });
  }
  run_ranks(3, options_with(path.path()), [](Communicator& c) {
    EXPECT_FALSE(c.choice(Collective::all_reduce, 400, DataType::float32, ReduceOp::sum).tuned);
  });
}

}  // namespace
}  // namespace ringwood::testing
