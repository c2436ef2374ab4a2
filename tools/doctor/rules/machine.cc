// What a host's kernel gives its ranks of processors and memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/doctor/collect/tree.h"
#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

constexpr int kStrictOvercommit = 2;

void look_governor(const Snapshot& snapshot, Sink& sink) {
  int others = 0, all = 0;
  std::vector<std::string> names;
  for (const auto& [governor, cores] : snapshot.system.governors) {
    all += cores;
    if (governor == "performance") continue;
    others += cores;
    names.push_back(governor);
  }
  if (others > 0)
    sink.add(
        snapshot.host,
        fmt::format("{} of {} cores have the governor {}", others, all, fmt::join(names, ", ")),
        {"cpupower frequency-set -g performance"});
}

void look_quota(const Snapshot& snapshot, Sink& sink) {
  const auto quota = snapshot.process.cpu_quota;
  if (!quota || *quota >= static_cast<double>(snapshot.process.cores.size())) return;
  const auto found = snapshot.process.environment.find("LOCAL_WORLD_SIZE");
  const auto ranks =
      found == snapshot.process.environment.end() ? std::nullopt : leading_number(found->second);
  if (ranks && static_cast<double>(*ranks) <= *quota) return;
  sink.add(ranks ? Severity::warning : Severity::note, snapshot.host,
           fmt::format("the control group gives the time of {:g} cores{}, of {} that it may run on",
                       *quota, ranks ? fmt::format(" to {} ranks", *ranks) : "",
                       snapshot.process.cores.size()),
           {"# Kubernetes: resources.limits.cpu of the pod; docker run --cpus"});
}

void look_overcommit(const Snapshot& snapshot, Sink& sink) {
  if (snapshot.system.overcommit == kStrictOvercommit)
    sink.add(snapshot.host, "vm.overcommit_memory is 2", {"sysctl -w vm.overcommit_memory=0"});
}

constexpr Rule kRules[] = {
    {.id = "cpu-governor",
     .severity = Severity::warning,
     .title = "cores save power: their governor is not performance",
     .why = "A core that waits for a message is clocked down, and takes up to a millisecond to "
            "come back; small messages take several times as long, and differ from each other.",
     .fix = "set the governor performance on hosts that run jobs, and keep it over a restart",
     .where = Where::rdma,
     .needs = {"governor"},
     .look = look_governor},
    {.id = "cpu-quota",
     .severity = Severity::warning,
     .title = "a control group gives the ranks less time than they have cores to run on",
     .why = "A rank that waits spins on its core. When the group's time of a period (100 ms) is "
            "used up, all its ranks stand still until the next one: some operations take tens of "
            "milliseconds more. Limits of containers do this.",
     .fix = "give the container as many whole cores as it has ranks, or set RINGWOOD_SPIN_US=0",
     .needs = {"cpu-quota", "environment"},
     .look = look_quota},
    {.id = "overcommit-strict",
     .severity = Severity::warning,
     .title = "the kernel refuses memory beyond its commit limit",
     .why = "With vm.overcommit_memory=2 memory counts when it is asked for and not when it is "
            "used. Frameworks and drivers ask for much more than they use, and fail with "
            "\"Cannot allocate memory\" while most of it is free.",
     .fix = "vm.overcommit_memory=0 on hosts that run jobs",
     .needs = {"overcommit"},
     .look = look_overcommit},
};

}  // namespace

std::span<const Rule> machine_rules() { return kRules; }

}  // namespace ringwood::tools::doctor
