// Comparisons of hosts: versions, settings, environment.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>

#include "tools/doctor/collect/tree.h"
#include "tools/doctor/rules/counter_names.h"
#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

using Value = std::function<std::string(const Snapshot&)>;

std::optional<Odd> odd_in(const Snapshots& all, const Value& value) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Snapshot& one : all) values.emplace_back(one.host, value(one));
  return odd_ones(values);
}

void compare(const Snapshots& all, const std::string& what, Sink& sink, const Value& value) {
  if (const auto odd = odd_in(all, value))
    sink.add(hosts_of(*odd), fmt::format("{}: {}", what, print_odd(*odd)));
}

void compare_versions(const Snapshots& all, Sink& sink) {
  compare(all, "ringwood", sink, [](const Snapshot& one) { return one.system.version; });
}

void compare_kernels(const Snapshots& all, Sink& sink) {
  compare(all, "kernel", sink, [](const Snapshot& one) { return one.system.kernel; });
}

// What may be different on each rank or host.
bool is_own(const std::string& name) {
  constexpr std::array kOwn = {"RANK", "LOCAL_RANK", "RINGWOOD_HOST_ID", "MASTER_ADDR",
                               "MASTER_PORT", "RINGWOOD_NUMA_NODE", "RINGWOOD_LOG",
                               "RINGWOOD_BINARY", "RINGWOOD_SOCKET_IFNAME", "NCCL_DEBUG_FILE",
                               "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "RINGWOOD_VERBS_DEVICES",
                               "NCCL_IB_HCA", "LOCAL_WORLD_SIZE", "UCX_NET_DEVICES",
                               // hosts-dscp compares what they come to.
                               "RINGWOOD_VERBS_TRAFFIC_CLASS", "NCCL_IB_TC"};
  return std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end();
}

void compare_environments(const Snapshots& all, Sink& sink) {
  std::set<std::string> names;
  for (const Snapshot& one : all)
    for (const auto& [name, value] : one.process.environment)
      if (!is_own(name)) names.insert(name);
  for (const std::string& name : names)
    compare(all, name, sink, [&](const Snapshot& one) -> std::string {
      const bool read = one.process.uid.has_value() || !one.process.environment.empty();
      const auto found = one.process.environment.find(name);
      return found != one.process.environment.end() ? "\"" + found->second + "\""
             : read                                 ? "none"
                                                    : "";
    });
}

void compare_iommu(const Snapshots& all, Sink& sink) {
  compare(all, "IOMMU", sink, [](const Snapshot& one) -> std::string {
    std::string words;
    for (const std::string& word : words_of(one.system.command_line))
      if (word.find("iommu") != word.npos) words += (words.empty() ? "" : " ") + word;
    return one.system.command_line.empty() ? "" : words.empty() ? "no setting" : words;
  });
  for (const char* name : {"arp_ignore", "arp_announce", "rp_filter"})
    compare(all, fmt::format("{} of the rails", name), sink, [&](const Snapshot& one) {
      std::set<std::string> values;
      for (const RdmaPort* port : rails(one))
        if (const NetInterface* interface = find_interface(one, port->interface))
          if (const auto found = interface->settings.find(name); found != interface->settings.end())
            values.insert(std::to_string(found->second));
      return fmt::format("{}", fmt::join(values, ","));
    });
}

std::string family_of(const Snapshot& one) {
  bool v4 = false, v6 = false;
  for (const NetInterface& interface : one.interfaces) {
    if (interface.name == "lo" || is_container_interface(interface.name)) continue;
    for (const std::string& address : interface.addresses) {
      if (parse_ipv4(address))
        v4 = true;
      else if (!begins_with(address, "fe80"))
        v6 = true;
    }
  }
  return v4 && v6 ? "both" : v4 ? "IPv4" : v6 ? "IPv6" : "";
}

void compare_families(const Snapshots& all, Sink& sink) {
  std::string v4, v6;
  for (const Snapshot& one : all) {
    const std::string family = family_of(one);
    if (family == "IPv4") v4 = one.host;
    if (family == "IPv6") v6 = one.host;
  }
  if (!v4.empty() && !v6.empty())
    sink.add(v4 + ", " + v6, fmt::format("{} has IPv4 addresses only, {} IPv6 only", v4, v6));
}

// The largest share of the time in which a host was paused, or paused others; and by which counter.
struct Paused {
  double share = 0;
  std::string counter;
};
Paused longest_pause(const Snapshot& snapshot, bool received) {
  Paused most;
  if (snapshot.seconds.value_or(0) <= 0) return most;
  for (const Rise& rise : snapshot.rises) {
    const double share = static_cast<double>(rise.amount) / 1e6 / *snapshot.seconds;
    if (counts_pauses(rise.counter) == received && share > most.share)
      most = {share, fmt::format("{} {} +{} us ({:.1f} % of the time)", rise.where, rise.counter,
                                 rise.amount, 100 * share)};
  }
  return most;
}

