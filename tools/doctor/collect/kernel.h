// What only the kernel of this machine can be asked, by ioctl and netlink: drivers, statistics,
// pause and FEC of an interface, data center bridging, addresses.
//
// Every call is bounded: by the sizes that the kernel tells, up to 16,384 statistics, and for
// netlink by a second. Failures are a sentence in `why`, never an exception; "Operation not
// supported" is one of them. Any thread.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/snapshot.h"

namespace ringwood::tools::doctor {

struct DriverInfo {
  std::string driver, firmware, pci;
};
std::optional<DriverInfo> ask_driver(const std::string& interface, std::string& why);
std::optional<Counters> ask_statistics(const std::string& interface, std::string& why);
std::optional<Pause> ask_pause(const std::string& interface, std::string& why);
std::optional<std::string> ask_fec(const std::string& interface, std::string& why);
std::optional<Dcb> ask_dcb(const std::string& interface, std::string& why);
// Of IPv4, beyond the three that the kernel itself has: "100: lookup 7".
std::optional<std::vector<std::string>> ask_policy_rules(std::string& why);
// With their prefix lengths, of all interfaces of this network namespace.
std::map<std::string, std::vector<std::string>> ask_addresses();
// The numeric addresses that a name means here; empty: none, with `why`.
std::vector<std::string> ask_name(const std::string& name, std::string& why);

// What a program prints. It gets no input, `limit`, and no more than a MiB. nullopt with `why`: it
// is not there, or it failed.
// `failure`: of a program that ended by itself and failed.
struct ProgramFailure {
  int code = 0;      // by which it ended
  std::string text;  // that it printed
};
std::optional<std::string> ask_program(const std::vector<std::string>& words, std::string& why,
                                       ProgramFailure* failure = nullptr,
                                       std::chrono::milliseconds limit = std::chrono::seconds(1));

}  // namespace ringwood::tools::doctor
