#include "tools/perf/perf_counters.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace ringwood::tools {
namespace {

// Of Mellanox's driver and of Soft-RoCE. Bytes and packets tell nothing of this kind.
constexpr const char* kTelling[] = {
    "out_of_sequence",    "packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err",
    "rnr_nak_retry_err",  "out_of_buffer",  "duplicate_request",   "roce_adp_retrans",
    "roce_slow_restart",  "np_cnp_sent",    "rp_cnp_handled",      "np_ecn_marked_roce_packets",
    "out_of_seq_request", "rcvd_seq_err",   "completer_retry_err", "retry_exceeded_err",
    "rcvd_rnr_err",       "send_rnr_err",   "link_downed",
};

}  // namespace

NetworkCounters::NetworkCounters(std::string root) : root_(std::move(root)), before_(read()) {}

NetworkCounters::Values NetworkCounters::read() const {
  Values values;
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator(root_, error)) {
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", error)) {
      const std::string name =
          device.path().filename().string() + "/" + port.path().filename().string();
      for (const char* counter : kTelling) {
        int64_t value = 0;
        if (std::ifstream(port.path() / "hw_counters" / counter) >> value)
          values[name][counter] = value;
      }
    }
  }
  return values;
}

std::vector<std::string> NetworkCounters::risen() const {
  std::vector<std::string> lines;
  const Values now = read();
  for (const auto& [port, before] : before_) {
    const auto found = now.find(port);
    if (found == now.end()) continue;
    std::string line;
    for (const auto& [counter, value] : found->second) {
      const auto old = before.find(counter);
      if (old != before.end() && value > old->second)
        line += fmt::format("{}{} +{}", line.empty() ? "" : ", ", counter, value - old->second);
    }
    if (!line.empty()) lines.push_back(fmt::format("{}: {}", port, line));
  }
  return lines;
}

}  // namespace ringwood::tools
