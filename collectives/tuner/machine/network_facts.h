// What a network's parameters depend on, and where they are kept.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/tuner/machine/machine_model.h"
#include "collectives/tuner/machine/probe_messages.h"
#include "transports/base/options.h"

namespace ringwood {

// This host: processor, interfaces that are up with their rate, devices with firmware and rate, in
// one line of at most kMaxFacts bytes; `transports`: those in use.
std::string host_facts(const std::string& transports);

// Equal for groups on like hosts: "network 1f... of 4 hosts". The number of hosts counts in powers
// of two, and each kind of host once.
// `rails`: ports of a host that are measured one by one.
std::string network_title(const std::vector<HostFacts>& hosts, size_t rails,
                          const Options& options);

// What was measured for this title, by this process or another one of this user, at most a week
// ago. `directory` empty: only by this process. Any thread.
std::optional<MachineModel> known_network(const std::string& directory, const std::string& title);
void keep_network(const std::string& directory, const std::string& title,
                  const MachineModel& machine);

// The exceptions of hosts that are among `names`, with their numbers there, in order. None: hosts
// of one name, as containers may have it, cannot be told apart.
std::optional<std::vector<HostException>> exceptions_among(
    const std::vector<HostException>& exceptions, const std::vector<std::string>& names);

}  // namespace ringwood
