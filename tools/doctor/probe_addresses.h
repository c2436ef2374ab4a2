// The exchange of UDP packets of probe.h, of one host.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/doctor/snapshot.h"
#include "transports/base/owned_fd.h"

namespace ringwood::tools::doctor {

// An address of a rail, at which this host answers; `port` 0: it could not be bound.
struct ProbeAddress {
  uint32_t address = 0;
  uint16_t port = 0;
  int mtu = 0, rail = 0;
};
std::string to_text(const std::vector<ProbeAddress>& addresses);
// Untrusted: what is not understood is left out.
std::vector<ProbeAddress> parse_probe_addresses(const std::string& text);

struct ProbeTarget {
  ProbeAddress address;
  int host = 0;
  bool small_answered = false, full_answered = false;
};

class AddressProbe final {
 public:
  // Opens a socket for each rail's IPv4 address; those of `host` as its snapshot knows them.
  explicit AddressProbe(const Snapshot& host);
  const std::vector<ProbeAddress>& addresses() const { return addresses_; }
  // Asks every target from the socket of its rail, and answers others, for that time, the same on
  // all hosts. `key`: the number of this run, which all hosts know. Each host begins with another
  // target, so that none is asked by all at once.
  void exchange(uint64_t key, std::vector<ProbeTarget>& targets, std::chrono::milliseconds time);

 private:
  void open(uint32_t address, int mtu, int rail, const std::string& interface);
  void ask(uint64_t key, std::vector<ProbeTarget>& targets);
  void answer_all(uint64_t key, std::vector<ProbeTarget>& targets, int wait_ms);
  void answer(size_t socket, uint64_t key, std::vector<ProbeTarget>& targets);

  std::vector<ProbeAddress> addresses_;
  std::vector<OwnedFd> sockets_;  // as many
};

}  // namespace ringwood::tools::doctor
