// From what the hosts measured (probe.h) to the parameters of the network. Pure.
#pragma once

#include <string>
#include <vector>

#include "collectives/tuner/machine/machine_model.h"
#include "collectives/tuner/machine/probe_messages.h"

namespace ringwood {

// Of all hosts, by host.
struct ProbeResults {
  std::vector<ProbeReport> ping, alone, near, far, busy;
  // By rail but for the first, of which the others are: where each rank uses one.
  struct Rail {
    std::vector<ProbeReport> near, far;
  };
  std::vector<Rail> rails;
};

// The steps of a stage for all hosts. `leaders`: by host, its rank in the probe. `leaves`: by host,
// or empty. `alone`: the reports of that stage, by host, or empty before it. Near pairs are on the
// same leaf switch and far ones on different ones, as far as the numbers of hosts allow. Both ends
// of a pair send equally much, so that both are busy until the end.
std::vector<ProbeStep> probe_steps(ProbeStage stage, const std::vector<int>& leaders,
                                   const std::vector<int>& leaves,
                                   const std::vector<ProbeReport>& alone);

// The upper median of the positive values; 0 without one.
double median_of(std::vector<double> values);
double median_latency(const std::vector<ProbeReport>& reports);
double median_rate(const std::vector<ProbeReport>& reports);

// The rate, or 0 where it is impossible: no network moves data faster than the host's memory, where
// a copy moves it twice, or than a core copies what is in its cache. Starved machines read that.
double possible_rate(double rate, const MachineModel& machine);

// As HostException::name has it.
std::string plain_name(std::string name);

// Hosts on each set of cores, on average; `cores`: by host, equal for those that share them.
int hosts_sharing(const std::vector<std::string>& cores);

// Sets near, far, rails and exceptions of machine.net, whose leaves are those of the steps.
// `names`: by host. A host, or one of its rails, is an exception where both of its paths out, or
// both of its paths in, have less than kException of the median rate.
// Where the ranks sleep while they wait, as hosts that share their cores should, what a message
// takes of a core is what it took in the probe, with waking up; a rank that spins saves that.
void use_results(MachineModel& machine, const ProbeResults& results,
                 const std::vector<std::string>& names, bool sleeps);
inline constexpr double kException = 0.8;

// Seconds one way that the probe would have measured on the near path: of `machine`, whose network
// use_results() has set with this `sleeps`.
double ping_of(const MachineModel& machine, bool sleeps);

}  // namespace ringwood
