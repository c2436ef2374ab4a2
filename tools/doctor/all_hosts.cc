#include "tools/doctor/all_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "tools/doctor/unmet.h"
#include "tools/gather.h"
#include "tools/perf/perf_operations.h"
#include "tools/remote/remote_commands.h"
#include "transports/base/clock.h"
#include "transports/base/error.h"
#include "transports/base/host.h"
#include "transports/base/options.h"

namespace ringwood::tools::doctor {
namespace {

// With what counters did since `first`, which was taken then, and watch_s ago at least.
Snapshot examine_again(const Examination& what, const Snapshot& first, Clock::time_point began,
                       const std::function<void(const std::string&)>& progress) {
  const auto left_s = [&] { return what.watch_s - seconds_since(began); };
  while (left_s() > 0) {
    if (progress) progress(fmt::format("watching counters, {:.0f} s left", left_s()));
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left_s(), 0.5)));
  }
  return with_rises(first, collect(what.collect), seconds_since(began));
}

struct HostOfJob {
  std::string name;  // unlike any other's
  std::vector<int> ranks;
};

// Hosts of one name, as network namespaces of one machine are, get the name that the job gave them,
// or a number.
std::vector<HostOfJob> find_hosts(Communicator& group, const std::string& host_id, size_t& mine) {
  const auto texts =
      gather_texts(group, host_token() + ' ' + host_id + '\n' + host_name() + '\n' + host_id);
  std::vector<HostOfJob> hosts;
  std::map<std::string, size_t> known;
  std::map<std::string, int> times;
  std::vector<std::string> ids;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const size_t first = texts[rank].find('\n'), second = texts[rank].find('\n', first + 1);
    const auto [it, fresh] = known.try_emplace(texts[rank], hosts.size());
    if (fresh) {
      hosts.push_back({texts[rank].substr(first + 1, second - first - 1), {}});
      ids.push_back(texts[rank].substr(second + 1));
      ++times[hosts.back().name];
    }
    hosts[it->second].ranks.push_back(static_cast<int>(rank));
    if (static_cast<int>(rank) == group.rank()) mine = it->second;
  }
  for (size_t i = 0; i < hosts.size(); ++i)
    if (times[hosts[i].name] > 1)
      hosts[i].name = ids[i].empty() ? fmt::format("{}#{}", hosts[i].name, i) : ids[i];
  return hosts;
}

// Of a rank whose host another rank looks at: its own limits, cores and environment.
Snapshot own_process(const CollectOptions& options) {
  Tree tree(options.root);
  Snapshot snapshot;
  collect_process(tree, options.process, snapshot);
  return cleaned(snapshot);
}

// Of all hosts, each by its first rank; the others tell of their process.
Snapshots gather_snapshots(Communicator& group, const std::vector<HostOfJob>& hosts, size_t mine,
                           double clock_s, Snapshot own) {
  own.host = hosts[mine].name;
  own.ranks = hosts[mine].ranks;
  own.process.rank = group.rank();
  own.system.clock_s = clock_s;
  const auto texts = gather_texts(group, to_text(own));
  const auto of_rank = [&](int rank) {
    return from_text(texts[static_cast<size_t>(rank)], fmt::format("rank {}", rank));
  };
  Snapshots all;
  for (const HostOfJob& host : hosts) {
    all.push_back(of_rank(host.ranks.front()));
    for (size_t i = 1; i < host.ranks.size(); ++i)
      all.back().others.push_back(of_rank(host.ranks[i]).process);
  }
  return all;
}

// The second sample of counters comes after the probe, so that they tell of its packets too.
Outcome gather_outcome(const Examination& what, Communicator& group, const std::string& host_id,
                       const MakeGroup& make,
                       const std::function<void(const std::string&)>& progress) {
  size_t mine = 0;
  const auto hosts = find_hosts(group, host_id, mine);
  finish(group.barrier());  // all ranks look at their clocks now
  const double clock_s = unix_time_s();
  const bool probe = what.probe && hosts.size() > 1;
  const bool first = hosts[mine].ranks.front() == group.rank();
  Examination early = what;
  if (probe) early.watch_s = 0;
  Snapshot own = first ? examine(early, progress) : own_process(what.collect);
  const auto began = Clock::now();
  Outcome outcome;
  outcome.hosts = gather_snapshots(group, hosts, mine, clock_s, own);
  if (!what.probe) return outcome;
  outcome.probe = probe_hosts(group, outcome.hosts, mine, make, progress);
  if (!probe) return outcome;
  if (first) own = examine_again(what, own, began, progress);
  outcome.hosts = gather_snapshots(group, hosts, mine, clock_s, std::move(own));
  return outcome;
}

NotChecked unprobed() { return {"probe", "ranks could not be connected", "", rules_of_probe()}; }

