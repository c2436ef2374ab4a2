#include "collectives/status/port_counters.h"

#include <fmt/format.h>

#include <algorithm>

#include "transports/base/input_file.h"

namespace ringwood {
namespace {

// Of Mellanox's drivers and of Soft-RoCE: what a sender repeats, or a receiver asks for again.
constexpr const char* kRepeats[] = {"local_ack_timeout_err", "packet_seq_err",
                                    "implied_nak_seq_err",   "roce_adp_retrans",
                                    "completer_retry_err",   "rcvd_seq_err"};
// InfiniBand counts data in words of 4 bytes.
constexpr uint64_t kWord = 4;

uint64_t number_in(const std::string& path) {
  uint64_t value = 0;
  InputFile(path) >> value;
  return value;
}

PortCount count(const std::string& root, const std::string& port) {
  PortCount found;
  const size_t slash = port.find('/');
  if (slash == std::string::npos) return found;
  const std::string at = fmt::format("{}/class/infiniband/{}/ports/{}/", root,
                                     port.substr(0, slash), port.substr(slash + 1));
  std::string state;
  std::getline(InputFile(at + "state"), state);
  found.up = state.empty() || state.find("ACTIVE") != std::string::npos;
  found.bytes = kWord * number_in(at + "counters/port_xmit_data");
  for (const char* name : kRepeats) found.retransmissions += number_in(at + "hw_counters/" + name);
  return found;
}

}  // namespace

PortCounters::PortCounters(const std::vector<std::string>& ports, std::string root)
    : root_(std::move(root)) {
  for (const std::string& port : ports) before_[port] = count(root_, port);
}

std::map<std::string, PortCount> PortCounters::read() const {
  std::map<std::string, PortCount> now;
  for (const auto& [port, before] : before_) {
    PortCount since = count(root_, port);
    // A counter that was set back begins anew.
    since.bytes -= std::min(since.bytes, before.bytes);
    since.retransmissions -= std::min(since.retransmissions, before.retransmissions);
    now[port] = since;
  }
  return now;
}

bool interface_is_up(const std::string& interface, const std::string& root) {
  std::string state;
  std::getline(InputFile(fmt::format("{}/class/net/{}/operstate", root, interface)), state);
  return state.empty() || state == "up" || state == "unknown";
}

}  // namespace ringwood
