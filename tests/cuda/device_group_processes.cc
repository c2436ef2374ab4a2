// Collectives on GPUs whose ranks are processes, on the double of the driver: descriptors travel
// between them, and one dies. Nothing here may touch the driver before the ranks are forked.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "tests/cuda/device_shapes.h"
#include "tests/support/processes.h"

namespace ringwood::testing {
namespace {

struct Folder {
  std::filesystem::path path;
  Folder() {
    char name[] = "/tmp/ringwood-device-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

TEST(DeviceGroupOfProcesses, HasTheBitsOfTheCpu) {
  const Folder folder;
  Processes ranks(3, [&](int number, const Reporter& reporter) {
    const auto group = Communicator::create(file_store(folder.path / "store"), number, 3,
                                            options_for("shm", number));
    DeviceRank rank(*group, number % 2, small());
    uint64_t seed = 100;
    for (const Shape& shape : shapes()) compare(*group, rank, shape, ++seed);
    reporter.say(::testing::Test::HasFailure() ? "wrong" : "right");
  });
  for (int number = 0; number < 3; ++number)
    EXPECT_EQ(ranks.line(number), "right") << ranks.log_of(number);
}

// CUDA_VISIBLE_DEVICES of a launcher: each sees one device, as its first one.
TEST(DeviceGroupOfProcesses, MaySeeDifferentDevices) {
  const Folder folder;
  Processes ranks(2, [&](int number, const Reporter& reporter) {
    ::setenv("CUDA_VISIBLE_DEVICES", number == 0 ? "1" : "0", 1);
    const auto group = Communicator::create(file_store(folder.path / "store"), number, 2,
                                            options_for("shm", number));
    DeviceRank rank(*group, 0, small());
    compare(*group, rank,
            {Collective::all_reduce, "direct", 1000, DataType::float32, ReduceOp::sum, 0, 2, 1}, 5);
    reporter.say(::testing::Test::HasFailure() ? "wrong" : rank.device.facts().uuid.text());
  });
  const std::string first = ranks.line(0), second = ranks.line(1);
  EXPECT_TRUE(first.starts_with("GPU-") && second.starts_with("GPU-")) << ranks.log_of(0);
  EXPECT_NE(first, second);
}

// Of the driver, at one rank, anywhere in the set-up.
TEST(DeviceGroupOfProcesses, AllFailWhereOneCannotSetUp) {
  for (const char* const call :
       {"cuModuleLoadData:1=209", "cuMemCreate:1=2", "cuMemExportToShareableHandle:1=801",
        "cuMemImportFromShareableHandle:1=999", "cuMemMap:2=2", "cuMemSetAccess:2=1"}) {
    const Folder folder;
    Processes ranks(2, [&](int number, const Reporter& reporter) {
      if (number == 1) ::setenv("FAKE_CUDA_FAIL", call, 1);
      const auto group = Communicator::create(file_store(folder.path / "store"), number, 2,
                                              options_for("shm", number));
      try {
        DeviceRank rank(*group, 0, small());
        reporter.say("no error");
      } catch (const Error& error) {
        reporter.say(error.message());
      }
      reporter.say(group->health() ? "lives" : "ended");
    });
    for (const int number : {0, 1}) {
      const std::string line = ranks.line(number);
      const std::string entry(call, std::string_view(call).find(':'));
      EXPECT_NE(line.find("rank 1: " + entry), std::string::npos) << call << ": " << line;
      EXPECT_EQ(ranks.line(number), "lives") << call;
    }
  }
}

TEST(DeviceGroupOfProcesses, NamesARankThatDied) {
  const Folder folder;
  Processes ranks(3, [&](int number, const Reporter& reporter) {
    const auto group = Communicator::create(file_store(folder.path / "store"), number, 3,
                                            options_for("shm", number));
    DeviceRank rank(*group, number % 2, small());
    DeviceCall call{Collective::all_reduce};
    call.output = rank.calls->allocate(400);
    call.count = 100;
    call.algorithm = "direct";
    reporter.say(rank.run(call) ? "ran" : "did not run");
    reporter.await_go();
    if (number == 1) ::raise(SIGKILL);
    const auto began = Clock::now();
    const Status done = rank.run(call);
    reporter.say(done ? "no error" : done.error().message());
    reporter.say(seconds_since(began) < 1.0 * kSlower ? "soon" : "late");
  });
  for (int number = 0; number < 3; ++number)
    EXPECT_EQ(ranks.line(number), "ran") << ranks.log_of(number);
  ranks.go_all();
  for (const int number : {0, 2}) {
    const std::string error = ranks.line(number);
    EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
    EXPECT_EQ(ranks.line(number), "soon");
  }
}

}  // namespace
}  // namespace ringwood::testing
