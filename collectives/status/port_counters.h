// What the kernel counts of RDMA ports and of interfaces. `root`: where /sys is; a file that is not
// there reads as 0. Thread safe: nothing changes after the constructor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ringwood {

struct PortCount {
  bool up = true;
  uint64_t bytes = 0;            // sent
  uint64_t retransmissions = 0;  // and what tells of lost packets: timeouts, gaps in the sequence
};

class PortCounters final {
 public:
  // Counts from now on. `ports`: "mlx5_0/1".
  explicit PortCounters(const std::vector<std::string>& ports = {}, std::string root = "/sys");
  // Since the constructor, by port.
  std::map<std::string, PortCount> read() const;

 private:
  std::string root_;
  std::map<std::string, PortCount> before_;
};

// Of the interface: it is up, as far as it says.
bool interface_is_up(const std::string& interface, const std::string& root = "/sys");

}  // namespace ringwood
