// Flow and congestion control: does what we send get the priority that loses no packets?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

// The RoCE rails of cards, with their interfaces.
template <class Body>
void each_rail(const Snapshot& snapshot, const Body& body) {
  for (const RdmaPort* port : rails(snapshot)) {
    if (!is_roce(*port) || is_software(*port)) continue;
    for (const NetInterface* interface : carriers(snapshot, *port)) body(*port, *interface);
  }
}

bool has_pfc(const NetInterface& interface, size_t priority) {
  return interface.dcb && priority < interface.dcb->pfc.size() && interface.dcb->pfc[priority] != 0;
}

std::vector<int> lossless(const NetInterface& interface) {
  std::vector<int> found;
  for (size_t p = 0; p < 8; ++p)
    if (has_pfc(interface, p)) found.push_back(static_cast<int>(p));
  return found;
}

// A traffic class whose packets get that priority.
int class_for(const Dcb& dcb, int priority) {
  int dscp = 8 * priority + 2;
  bool mapped = dcb.dscp_to_priority.empty();
  for (const auto& [code, to] : dcb.dscp_to_priority) {
    if (to != priority || (mapped && code != 8 * priority + 2)) continue;
    dscp = code;
    mapped = true;
  }
  return dscp << 2 | 2;
}

void look_trust(const Snapshot& snapshot, Sink& sink) {
  each_rail(snapshot, [&](const RdmaPort& port, const NetInterface& interface) {
    const Marking marking = marking_of(snapshot, port);
    const bool tagged = interface.name.find('.') != std::string::npos;
    if (!interface.dcb || interface.dcb->trust != "pcp" || marking.dscp == 0 || tagged) return;
    sink.add(snapshot.host,
             fmt::format("{} ({}) trusts pcp, and we send DSCP {} ({})", interface.name,
                         name_of(port), marking.dscp, marking.origin),
             {fmt::format("mlnx_qos -i {} --trust dscp", interface.name)});
  });
}

void look_pfc(const Snapshot& snapshot, Sink& sink) {
  each_rail(snapshot, [&](const RdmaPort& port, const NetInterface& interface) {
    if (!interface.dcb || interface.dcb->pfc.empty()) return;
    const Marking marking = marking_of(snapshot, port);
    const auto protected_ones = lossless(interface);
    const bool global = interface.pause && (interface.pause->receive || interface.pause->send);
    if (protected_ones.empty()) {
      if (!global)
        sink.add(Severity::warning, snapshot.host,
                 fmt::format("no priority of {} ({}) has PFC, and there is no global pause",
                             interface.name, name_of(port)),
                 {fmt::format("mlnx_qos -i {} --trust dscp --pfc 0,0,0,1,0,0,0,0", interface.name),
                  fmt::format("dcb pfc set dev {} prio-pfc 3:on", interface.name)});
      return;
    }
    if (!marking.priority || has_pfc(interface, static_cast<size_t>(*marking.priority))) return;
    sink.add(snapshot.host,
             fmt::format("{} ({}): traffic class {} ({}) is DSCP {}, which has priority {}; PFC is "
                         "on for {}",
                         interface.name, name_of(port), marking.traffic_class, marking.origin,
                         marking.dscp, *marking.priority, fmt::join(protected_ones, ", ")),
             {fmt::format("export RINGWOOD_VERBS_TRAFFIC_CLASS={}",
                          class_for(*interface.dcb, protected_ones.front()))});
  });
}

void look_pause(const Snapshot& snapshot, Sink& sink) {
  each_rail(snapshot, [&](const RdmaPort& port, const NetInterface& interface) {
    if (!interface.pause || (!interface.pause->receive && !interface.pause->send)) return;
    sink.add(snapshot.host,
             fmt::format("global pause of {} ({}) is on: receive {}, send {}{}", interface.name,
                         name_of(port), interface.pause->receive ? "on" : "off",
                         interface.pause->send ? "on" : "off",
                         lossless(interface).empty() ? "" : "; PFC is on as well"),
             {fmt::format("ethtool -A {} autoneg off rx off tx off", interface.name)});
  });
}

void look_ecn(const Snapshot& snapshot, Sink& sink) {
  each_rail(snapshot, [&](const RdmaPort& port, const NetInterface& interface) {
    const Marking marking = marking_of(snapshot, port);
    if (interface.ecn.empty() || !marking.priority) return;
    const auto enabled = [&](const char* role) {
      const auto found = interface.ecn.find(fmt::format("{}/enable/{}", role, *marking.priority));
      return found == interface.ecn.end() || found->second != 0;
    };
    const bool notifies = enabled("roce_np"), reacts = enabled("roce_rp");
    if (notifies && reacts) return;
    const std::string what = notifies ? "reaction point (roce_rp) is off: it does not slow down"
                             : reacts ? "notification point (roce_np) is off: it asks nobody to "
                                        "slow down"
                                      : "notification and reaction point are both off";
    std::vector<std::string> commands;
    for (const char* role : {"roce_np", "roce_rp"})
      commands.push_back(fmt::format("echo 1 >/sys/class/net/{}/ecn/{}/enable/{}", interface.name,
                                     role, *marking.priority));
    sink.add(snapshot.host,
             fmt::format("{} ({}), priority {}: {}", interface.name, name_of(port),
                         *marking.priority, what),
             commands);
  });
}