// Those that send pauses, where others receive them.
void compare_pauses(const Snapshots& all, Sink& sink) {
  constexpr double kSome = 0.01;
  std::string victims;
  for (const Snapshot& one : all)
    if (longest_pause(one, true).share >= kSome)
      victims += (victims.empty() ? "" : ", ") + one.host;
  if (victims.empty()) return;
  for (const Snapshot& one : all)
    if (const Paused sent = longest_pause(one, false); sent.share >= kSome)
      sink.add(one.host,
               fmt::format("{} pauses: {}; paused are {}", one.host, sent.counter, victims));
}

// All looked at their clocks when they had met, which takes some milliseconds.
void compare_clocks(const Snapshots& all, Sink& sink) {
  constexpr double kTooMuch_s = 1;
  std::vector<double> clocks;
  for (const Snapshot& one : all)
    if (one.system.clock_s) clocks.push_back(*one.system.clock_s);
  if (clocks.size() < 2) return;
  std::nth_element(clocks.begin(), clocks.begin() + clocks.size() / 2, clocks.end());
  const double middle = clocks[clocks.size() / 2];
  for (const Snapshot& one : all) {
    const double away = one.system.clock_s.value_or(middle) - middle;
    if (std::abs(away) > kTooMuch_s)
      sink.add(one.host,
               fmt::format("the clock of {} is {:.1f} s {} that of the middle host", one.host,
                           std::abs(away), away > 0 ? "ahead of" : "behind"),
               {"chronyc makestep  # and see chronyc sources"});
  }
}

// Each host may be well by itself: the senders are others than the receivers.
void compare_notifications(const Snapshots& all, Sink& sink) {
  constexpr int64_t kFew = 10;
  int64_t sent = 0, handled = 0;
  std::string hosts;
  for (const Snapshot& one : all) {
    int64_t own = 0;
    for (const RdmaPort* port : rails(one)) {
      if (!one.seconds || !has_any(port->counters, kNotificationsHandled)) return;
      for (const char* name : kNotificationsSent) own += rise(one, name_of(*port), name);
      for (const char* name : kNotificationsHandled) handled += rise(one, name_of(*port), name);
    }
    if (own > 0) hosts += (hosts.empty() ? "" : ", ") + one.host;
    sent += own;
  }
  if (sent >= kFew && handled == 0)
    sink.add(hosts, fmt::format("{} notifications of congestion were sent, and no host handled one",
                                sent));
}

constexpr Rule kRules[] = {
    {.id = "hosts-clock",
     .severity = Severity::warning,
     .title = "clocks of hosts differ by more than a second",
     .why = "Logs and events of hosts cannot be put in order, and certificates and leases expire "
            "early. Ringwood's own traces measure the difference and correct it.",
     .fix = "one time server for all hosts (chrony, ntpd)",
     .compare = compare_clocks},
    {.id = "hosts-notifications",
     .severity = Severity::warning,
     .title = "receivers ask senders to slow down (CNP), and no host does",
     .why = "Notifications are lost on their way, or no sender reacts: congestion control has no "
            "effect, and only PFC is left.",
     .fix = "CNPs with DSCP 48 and a strict priority on all switches; enable roce_rp on senders",
     .where = Where::rdma,
     .needs = {"second-sample", "hw-counters", "ecn-counters"},
     .compare = compare_notifications},
    {.id = "hosts-version",
     .severity = Severity::warning,
     .title = "hosts run different versions of ringwood",
     .why = "Ranks of different versions may refuse each other, or choose differently.",
     .fix = "install one version everywhere",
     .compare = compare_versions},
    {.id = "hosts-kernel",
     .severity = Severity::note,
     .title = "hosts run different kernels",
     .why = "Drivers and defaults differ with the kernel; worth knowing where one host is slower.",
     .fix = "one image for all hosts",
     .compare = compare_kernels},
    {.id = "hosts-environment",
     .severity = Severity::warning,
     .title = "a variable of communication differs between hosts",
     .why = "A launcher that passes the environment of one host only, or a profile that differs. "
            "Names of ranks, hosts, interfaces and devices may differ and are not compared.",
     .fix = "set it on all hosts, through the launcher (mpirun -x, srun --export)",
     .needs = {"environment"},
     .compare = compare_environments},
    {.id = "hosts-settings",
     .severity = Severity::warning,
     .title = "kernel settings of the rails, or the IOMMU, differ between hosts",
     .why = "One host of a cluster that was set up by hand.",
     .fix = "apply the settings of the other hosts",
     .needs = {"command-line"},
     .compare = compare_iommu},
    {.id = "hosts-address-family",
     .severity = Severity::error,
     .title = "hosts have no family of addresses in common",
     .why = "One has IPv4 addresses only, another IPv6 only: they cannot meet.",
     .fix = "give all hosts addresses of one family",
     .needs = {"addresses"},
     .compare = compare_families},
    {.id = "host-pauses",
     .severity = Severity::error,
     .title = "one host pauses the others",
     .why = "Its card cannot take what it gets and tells the switch to wait; every sender to it "
            "slows down.",
     .fix = "look at pcie-link, numa-far and receiver-slow on that host",
     .where = Where::rdma,
     .needs = {"second-sample", "ethtool-statistics", "pause-counters"},
     .covers = {"pause-storm"},
     .covers_all_hosts = true,
     .compare = compare_pauses},
};

}  // namespace

std::span<const Rule> host_rules() { return kRules; }

}  // namespace ringwood::tools::doctor
