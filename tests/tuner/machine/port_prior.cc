// What is known of ports before anything is measured: a pretended sysfs.
#include "collectives/tuner/machine/port_prior.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/processes.h"

namespace ringwood::testing {
namespace {

class Sysfs {
 public:
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  void device(const std::string& name, const std::string& state, const std::string& speed) const {
    write("class/net/" + name + "/operstate", state);
    write("class/net/" + name + "/speed", speed);
    write("class/net/" + name + "/device/vendor", "0x15b3");
  }
  void port(const std::string& name, const std::string& state, const std::string& rate) const {
    write("class/infiniband/" + name + "/state", state);
    write("class/infiniband/" + name + "/rate", rate);
  }
  std::optional<PortPrior> prior() const { return port_prior(root_.string()); }
  ~Sysfs() { std::filesystem::remove_all(root_); }

 private:
  const TemporaryPath path_;
  const std::filesystem::path root_ = path_.path() + ".sys";
};

TEST(PortPrior, IsOfTheFastestDeviceThatIsUp) {
  const Sysfs sys;
  EXPECT_FALSE(sys.prior());
  sys.write("class/net/veth0/operstate", "up");  // has no device
  sys.write("class/net/veth0/speed", "10000");
  sys.device("eth0", "up", "-1");
  sys.device("eth1", "down", "100000");
  EXPECT_FALSE(sys.prior());
  sys.device("eth2", "up", "1000");
  sys.device("eth3", "up", "25000");
  ASSERT_TRUE(sys.prior());
  EXPECT_DOUBLE_EQ(sys.prior()->rate, 25e9 / 8);
  EXPECT_EQ(sys.prior()->rails, 1);
  EXPECT_FALSE(sys.prior()->rdma);
}

TEST(PortPrior, CountsActivePortsAsRails) {
  const Sysfs sys;
  sys.device("eth0", "up", "400000");
  sys.port("mlx5_0/ports/1", "4: ACTIVE", "100 Gb/sec (4X EDR)");
  sys.port("mlx5_1/ports/1", "4: ACTIVE", "50 Gb/sec (2X EDR)");
  sys.port("mlx5_2/ports/1", "1: DOWN", "10 Gb/sec (4X SDR)");
  ASSERT_TRUE(sys.prior());
  EXPECT_DOUBLE_EQ(sys.prior()->rate, 150e9 / 8);
  EXPECT_TRUE(sys.prior()->rdma);
  EXPECT_EQ(sys.prior()->rails, 2);
}

}  // namespace
}  // namespace ringwood::testing
