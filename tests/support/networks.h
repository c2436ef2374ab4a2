// Hosts as network namespaces of this one; needs root and iproute2.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tests/support/processes.h"
#include "transports/base/error.h"

namespace ringwood::testing {

inline bool may_make_networks() {
  Processes one(1, [](int, const Reporter& reporter) {
    bool made = unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
                system("ip link add probe0 type veth peer name probe1 2>/dev/null") == 0;
    reporter.say(made ? "yes" : "no");
  });
  return one.line(0) == "yes";
}

#define SKIP_UNLESS_NETWORKS() \
  if (!may_make_networks()) GTEST_SKIP() << "needs root and iproute2, for network namespaces"

// Runs shell commands in a new network and mount namespace of this process.
inline void enter_network(const std::string& commands, const std::string& hosts = "") {
  if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) throw std::runtime_error(system_message("unshare"));
  mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  if (!hosts.empty()) {
    TemporaryPath file;
    FILE* out = fopen(file.path().c_str(), "w");
    fputs(hosts.c_str(), out);
    fclose(out);
    if (mount(file.path().c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) != 0) {
      throw std::runtime_error(system_message("mount"));
    }
  }
  // Without duplicate address detection an IPv6 address can be used at once.
  std::string all =
      "set -e; echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad; ip link set lo up; " + commands;
  if (system(all.c_str()) != 0) throw std::runtime_error("cannot set up the network: " + commands);
}

// An interface that is up and leads nowhere. Its other end looks like a container's, so no rank
// offers it.
inline std::string unconnected(const std::string& name, const std::string& addresses) {
  std::string end = "veth" + name;
  std::string commands = "ip link add " + name + " type veth peer name " + end + "; ip link set " +
                         end + " up; ip link set " + name + " up; ";
  for (size_t at = 0; at < addresses.size();) {
    size_t space = std::min(addresses.find(' ', at), addresses.size());
    const std::string one = addresses.substr(at, space - at);
    // The kernel clears "tentative" later, in a work queue, even where it detects no duplicates.
    const bool v6 = one.find(':') != one.npos;
    commands += "ip addr add " + one + " dev " + name + (v6 ? " nodad; " : "; ");
    at = space + 1;
  }
  return commands;
}

// Two processes in networks of their own with a cable between them. Its ends are eth0 and ens3:
// names differ between hosts.
struct Host {
  std::string addresses, decoys, hosts;  // addresses: with spaces between them
};

inline void plug_in(int rank, const Host& host, const Reporter& reporter) {
  enter_network(host.decoys, host.hosts);
  reporter.say(std::to_string(getpid()));
  reporter.await_go();  // the cable is there
  std::string name = rank == 0 ? "eth0" : "ens3";
  std::string commands = "set -e; ip link set " + name + " up; ";
  for (size_t at = 0; at < host.addresses.size();) {
    size_t space = std::min(host.addresses.find(' ', at), host.addresses.size());
    std::string one = host.addresses.substr(at, space - at);
    bool v6 = one.find(':') != one.npos;
    commands += "ip addr add " + one + " dev " + name + (v6 ? " nodad; " : "; ");
    at = space + 1;
  }
  // Until the other end is up as well, it is no interface that anybody would choose.
  commands += "for i in $(seq 500); do ip link show dev " + name +
              " | grep -q LOWER_UP && exit 0; sleep 0.01; done; exit 1";
  if (system(commands.c_str()) != 0)
    throw std::runtime_error("cannot set the address " + host.addresses);
}

inline void connect_cable(Processes& hosts) {
  std::string a = hosts.line(0), b = hosts.line(1);
  std::string command = "ip link add rwcable" + a + " type veth peer name rwcable" + b +
                        " && ip link set rwcable" + a + " netns " + a +
                        " name eth0 && ip link set rwcable" + b + " netns " + b + " name ens3";
  ASSERT_EQ(system(command.c_str()), 0);
  hosts.go_all();
}

}  // namespace ringwood::testing
