// The table of what doctor looks for: rows of data with pure functions over snapshots.
//
// A rule adds a finding for what it sees, with the evidence in numbers; it says nothing about what
// it does not know. What it needs and could not be read is listed by diagnose(), by the names in
// `needs`, so that silence always means that it was looked at. To add one: a function, a row in a
// file of this folder, a fixture in tests/python/doctor/test_doctor.py, and the table of
// tools/doctor/README.md (`ringwood doctor --rules` prints it).
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "tools/doctor/snapshot.h"

namespace ringwood::tools::doctor {

// note: worth knowing; it does not change the exit code.
enum class Severity { note, warning, error };
const char* to_string(Severity severity);

struct Finding {
  std::string id;
  Severity severity = Severity::warning;
  std::string evidence, fix;
  std::string host;                   // of several, separated by ", "
  std::vector<std::string> commands;  // that repair it, for a shell
};

using Snapshots = std::vector<Snapshot>;

// Of --cluster. 0, false: it does not say.
struct ExpectedCluster {
  int hosts = 0, rails = 0;
  double nic = 0;  // bytes/s of all ports of a host
  bool rdma = false;
  std::vector<std::string> others;  // its keys that no host shows
};

struct Wishes {
  bool require_verbs = false;
  ExpectedCluster cluster;
};

struct Rule;

// Where a rule puts what it sees.
class Sink final {
 public:
  Sink(const Rule& rule, const Wishes& wishes, std::vector<Finding>& all)
      : rule_(rule), wishes_(wishes), all_(all) {}
  const Wishes& wishes() const { return wishes_; }
  // The severity is the rule's.
  void add(const std::string& host, const std::string& evidence,
           std::vector<std::string> commands = {});
  void add(Severity severity, const std::string& host, const std::string& evidence,
           std::vector<std::string> commands = {});

 private:
  const Rule& rule_;
  const Wishes& wishes_;
  std::vector<Finding>& all_;
};

// Where a rule applies: everywhere; to hosts with RDMA devices; with GPUs.
enum class Where { any, rdma, gpu };

struct Rule {
  const char* id;
  Severity severity;
  const char* title;  // what is wrong, in one line
  const char* why;    // what it does to a job, how it comes about
  const char* fix;    // one sentence
  Where where = Where::any;
  std::array<const char*, 6> needs = {};
  std::array<const char*, 5> covers = {};  // rules whose findings on these hosts follow from this
  bool covers_all_hosts = false;           // and not only on the hosts that its finding names
  void (*look)(const Snapshot& snapshot, Sink& sink) = nullptr;
  void (*compare)(const Snapshots& all, Sink& sink) = nullptr;  // two hosts at least
};
const std::vector<Rule>& rules();
const Rule* find_rule(const std::string& id);

// The rows of each file.
std::span<const Rule> rdma_rules();
std::span<const Rule> gid_rules();
std::span<const Rule> process_rules();
std::span<const Rule> machine_rules();
std::span<const Rule> environment_rules();
std::span<const Rule> pci_rules();
std::span<const Rule> gpu_rules();
std::span<const Rule> flow_rules();
std::span<const Rule> counter_rules();
std::span<const Rule> network_rules();
std::span<const Rule> host_rules();       // comparisons
std::span<const Rule> host_rail_rules();  // comparisons of rails
std::span<const Rule> cluster_rules();
std::span<const Rule> probe_rules();  // findings come from probe.h

std::vector<std::string> rules_of_probe();  // ids of those that need packets

// What could not be looked at: rules that would have needed it, on that host.
struct NotChecked {
  std::string what, reason, host;
  std::vector<std::string> rules;
};

struct Diagnosis {
  std::vector<Finding> findings;  // errors first, then by host
  std::vector<NotChecked> not_checked;
  bool blind = false;  // of some host nothing could be read
};
// What --cluster says and these snapshots do not show.
std::vector<NotChecked> not_checked_of_cluster(const Snapshots& all, const ExpectedCluster& wanted);
Diagnosis diagnose(const Snapshots& snapshots, const Wishes& wishes);
// Puts errors first, and takes away what other findings cover.
void arrange(std::vector<Finding>& findings);

}  // namespace ringwood::tools::doctor
