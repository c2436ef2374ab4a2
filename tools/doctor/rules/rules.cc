#include "tools/doctor/rules/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tools/doctor/rules/facts.h"
#include "tools/doctor/rules/gaps.h"

namespace ringwood::tools::doctor {
namespace {

bool applies(const Rule& rule, const Snapshot& snapshot) {
  switch (rule.where) {
    case Where::any: return true;
    case Where::rdma: return !snapshot.ports.empty();
    case Where::gpu: return !gpus(snapshot).empty();
  }
  return true;
}

// What is absent as a whole is one line, not one for each rule.
void list_absent(const Snapshot& snapshot, std::vector<NotChecked>& all) {
  std::vector<std::string> of_rdma, of_gpu;
  for (const Rule& rule : rules()) {
    if (rule.where == Where::rdma) of_rdma.emplace_back(rule.id);
    if (rule.where == Where::gpu) of_gpu.emplace_back(rule.id);
  }
  if (snapshot.ports.empty())
    all.push_back({"rdma", "this host has no RDMA device (/sys/class/infiniband is empty)",
                   snapshot.host, of_rdma});
  if (gpus(snapshot).empty())
    all.push_back({"gpu", "this host has no GPU on its PCI bus", snapshot.host, of_gpu});
}

void list_gaps(const Snapshot& snapshot, std::vector<NotChecked>& all) {
  std::vector<Gap> gaps = snapshot.gaps;
  for (const Gap& gap : derived_gaps(snapshot)) gaps.push_back(gap);
  if (!snapshot.seconds)
    gaps.push_back({"second-sample", "", "counters were read once; --watch 10 reads them twice"});
  for (const Gap& gap : gaps) {
    NotChecked missed{gap.where.empty() ? gap.need : fmt::format("{} of {}", gap.need, gap.where),
                      gap.reason,
                      snapshot.host,
                      {}};
    for (const Rule& rule : rules())
      if (applies(rule, snapshot) && std::any_of(rule.needs.begin(), rule.needs.end(),
                                                 [&](const char* n) { return n && gap.need == n; }))
        missed.rules.emplace_back(rule.id);
    if (!missed.rules.empty()) all.push_back(missed);
  }
}

bool is_blind(const Snapshot& snapshot) {
  return snapshot.interfaces.empty() && snapshot.ports.empty() && !snapshot.process.uid;
}

std::set<std::string> hosts_of(const Finding& finding) {
  std::set<std::string> hosts;
  for (size_t at = 0; at <= finding.host.size();) {
    const size_t comma = std::min(finding.host.find(", ", at), finding.host.size());
    hosts.insert(finding.host.substr(at, comma - at));
    at = comma + 2;
  }
  return hosts;
}

bool covered(const Finding& finding, const std::vector<Finding>& all) {
  const auto mine = hosts_of(finding);
  return std::any_of(all.begin(), all.end(), [&](const Finding& other) {
    const Rule* rule = find_rule(other.id);
    if (rule == nullptr || std::none_of(rule->covers.begin(), rule->covers.end(),
                                        [&](const char* id) { return id && finding.id == id; }))
      return false;
    if (rule->covers_all_hosts) return true;
    const auto theirs = hosts_of(other);
    return std::any_of(mine.begin(), mine.end(),
                       [&](const std::string& host) { return theirs.contains(host); });
  });
}

}  // namespace

const char* to_string(Severity severity) {
  switch (severity) {
    case Severity::note: return "note";
    case Severity::warning: return "warning";
    case Severity::error: return "error";
  }
  return "?";
}

void Sink::add(const std::string& host, const std::string& evidence,
               std::vector<std::string> commands) {
  add(rule_.severity, host, evidence, std::move(commands));
}

void Sink::add(Severity severity, const std::string& host, const std::string& evidence,
               std::vector<std::string> commands) {
  all_.push_back({rule_.id, severity, evidence, rule_.fix, host, std::move(commands)});
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kAll = [] {
    std::vector<Rule> all;
    for (const auto& part :
         {rdma_rules(), gid_rules(), process_rules(), machine_rules(), environment_rules(),
          network_rules(), pci_rules(), gpu_rules(), flow_rules(), counter_rules(), host_rules(),
          host_rail_rules(), cluster_rules(), probe_rules()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return kAll;
}

const Rule* find_rule(const std::string& id) {
  for (const Rule& rule : rules())
    if (rule.id == id) return &rule;
  return nullptr;
}

void arrange(std::vector<Finding>& findings) {
  std::vector<Finding> kept;
  for (const Finding& one : findings)
    if (!covered(one, findings)) kept.push_back(one);
  std::stable_sort(kept.begin(), kept.end(), [](const Finding& a, const Finding& b) {
    return std::tie(b.severity, a.host) < std::tie(a.severity, b.host);
  });
  findings = std::move(kept);
}

Diagnosis diagnose(const Snapshots& snapshots, const Wishes& wishes) {
  Diagnosis result;
  result.blind = snapshots.empty();
  for (const Rule& rule : rules()) {
    Sink sink(rule, wishes, result.findings);
    for (const Snapshot& one : snapshots)
      if (rule.look != nullptr && applies(rule, one)) rule.look(one, sink);
    if (rule.compare != nullptr && snapshots.size() > 1) rule.compare(snapshots, sink);
  }
  for (const Snapshot& one : snapshots) {
    list_absent(one, result.not_checked);
    list_gaps(one, result.not_checked);
    result.blind = result.blind || is_blind(one);
  }
  for (NotChecked& one : not_checked_of_cluster(snapshots, wishes.cluster))
    result.not_checked.push_back(std::move(one));
  arrange(result.findings);
  return result;
}

}  // namespace ringwood::tools::doctor
