// What a host's kernel gives its ranks of processors and memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/doctor/collect/tree.h"
#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

constexpr int kStrictOvercommit = 2;

double gib(int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); }

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

void look_memory(const Snapshot& snapshot, Sink& sink) {
  const GroupLimits& group = snapshot.process.group;
  std::vector<std::string> seen;
  if (is_nearly_full(group.memory_used, group.memory)) {
    std::string used =
        fmt::format("{:.4g} of {:.4g} GiB used", gib(*group.memory_used), gib(*group.memory));
    if (group.memory_shared.value_or(0) > 0)
      used += fmt::format(", {:.4g} GiB of them shared memory", gib(*group.memory_shared));
    seen.push_back(used);
  }
  if (const int64_t kills = group.memory_kills.value_or(0); kills > 0)
    seen.push_back(fmt::format("{} {} killed for lack of memory since the group was made", kills,
                               kills == 1 ? "process was" : "processes were"));
  if (!seen.empty())
    sink.add(snapshot.host, fmt::format("{}", fmt::join(seen, "; ")),
             {"# Kubernetes: resources.limits.memory of the pod; docker run --memory; "
              "sbatch --mem"});
}

void look_threads(const Snapshot& snapshot, Sink& sink) {
  const GroupLimits& group = snapshot.process.group;
  std::vector<std::string> seen;
  if (is_nearly_full(group.threads_used, group.threads))
    seen.push_back(fmt::format("{} of {} processes and threads are in use", *group.threads_used,
                               *group.threads));
  if (const int64_t times = group.threads_refused.value_or(0); times > 0)
    seen.push_back(fmt::format("the limit was met {} {}", times, times == 1 ? "time" : "times"));
  if (!seen.empty())
    sink.add(snapshot.host, fmt::format("{}", fmt::join(seen, "; ")),
             {"# kubelet: podPidsLimit; docker run --pids-limit; systemd: TasksMax"});
}

void look_huge_pages(const Snapshot& snapshot, Sink& sink) {
  constexpr double kMuch = 0.1;  // of the memory
  const SystemState& system = snapshot.system;
  if (!system.memory_bytes || !system.huge_bytes_free) return;
  if (static_cast<double>(*system.huge_bytes_free) >
      kMuch * static_cast<double>(*system.memory_bytes))
    sink.add(snapshot.host,
             fmt::format("{:.4g} of {:.4g} GiB are huge pages that nobody uses",
                         gib(*system.huge_bytes_free), gib(*system.memory_bytes)),
             {"sysctl -w vm.nr_hugepages=0  # and hugepages= of the kernel's command line"});
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
     .needs = {"cpu-quota", "control-group", "environment"},
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
    {.id = "memory-limit",
     .severity = Severity::warning,
     .title = "the control group's memory is nearly used up, or processes of it were killed",
     .why = "The kernel kills a process of a group that needs more than its limit: a rank ends "
            "without a word, and the others wait for it. Shared memory counts, that of ranks and "
            "of data loaders in /dev/shm too, though it looks like a file system with a size of "
            "its own. The page cache is not counted here: the kernel drops it.",
     .fix = "give the container or job more memory, or let it use less",
     .needs = {"memory-limit", "control-group"},
     .look = look_memory},
    {.id = "pids-limit",
     .severity = Severity::warning,
     .title = "the control group's processes and threads are nearly used up",
     .why = "Beyond pids.max of a group no process and no thread of it can start: ranks, data "
            "loaders and OpenMP fail with \"Resource temporarily unavailable\" (EAGAIN).",
     .fix = "raise the limit of the container or service, or start fewer threads",
     .needs = {"pids-limit", "control-group"},
     .look = look_threads},
    {.id = "huge-pages-idle",
     .severity = Severity::warning,
     .title = "more than a tenth of the memory is reserved in huge pages that nobody uses",
     .why = "Reserved huge pages (vm.nr_hugepages) serve only programs that ask for them. Ringwood "
            "and frameworks do not: they use transparent ones, and lack the memory.",
     .fix = "reserve fewer huge pages on hosts that run jobs",
     .needs = {"huge-pages"},
     .look = look_huge_pages},
};

}  // namespace

std::span<const Rule> machine_rules() { return kRules; }

}  // namespace ringwood::tools::doctor
