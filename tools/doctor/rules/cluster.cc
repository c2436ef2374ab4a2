// What --cluster says of the hosts, beside what is there.
#include <fmt/format.h>

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
  if (wanted.nic <= 0 || std::ranges::any_of(found, [](const RdmaPort* port) {
        return is_software(*port) || !port->rate_gbits;
      }))
    return;
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

}  // namespace ringwood::tools::doctor
