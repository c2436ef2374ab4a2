// What --cluster says of the hosts, beside what is there.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

// Rates of ports are those of their signal; less than this part of the file's is a slower link.
constexpr double kAsFast = 0.95;
constexpr double kBitsOfAByte = 8;

bool has_rdma(const Snapshot& snapshot) {
  return has_verbs(snapshot) && verbs_off(snapshot).empty();
}

bool tells_rates(const std::vector<const RdmaPort*>& ports) {
  return std::ranges::none_of(
      ports, [](const RdmaPort* port) { return is_software(*port) || !port->rate_gbits; });
}

void look_cluster(const Snapshot& snapshot, Sink& sink) {
  const ExpectedCluster& wanted = sink.wishes().cluster;
  const auto found = rails(snapshot);
  if (wanted.rdma && !has_rdma(snapshot))
    return sink.add(Severity::error, snapshot.host,
                    "the file says rdma = true, and no RDMA port can be used");
  if (!has_rdma(snapshot)) return;
  if (wanted.rails > 0 && wanted.rails != std::ssize(found))
    sink.add(snapshot.host, fmt::format("{} active RDMA ports, and rails = {} in the file",
                                        found.size(), wanted.rails));
  if (wanted.nic <= 0 || !tells_rates(found)) return;
  double gigabits = 0;
  for (const RdmaPort* port : found) gigabits += *port->rate_gbits;
  if (const double planned = wanted.nic * kBitsOfAByte / 1e9; gigabits < kAsFast * planned)
    sink.add(snapshot.host,
             fmt::format("{:g} Gbit/s in {} ports, and nic = {:g} Gbit/s in the file", gigabits,
                         found.size(), planned));
}

void compare_cluster(const Snapshots& all, Sink& sink) {
  const int wanted = sink.wishes().cluster.hosts;
  if (wanted == 0 || wanted == std::ssize(all)) return;
  std::string names;
  for (const Snapshot& one : all) names += (names.empty() ? "" : ", ") + one.host;
  sink.add(Severity::error, names,
           fmt::format("{} hosts were looked at, and the file has {}", all.size(), wanted));
}

constexpr Rule kRules[] = {
    {.id = "cluster-file",
     .severity = Severity::warning,
     .title = "a host, its ports or their rates are not what --cluster says",
     .why = "A job that gets fewer or slower ports than its plan runs at the rate of the worst "
            "host; and what explain and simulate predict for the file is not this cluster's.",
     .fix = "repair the ports of those hosts, or change the file",
     .look = look_cluster,
     .compare = compare_cluster},
};

}  // namespace

std::span<const Rule> cluster_rules() { return kRules; }

std::vector<NotChecked> not_checked_of_cluster(const Snapshots& all,
                                               const ExpectedCluster& wanted) {
  std::vector<NotChecked> missed;
  const auto add = [&](const std::string& what, const char* reason, const std::string& host) {
    missed.push_back({what + " of --cluster", reason, host, {kRules[0].id}});
  };
  for (const Snapshot& one : all) {
    const bool rdma = has_rdma(one);
    if (!rdma && wanted.rails > 0) add("rails", "no RDMA port of this host can be used", one.host);
    if (!rdma && wanted.nic > 0) add("nic", "no RDMA port of this host can be used", one.host);
    if (rdma && wanted.nic > 0 && !tells_rates(rails(one)))
      add("nic", "a port of this host does not tell its rate", one.host);
  }
  if (wanted.hosts > 1 && all.size() == 1)
    add("hosts", "one host was looked at; --ssh or --all-hosts look at several", all[0].host);
  if (!wanted.others.empty())
    add(fmt::format("{}", fmt::join(wanted.others, ", ")), "it is for predictions", "");
  return missed;
}

}  // namespace ringwood::tools::doctor
