// What is left of memory, as copies of the kernel's files tell it.
#include "transports/memory/memory_left.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <utility>
#include <vector>

#include "transports/memory/extents.h"

namespace ringwood {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

struct Machine {
  std::string name;
  std::vector<std::pair<std::string, std::string>> files;
  uint64_t bytes;
  std::string limit;
};
void PrintTo(const Machine& machine, std::ostream* out) { *out << machine.name; }

const std::string kFree = "MemTotal: 99 kB\nMemAvailable: 1024000 kB\nSwapFree: 0 kB\n";
const std::string kFirst = "/sys/fs/cgroup/memory", kSecond = "/sys/fs/cgroup";

std::vector<Machine> machines() {
  const std::string mib512 = std::to_string(512 * kMiB), mib300 = std::to_string(300 * kMiB);
  const std::string mib100 = std::to_string(100 * kMiB);
  return {
      {"unknown", {}, ~uint64_t{0}, ""},
      {"no_group", {{"/proc/meminfo", kFree}}, 1000 * kMiB, "the machine"},
      {"swap",
       {{"/proc/meminfo", "MemAvailable: 1024000 kB\nSwapFree: 1024 kB\n"}},
       1001 * kMiB,
       "the machine"},
      {"second_kind",
       {{"/proc/meminfo", kFree},
        {"/proc/self/cgroup", "0::/job/step\n"},
        {kSecond + "/job/step/memory.max", mib512},
        {kSecond + "/job/step/memory.current", mib300},
        {kSecond + "/job/step/memory.stat",
         "anon 5\ninactive_file 1048576\nactive_file 1048576\nshmem 77\n"}},
       214 * kMiB,
       "the control group /job/step"},
      {"a_group_around_it",
       {{"/proc/meminfo", kFree},
        {"/proc/self/cgroup", "0::/job/step\n"},
        {kSecond + "/job/step/memory.max", "max"},
        {kSecond + "/job/step/memory.current", mib100},
        {kSecond + "/job/memory.max", mib512},
        {kSecond + "/job/memory.current", mib300}},
       212 * kMiB,
       "the control group /job"},
      {"first_kind",
       {{"/proc/meminfo", kFree},
        {"/proc/self/cgroup", "8:pids:/\n4:cpu,memory:/job\n0::/\n"},
        {kFirst + "/job/memory.limit_in_bytes", mib512},
        {kFirst + "/job/memory.usage_in_bytes", mib300},
        {kFirst + "/job/memory.stat", "inactive_file 99999999\ntotal_inactive_file 1048576\n"},
        {kFirst + "/memory.limit_in_bytes", "9223372036854771712"},
        {kFirst + "/memory.usage_in_bytes", mib300}},
       213 * kMiB,
       "the control group /job"},
      {"a_container_that_shows_only_its_part",
       {{"/proc/meminfo", kFree},
        {"/proc/self/cgroup", "4:memory:/docker/0123\n"},
        {kFirst + "/memory.limit_in_bytes", mib512},
        {kFirst + "/memory.usage_in_bytes", mib300}},
       212 * kMiB,
       "the control group /"},
      {"beyond_its_limit",
       {{"/proc/meminfo", kFree},
        {"/proc/self/cgroup", "0::/\n"},
        {kSecond + "/memory.max", mib100},
        {kSecond + "/memory.current", mib300}},
       0,
       "the control group /"},
  };
}

// With 1000 MiB of memory and 500 MiB of swap.
Machine swapping(const std::string& name, const std::string& groups,
                 std::vector<std::pair<std::string, std::string>> files, uint64_t mib,
                 const std::string& limit) {
  files.push_back({"/proc/meminfo", "MemAvailable: 1024000 kB\nSwapFree: 512000 kB\n"});
  files.push_back({"/proc/self/cgroup", groups});
  return {name, std::move(files), mib * kMiB, limit};
}

std::vector<Machine> swapping_machines() {
  const auto mib = [](int n) { return std::to_string(n * kMiB); };
  const auto memory = [&](const std::string& group) {
    return std::pair(kSecond + group + "/memory.max", mib(512));
  };
  const auto usage = [&](const std::string& group) {
    return std::pair(kSecond + group + "/memory.current", mib(300));
  };
  const auto swap = [&](const std::string& group, const std::string& most) {
    return std::pair(kSecond + group + "/memory.swap.max", most);
  };
  const auto swapped = [&](const std::string& group, int used) {
    return std::pair(kSecond + group + "/memory.swap.current", mib(used));
  };
  const auto first = [](const std::string& file, const std::string& text) {
    return std::pair(kFirst + "/job/memory." + file, text);
  };
  const std::string job = "the control group /job", in_job = "0::/job\n",
                    of_job = "4:memory:/job\n";
  return {
      swapping("may_not_swap", in_job,
               {memory("/job"), usage("/job"), swap("/job", "0"), swapped("/job", 0)}, 212, job),
      swapping("may_swap_some", in_job,
               {memory("/job"), usage("/job"), swap("/job", mib(300)), swapped("/job", 100)}, 412,
               job),
      swapping("may_swap", in_job,
               {memory("/job"), usage("/job"), swap("/job", "max"), swapped("/job", 100)}, 712,
               job),
      swapping("may_not_swap_in_a_group_around_it", "0::/job/step\n",
               {memory("/job/step"), usage("/job/step"), swap("/job/step", "max"),
                swapped("/job/step", 0), swap("/job", "0"), swapped("/job", 0)},
               212, "the control group /job/step"),
      swapping("may_not_swap_in_a_group_inside", "0::/job/step\n",
               {swap("/job/step", "0"), swapped("/job/step", 0), memory("/job"), usage("/job")},
               212, job),
      swapping("may_not_swap_on_a_full_machine", in_job, {swap("/job", "0"), swapped("/job", 0)},
               1000, "the machine"),
      swapping("prefers_not_to_swap", in_job,
               {{"/proc/sys/vm/swappiness", "0\n"}, memory("/job"), usage("/job")}, 212, job),
      swapping("first_kind_may_not_swap", of_job,
               {first("limit_in_bytes", mib(512)), first("usage_in_bytes", mib(300)),
                first("memsw.limit_in_bytes", mib(512)), first("memsw.usage_in_bytes", mib(300)),
                first("stat", "total_inactive_file 1048576\n")},
               213, job),
      swapping("first_kind_may_swap_some", of_job,
               {first("limit_in_bytes", mib(300)), first("usage_in_bytes", mib(300)),
                first("memsw.limit_in_bytes", mib(512)), first("memsw.usage_in_bytes", mib(300))},
               212, job),
      swapping("first_kind_prefers_not_to_swap", of_job,
               {first("limit_in_bytes", mib(512)), first("usage_in_bytes", mib(300)),
                first("swappiness", "0")},
               212, job),
  };
}

class MemoryLeftOf : public ::testing::TestWithParam<Machine> {};
INSTANTIATE_TEST_SUITE_P(All, MemoryLeftOf, ::testing::ValuesIn(machines()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(WithSwap, MemoryLeftOf, ::testing::ValuesIn(swapping_machines()),
                         [](const auto& info) { return info.param.name; });

TEST_P(MemoryLeftOf, IsWhatTheTightestLimitLeaves) {
  char root[] = "/tmp/ringwood-memory-XXXXXX";
  ASSERT_NE(::mkdtemp(root), nullptr);
  for (const auto& [path, text] : GetParam().files) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  const MemoryLeft left = memory_left(root);
  std::filesystem::remove_all(root);
  EXPECT_EQ(left.bytes, GetParam().bytes);
  EXPECT_EQ(left.limit, GetParam().limit);
}

TEST(MemoryLeft, IsSomethingHere) {
  EXPECT_GT(memory_left().bytes, 0u);
  EXPECT_LT(memory_left().bytes, ~uint64_t{0});
}

// Against one flag per byte.
TEST(Extents, AreTheSetOfWhatWasAddedAndNotRemoved) {
  std::mt19937 random(5);
  Extents extents;
  std::vector<bool> there(200);
  for (int step = 0; step < 5000; ++step) {
    const uint64_t begin = random() % 200, end = begin + random() % (201 - begin);
    const bool adding = random() % 2 == 0;
    adding ? extents.add(begin, end) : extents.remove(begin, end);
    std::fill(there.begin() + begin, there.begin() + end, adding);
    const uint64_t from = random() % 200, to = from + random() % (201 - from);
    std::vector<Extents::Extent> in, out;
    for (uint64_t at = from; at < to; ++at) {
      auto& list = there[at] ? in : out;
      if (!list.empty() && list.back().end == at)
        ++list.back().end;
      else
        list.push_back({at, at + 1});
    }
    ASSERT_EQ(extents.within(from, to), in) << step;
    ASSERT_EQ(extents.gaps(from, to), out) << step;
    ASSERT_EQ(extents.overlap(from, to),
              static_cast<uint64_t>(std::count(there.begin() + from, there.begin() + to, true)));
  }
}

}  // namespace
}  // namespace ringwood
