// The file of a host's parameters.
#include "collectives/tuner/machine/calibrate.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/support/connection.h"
#include "tests/support/errors.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

class CalibrationFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "ringwood-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override {
    ::chmod(directory_.c_str(), 0700);
    std::filesystem::remove_all(directory_);
  }
  std::string directory_;
};

MachineModel marked() {
  MachineModel f;
  f.post = 0.123456e-6;
  return f;
}

TEST_F(CalibrationFile, IsReadBackAndIsPrivate) {
  const std::string path = calibration_path(directory_ + "/a/b");
  MachineModel back;
  EXPECT_FALSE(read_calibration(path, back));
  ASSERT_TRUE(write_calibration(path, marked()));
  ASSERT_TRUE(read_calibration(path, back));
  EXPECT_EQ(back, marked());
  EXPECT_EQ(calibration(directory_ + "/a/b", CalibrationUse::keep), marked());
  EXPECT_EQ(calibration(directory_ + "/a/b", CalibrationUse::off), MachineModel{});
  struct stat what {};
  ASSERT_EQ(::stat(path.c_str(), &what), 0);
  EXPECT_EQ(what.st_mode & 0777, 0600u);
  // Nothing is left beside it.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_ + "/a/b"), {}), 1);
}

TEST_F(CalibrationFile, DamageIsNoticed) {
  const std::string path = calibration_path(directory_);
  ASSERT_TRUE(write_calibration(path, marked()));
  std::string good;
  std::getline(std::ifstream(path), good, '\0');
  const auto put = [&](const std::string& text) { std::ofstream(path, std::ios::trunc) << text; };
  MachineModel back;
  for (size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = bad[at] == '1' ? '2' : '1';
    put(bad);
    EXPECT_FALSE(read_calibration(path, back)) << at;
    put(good.substr(0, at));
    EXPECT_FALSE(read_calibration(path, back)) << at;
  }
  put(good + "x");
  EXPECT_FALSE(read_calibration(path, back));
  put(good);
  EXPECT_TRUE(read_calibration(path, back));
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/zero", path);
  EXPECT_FALSE(read_calibration(path, back));
}

TEST_F(CalibrationFile, UnwritablePlacesAreTolerated) {
  EXPECT_FALSE(write_calibration("/proc/none/such", marked()));
  std::ofstream(directory_ + "/file") << "";
  EXPECT_FALSE(write_calibration(directory_ + "/file/x", marked()));
}

TEST_F(CalibrationFile, MeasuresOnceAndFindsAMachine) {
  const MachineModel f = calibration(directory_, CalibrationUse::keep);
  MachineModel kept;
  if (read_calibration(calibration_path(directory_), kept)) {  // not on a machine too busy for it
    EXPECT_EQ(kept, f);
    EXPECT_EQ(calibration(directory_, CalibrationUse::keep), f);
  }
  EXPECT_GE(f.cores, 1);
  EXPECT_TRUE(f.hosts.empty());
  EXPECT_GE(f.l3_bytes, f.l2_bytes);
  for (const Rates& rates : {f.copy, f.reduce}) {
    EXPECT_LE(rates.dram, rates.l3);
    EXPECT_LE(rates.l3, rates.l2);
    EXPECT_GT(rates.dram, 1e6);  // slower than any memory, even under a sanitizer
    EXPECT_LT(rates.l2, 1e13);
  }
  EXPECT_GE(f.memory, f.copy.dram);
  EXPECT_GT(f.latency, 0);
  EXPECT_LT(f.latency, 1e-2);
  EXPECT_GT(f.yield, 0);
}

// About as much goes into a connection that nobody reads from.
TEST(MeasureSockets, AConnectionBuffersWhatItIsSaidTo) {
  MachineModel machine;
  machine.net.eager = 1;
  measure_sockets(machine, std::chrono::milliseconds(200));
  const auto [here, there] = connection();
  const std::vector<char> data(128 << 10);
  double buffered = 0;
  for (ssize_t some = 1; some > 0 && buffered < 64 << 20; buffered += std::max<double>(0, some))
    some = ::send(here.get(), data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  EXPECT_GT(machine.net.eager, buffered / 2);
  EXPECT_LT(machine.net.eager, buffered * 2);
}

}  // namespace
}  // namespace ringwood
