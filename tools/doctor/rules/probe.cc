// What probes find (probe.h): they add findings with these rows' ids.
#include "tools/doctor/rules/rules.h"

namespace ringwood::tools::doctor {
namespace {

constexpr Rule kRules[] = {
    {.id = "probe-slow-pair",
     .severity = Severity::error,
     .title = "a link between two hosts, or a rail, is slow",
     .why =
         "Every pair of hosts has been measured, in rounds that keep all ports busy and alone. A "
         "link with less than 75 % of what is expected is named, or the host all of whose links "
         "are slow; and where hosts have several RDMA rails, the rail that is slower than the "
         "others.",
     .fix = "look at port, cable and switch of that link; ringwood simulate --slow tells its cost",
     .needs = {"probe"}},
    {.id = "probe-unreachable",
     .severity = Severity::error,
     .title = "an address of a host's rail does not answer",
     .why = "Small UDP packets were sent from each rail to the same rail of every other host, and "
            "none came back: a missing route, ARP that goes astray, or a packet filter.",
     .fix = "see hosts-route, arp-flux and rp-filter; on purpose separated rails need no fix",
     .needs = {"probe"}},
    {.id = "probe-mtu",
     .severity = Severity::error,
     .title = "packets of the interface's full MTU vanish between two hosts",
     .why = "Both ends have the MTU, something in between has not. Small packets pass, so the "
            "connection is made, and then large messages hang: error 12, or TCP that stalls.",
     .fix = "the same MTU on every switch port between them, or a smaller one on the hosts",
     .needs = {"probe"}},
    {.id = "probe-over-tcp",
     .severity = Severity::error,
     .title = "two hosts that both have RDMA ports talk over TCP",
     .why =
         "Ranks agree on what both of them can use, and take TCP without a word where verbs fail "
         "on either side. The job runs, at a fraction of the rate. Environments that forbid "
         "verbs (env-verbs-off) are not meant.",
     .fix = "RINGWOOD_LOG=INFO makes each rank say why it does not use verbs; ringwood perf "
            "--require verbs fails where it does not",
     .needs = {"probe"}},
    {.id = "hosts-unreachable",
     .severity = Severity::error,
     .title = "a host cannot be reached by TCP from another one",
     .why =
         "Ranks could not be connected. So the first rank of each host has listened, and dialled "
         "those of the others for three seconds: nobody came, or somebody refused. Ranks listen "
         "at ports that the kernel chooses, and a packet filter, or the security group of a "
         "cloud, that opens the port of MASTER_ADDR only stops every job.",
     .fix =
         "open all TCP ports between the hosts of the job, or RINGWOOD_PORT_RANGE; if the address "
         "is of the wrong interface, set RINGWOOD_SOCKET_IFNAME",
     .needs = {"hosts"}},
};

}  // namespace

std::span<const Rule> probe_rules() { return kRules; }

std::vector<std::string> rules_of_probe() {
  std::vector<std::string> ids;
  for (const Rule& rule : kRules)
    if (rule.needs[0] == std::string_view("probe")) ids.emplace_back(rule.id);
  return ids;
}

}  // namespace ringwood::tools::doctor