void look_tos(const Snapshot& snapshot, Sink& sink) {
  for (const RdmaPort* port : rails(snapshot)) {
    const Marking marking = marking_of(snapshot, *port);
    if (port->cm_tos.value_or(0) == 0 || *port->cm_tos == marking.traffic_class) continue;
    sink.add(snapshot.host,
             fmt::format("default_roce_tos of {} is {} (DSCP {}); we send traffic class {} ({})",
                         name_of(*port), *port->cm_tos, *port->cm_tos >> 2, marking.traffic_class,
                         marking.origin),
             {fmt::format("export RINGWOOD_VERBS_TRAFFIC_CLASS={}", *port->cm_tos)});
  }
}

void look_forced(const Snapshot& snapshot, Sink& sink) {
  const auto setting = knob_in(snapshot, "RINGWOOD_VERBS_TRAFFIC_CLASS");
  const auto wanted = knob_number(snapshot, "RINGWOOD_VERBS_TRAFFIC_CLASS");
  if (!wanted) return;
  for (const RdmaPort* port : rails(snapshot))
    if (port->traffic_class && *port->traffic_class != *wanted)
      sink.add(snapshot.host,
               fmt::format("{}={}, and the host forces traffic class {} on {}", setting->name,
                           setting->value, *port->traffic_class, name_of(*port)),
               {fmt::format("echo {} >/sys/class/infiniband/{}/tc/{}/traffic_class", *wanted,
                            port->device, port->number)});
}

constexpr Rule kRules[] = {
    {.id = "dscp-not-trusted",
     .severity = Severity::error,
     .title = "packets are marked by DSCP, and the interface looks at the VLAN's priority",
     .why =
         "With trust pcp, packets without a VLAN tag get priority 0, whatever their DSCP is, and "
         "lose the protection of PFC.",
     .fix = "trust dscp on every host and switch port",
     .where = Where::rdma,
     .needs = {"dcb", "trust", "environment"},
     .covers = {"pfc-other-priority"},
     .look = look_trust},
    {.id = "pfc-other-priority",
     .severity = Severity::error,
     .title = "what we send gets a priority without PFC",
     .why =
         "RoCE loses most of its rate when packets are lost. PFC pauses a priority before its "
         "buffers overflow; it helps only the traffic that is in that priority: traffic class -> "
         "DSCP (traffic class / 4) -> priority -> PFC.",
     .fix =
         "set RINGWOOD_VERBS_TRAFFIC_CLASS (NCCL_IB_TC) to a class of the protected priority, or "
         "PFC on ours, on hosts and switches",
     .where = Where::rdma,
     .needs = {"dcb", "trust", "environment"},
     .look = look_pfc},
    {.id = "global-pause",
     .severity = Severity::warning,
     .title = "global pause is on",
     .why = "It stops the whole port when one receiver is slow, other jobs and storage included, "
            "and excludes PFC.",
     .fix = "turn global pause off, use PFC on one priority",
     .where = Where::rdma,
     .needs = {"pause"},
     .look = look_pause},
    {.id = "ecn-off",
     .severity = Severity::warning,
     .title = "congestion control (ECN, DCQCN) is off or one-sided on our priority",
     .why =
         "A receiver that does not notify, or a sender that does not react, leaves PFC alone with "
         "congestion: pauses spread and stop hosts that have nothing to do with it.",
     .fix = "enable notification and reaction point on our priority, ECN marking in the switches",
     .where = Where::rdma,
     .needs = {"ecn", "dcb", "trust"},
     .look = look_ecn},
    {.id = "tos-only-rdma-cm",
     .severity = Severity::warning,
     .title = "the host's RoCE type of service is set for rdma_cm only",
     .why = "default_roce_tos marks connections that rdma_cm makes. Ringwood and NCCL make queue "
            "pairs themselves and use their own traffic class.",
     .fix = "set RINGWOOD_VERBS_TRAFFIC_CLASS to the same value",
     .where = Where::rdma,
     .needs = {"environment"},
     .look = look_tos},
    {.id = "traffic-class-forced",
     .severity = Severity::warning,
     .title = "the host forces another traffic class than the job asks for",
     .why =
         "tc/N/traffic_class of a device overrides what every queue pair asks for, so counters of "
         "the expected priority stay still.",
     .fix = "ask for the same class, or remove the host's",
     .where = Where::rdma,
     .needs = {"environment"},
     .look = look_forced},
};

}  // namespace

std::span<const Rule> flow_rules() { return kRules; }

}  // namespace ringwood::tools::doctor
