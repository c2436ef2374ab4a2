// Hosts of a list, without a launcher: ssh starts this command on each, and what it says is
// compared.
//
// First each host is looked at by itself, all at once, so that a host that does not answer, or none
// that reaches another, leaves what is known of the rest. For --probe those that answered are then
// started as a job of one rank a host, whose rank 0 tells what all have found.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tools/doctor/all_hosts.h"

namespace ringwood::tools::doctor {

struct SshHosts {
  std::vector<std::string> hosts;          // remote/host_list.h
  std::vector<std::string> ssh = {"ssh"};  // and its options
  std::string command;                     // that is `ringwood` there
  std::chrono::milliseconds limit{60000};  // for a host to answer, beyond the watch
};

// Throws Error(system) if ssh cannot be started.
Outcome examine_by_ssh(const Examination& what, const SshHosts& hosts,
                       const std::function<void(const std::string&)>& progress);

// On such a host: writes the outcome to standard output (relay.h).
void print_relay(const Outcome& outcome);

}  // namespace ringwood::tools::doctor