// What can be found out without a group. At rank 0; the others help, and get nothing.
Outcome find_out(const Examination& what, Place& place, const Options& options, const Error& error,
                 Clock::time_point began) {
  // That a rank may notice it later than this one, and that rank 0 may.
  constexpr std::chrono::seconds kLate{3}, kFirstLate{40};
  Examination local = what;
  local.watch_s = 0;
  const auto left = options.init_timeout - (Clock::now() - began);
  UnmetRank me{place.rank,
               place.size,
               [&] { return examine(local, {}); },
               error,
               Deadline::after(kLate).not_before(left + kLate),
               Deadline::after(kFirstLate).not_before(left + kFirstLate)};
  Outcome outcome = gather_over_store(*place.store, me, options);
  if (what.probe && place.rank == 0) outcome.probe.not_checked.push_back(unprobed());
  return outcome;
}

// Only this host, because the others are not there.
Outcome alone(const Examination& what, const Error& error) {
  Outcome outcome;
  Examination local = what;
  local.watch_s = 0;
  outcome.hosts = {examine(local, {})};
  outcome.complete = false;
  NotChecked missed{"hosts", error.message(), "", {}};
  for (const Rule& rule : rules())
    if (rule.compare != nullptr) missed.rules.emplace_back(rule.id);
  outcome.probe.not_checked.push_back(missed);
  if (what.probe) outcome.probe.not_checked.push_back(unprobed());
  return outcome;
}

}  // namespace

Snapshot examine(const Examination& what, const std::function<void(const std::string&)>& progress) {
  if (progress) progress("looking");
  Snapshot first = collect(what.collect);
  return what.watch_s > 0 ? examine_again(what, first, Clock::now(), progress) : first;
}

void conclude(const Examination& what, Outcome& outcome) {
  Diagnosis& found = outcome.diagnosis = diagnose(outcome.hosts, what.wishes);
  const ProbeResult& probe = outcome.probe;
  found.findings.insert(found.findings.end(), probe.findings.begin(), probe.findings.end());
  found.not_checked.insert(found.not_checked.end(), probe.not_checked.begin(),
                           probe.not_checked.end());
  if (!what.probe)
    found.not_checked.push_back({"probe",
                                 "no packets were sent; --probe sends some between all hosts", "",
                                 rules_of_probe()});
  if (!what.ignored.empty()) {
    found.not_checked.push_back({"ignored", "--ignore", "", what.ignored});
    std::erase_if(found.findings, [&](const Finding& one) {
      return std::find(what.ignored.begin(), what.ignored.end(), one.id) != what.ignored.end();
    });
  }
  arrange(found.findings);
}

int examine_all_hosts(const Examination& what, const LaunchOptions& launch_options,
                      const std::function<void(const std::string&)>& progress,
                      const std::function<int(Outcome&)>& done) {
  Options options = Options::from_environment();
  options.init_timeout = options.timeout = launch_options.init_timeout;
  // The other ranks of a host wait for the one that looks.
  options.timeout += std::chrono::milliseconds(static_cast<int64_t>(1000 * what.watch_s));
  const LaunchPlan plan = plan_launch(launch_options);
  if (!plan.joins)
    throw Error(
        ErrorCode::invalid_argument,
        "--all-hosts and --probe look at the hosts of a job: start the command with mpirun, "
        "srun or torchrun, a rank on each host; without them it looks at this host");
  bool met = false;
  const int code = launch(plan, [&](Place& place) {
    met = true;
    const bool speaks = place.rank == 0;
    const auto shown = speaks ? progress : std::function<void(const std::string&)>();
    Outcome outcome;
    std::unique_ptr<Communicator> group;
    const auto began = Clock::now();
    try {
      group = Communicator::create(place.store, place.rank, place.size, options, "doctor");
      finish(group->barrier());
      const auto make = [&](const std::string& ports, int number) {
        Options own = options;
        own.verbs.devices = ports;
        // So that others who wait for a rank that failed are back before it gives up.
        own.init_timeout = own.timeout = options.timeout / 2;
        return Communicator::create(prefix_store(place.store, fmt::format("doctor/{}/", number)),
                                    place.rank, place.size, own, "rail");
      };
      outcome = gather_outcome(what, *group, options.host_id, make, shown);
      place.store.reset();
      place.met();
      finish(group->barrier());  // no rank leaves before the last one's result
    } catch (const Error& error) {
      if (error.code == ErrorCode::invalid_argument) throw;
      group.reset();
      try {
        if (place.store == nullptr) throw error;
        if (shown) shown("finding out why ranks cannot be connected");
        outcome = find_out(what, place, options, error, began);
      } catch (const Error&) {
        if (speaks) outcome = alone(what, error);
      }
      if (!speaks) return 3;
    }
    return speaks ? done(outcome) : 0;
  });
  return !met && code == 1 ? kCannotMeet : code;
}

}  // namespace ringwood::tools::doctor
