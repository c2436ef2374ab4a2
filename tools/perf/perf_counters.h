// The RDMA port counters of this host that show a network losing, reordering or stalling packets.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ringwood::tools {

class NetworkCounters final {
 public:
  // Reads them now. `root` is where ports are found; a folder that is not there has none.
  explicit NetworkCounters(std::string root = "/sys/class/infiniband");
  // What has risen since, one line per port: "rxe0/1: out_of_seq_request +29, rcvd_seq_err +16".
  // Drivers may refresh them only every few milliseconds.
  std::vector<std::string> risen() const;

 private:
  using Values = std::map<std::string, std::map<std::string, int64_t>>;  // port, counter
  Values read() const;

  const std::string root_;
  const Values before_;
};

}  // namespace ringwood::tools
