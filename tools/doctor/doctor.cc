#include "tools/doctor/doctor.h"
#include "tools/command/numbers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "tools/cluster/expected_cluster.h"
#include "tools/command/help.h"
#include "tools/command/progress_line.h"
#include "tools/command/text_files.h"
#include "tools/doctor/all_hosts.h"
#include "tools/doctor/anonymous.h"
#include "tools/doctor/ssh_hosts.h"
#include "tools/remote/host_list.h"
#include "tools/remote/remote_commands.h"
#include "transports/base/error.h"
#include "transports/base/options.h"

namespace ringwood::tools {
namespace {

using namespace doctor;

constexpr size_t kMaxSnapshotBytes = size_t{256} << 20;

struct RawArguments {
  Examination what;
  LaunchOptions launch;
  std::vector<std::string> from;
  std::string snapshot, against, json, html, explain, require, cluster;
  std::string ssh, hostfile, ssh_command = "ssh", ringwood_path;
  Snapshots earlier;  // of `against`
  double timeout_s = 60;
  bool all_hosts = false, anonymous = false, fix = false, rules = false, relay = false;
  bool by_ssh = false;  // --ssh or --hostfile was typed, which may be empty
};

std::string read(const std::string& option, const std::string& file) {
  std::error_code ignored;
  const uintmax_t bytes = std::filesystem::file_size(file, ignored);
  if (!ignored && bytes > kMaxSnapshotBytes)
    refuse_file(option, file, fmt::format("it is larger than {} MiB", kMaxSnapshotBytes >> 20));
  return read_all(option, file);
}

// Two snapshots of one host are two samples, in the order in which they were taken.
Snapshots read_snapshots(const std::string& option, const std::vector<std::string>& files) {
  Snapshots hosts;
  for (const std::string& file : files) {
    for (Snapshot& one :
         snapshots_from_text(read(option, file), fmt::format("{} {}", option, file))) {
      const auto same = std::find_if(hosts.begin(), hosts.end(), [&](const Snapshot& other) {
        return other.host == one.host && other.token == one.token;
      });
      if (same == hosts.end()) {
        hosts.push_back(one);
        continue;
      }
      const bool in_order = same->system.uptime_s <= one.system.uptime_s;
      const Snapshot earlier = in_order ? *same : one, later = in_order ? one : *same;
      *same = with_rises(earlier, later, later.system.uptime_s - earlier.system.uptime_s);
    }
  }
  return hosts;
}

// Before anything is concluded, so that no sentence has a name.
void leave_names_out(Outcome& outcome, Snapshots& earlier) {
  Anonymizer anonymizer;
  anonymizer.learn(outcome.hosts);
  anonymizer.learn(earlier);
  // Those that did not answer.
  for (const NotChecked& one : outcome.probe.not_checked)
    if (one.what == "host") anonymizer.learn_name(one.host);
  outcome.hosts = anonymizer.without_names(outcome.hosts);
  outcome.probe = anonymizer.without_names(outcome.probe);
  earlier = anonymizer.without_names(earlier);
}

int present(const RawArguments& typed, ProgressLine& progress, Outcome& outcome) {
  Snapshots earlier = typed.earlier;
  if (typed.anonymous) leave_names_out(outcome, earlier);
  conclude(typed.what, outcome);
  if (!typed.against.empty())
    outcome.since = compare_with(typed.against, earlier, outcome.hosts, outcome.diagnosis,
                                 typed.what.wishes, typed.what.ignored);
  progress.erase();
  const int code = exit_code_of(outcome.diagnosis, outcome.complete);
  if (!typed.snapshot.empty()) write_all("--snapshot", typed.snapshot, to_text(outcome.hosts));
  if (!typed.html.empty()) make_page(outcome).write(typed.html);
  if (!typed.json.empty()) write_all("--json", typed.json, print_json(outcome));
  if (typed.fix) {
    fmt::print("{}", print_commands(outcome.diagnosis));
    return code;
  }
  const bool taken = typed.json == "-" || typed.snapshot == "-";
  const bool colours = ::isatty(taken ? 2 : 1);
  fmt::print(taken ? stderr : stdout, "{}", print_text(outcome, colours));
  return code;
}

// This command's own file, as it is on hosts that share a file system with this one.
std::string own_path() {
  std::error_code ignored;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return path.empty() ? "ringwood" : path.string();
}

SshHosts read_ssh_hosts(const RawArguments& typed) {
  if (!typed.ssh.empty() && !typed.hostfile.empty())
    refuse("--ssh and --hostfile both say which hosts: leave one of them away");
  SshHosts by_ssh;
  if (!typed.hostfile.empty())
    by_ssh.hosts = parse_all("--hostfile", typed.hostfile, parse_host_file);
  else
    by_ssh.hosts = parse_hosts(typed.ssh);
  by_ssh.ssh = words_of(typed.ssh_command);
  if (by_ssh.ssh.empty()) refuse("--ssh-command names no program");
  by_ssh.command = typed.ringwood_path.empty() ? own_path() : typed.ringwood_path;
  by_ssh.limit = std::chrono::milliseconds(static_cast<int64_t>(typed.timeout_s * 1000));
  return by_ssh;
}

void check(const RawArguments& typed) {
  const bool by_ssh = typed.by_ssh;
  const bool gathers = typed.all_hosts || typed.what.probe || by_ssh;
  const bool elsewhere = typed.what.collect.root != "/" || typed.what.collect.process != "self";
  if (!typed.from.empty() && (gathers || elsewhere || typed.what.watch_s > 0))
    refuse(
        "--from reads files only; leave --all-hosts, --ssh, --probe, --root, --pid and --watch "
        "away");
  if (gathers && elsewhere)
    refuse("--all-hosts and --ssh look at each rank's own host; leave --root and --pid");
  if (by_ssh && !typed.launch.rendezvous.empty())
    refuse("--ssh starts the ranks itself: leave --rendezvous away");
  if ((typed.json == "-") + (typed.snapshot == "-") + typed.fix > 1)
    refuse("--json, --snapshot - and --fix all take standard output: name a file for one of them");
  if (!typed.require.empty() && typed.require != "verbs") refuse("--require knows verbs only");
  for (const std::string& id : typed.what.ignored)
    if (find_rule(id) == nullptr)
      refuse(fmt::format("--ignore {}: there is no such rule; --rules lists all", id));
}

int run(RawArguments typed) {
  if (typed.rules) {
    fmt::print("{}", print_rules());
    return 0;
  }
  if (!typed.explain.empty()) {
    const Rule* rule = find_rule(typed.explain);
    if (rule == nullptr)
      refuse(fmt::format("there is no rule {}; --rules lists all", typed.explain));
    fmt::print("{}", explain(*rule));
    return 0;
  }
  check(typed);
  if (!typed.against.empty()) typed.earlier = read_snapshots("--against", {typed.against});
  typed.what.wishes.require_verbs = typed.require == "verbs";
  if (!typed.cluster.empty()) typed.what.wishes.cluster = read_expected_cluster(typed.cluster);
  typed.launch.init_timeout =
      std::chrono::milliseconds(static_cast<int64_t>(typed.timeout_s * 1000));
  if (typed.relay) end_with_caller();
  ProgressLine progress("doctor");
  const auto shown = [&](const std::string& text) { progress.show(text); };
  const auto done = [&](Outcome& outcome) {
    if (!typed.relay) return present(typed, progress, outcome);
    print_relay(outcome);
    return 0;
  };
  Outcome outcome;
  if (typed.by_ssh) {
    outcome = examine_by_ssh(typed.what, read_ssh_hosts(typed), shown);
    return present(typed, progress, outcome);
  }
  if (typed.all_hosts || typed.what.probe) {
    const int code = examine_all_hosts(typed.what, typed.launch, shown, done);
    return code == kCannotMeet && !typed.relay ? 3 : code;
  }
  outcome.hosts = typed.from.empty() ? Snapshots{examine(typed.what, shown)}
                                     : read_snapshots("--from", typed.from);
  return done(outcome);
}

void add_options(CLI::App& command, RawArguments& typed) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* what) {
    return command.add_option(name, value, what)->type_name(type);
  };
  command.add_flag("--all-hosts", typed.all_hosts,
                   "of a launcher's job: a snapshot of each, compared");
  command.add_flag("--probe", typed.what.probe,
                   "also sends: rates of all pairs, packets of the full MTU; counters "
                   "before and after (--all-hosts)");
  add("--watch", typed.what.watch_s, "SECONDS", "read counters twice, so long apart")
      ->check(decimal(0.1, 86400));
  add("--pid", typed.what.collect.process, "N", "limits and environment of this process");
  add("--root", typed.what.collect.root, "DIR", "a copy of another host's sys, proc (a sosreport)");
  add("--from", typed.from, "FILE",
      "diagnose what --snapshot has written; two of a host are "
      "two samples")
      ->expected(1, 100000);
  add("--snapshot", typed.snapshot, "FILE", "write all that was read; - is standard output");
  add("--against", typed.against, "FILE", "what has changed since --snapshot has written it");
  command.add_flag("--anonymous", typed.anonymous,
                   "without names and addresses of hosts, in all that is written");
  add("--require", typed.require, "verbs", "that no RDMA port can be used is an error");
  add("--cluster", typed.cluster, "FILE",
      "hosts, rails, nic and rdma that are to be there, as explain and simulate take them");
  add("--ignore", typed.what.ignored, "RULE,...", "leave these rules away")->delimiter(',');
  add("--json", typed.json, "[FILE]", "findings, to FILE or standard output")->expected(0, 1);
  add("--html", typed.html, "FILE", "a page, for a browser");
  command.add_flag("--fix", typed.fix, "print the commands that would repair it; runs none");
  add("--explain", typed.explain, "RULE", "all about a rule");
  command.add_flag("--rules", typed.rules, "the table of rules");
  add("-T,--timeout", typed.timeout_s, "SECONDS", "for hosts to answer (60)")
      ->check(decimal(1, 86400));
  add("--ssh", typed.ssh, "HOST,...", "start it on these hosts by ssh, node[01-16], and compare");
  add("--hostfile", typed.hostfile, "FILE", "the same for the hosts of a file, one a line");
  add("--ssh-command", typed.ssh_command, "COMMAND", "ssh and its options: \"ssh -p 2222\"");
  add("--ringwood-path", typed.ringwood_path, "PATH", "ringwood on those hosts (as here)");
  command.add_flag("--relay", typed.relay, "")->group("");
  add("--rendezvous", typed.launch.rendezvous, "URL",
      "where ranks meet: env://, file:///path, tcp://host:port");
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  auto typed = std::make_shared<RawArguments>();
  CLI::App* command = app.add_subcommand(
      "doctor", "What is wrong with this host or the hosts of a job, and its fix");
  add_options(*command, *typed);
  command->callback([typed, command, &exit_code] {
    if (command->count("--json") > 0 && typed->json.empty()) typed->json = "-";
    typed->by_ssh = command->count("--ssh") + command->count("--hostfile") > 0;
    // As a variable leaves them that is not set.
    if (command->count("--ssh") > 0 && typed->ssh.empty()) refuse("--ssh names no host");
    if (command->count("--hostfile") > 0 && typed->hostfile.empty())
      refuse("--hostfile names no file");
    for (const char* option : {"--ssh-command", "--ringwood-path"})
      if (!typed->by_ssh && command->count(option) > 0)
        refuse(fmt::format("{} is for --ssh or --hostfile, which are not there", option));
    exit_code = run(*typed);
  });
  add_help(*command,
           {{"ringwood doctor", "this host"},
            {"ringwood doctor --watch 10 --pid 4711", "a running rank, and its counters for 10 s"},
            {"mpirun -n 16 --map-by node ringwood doctor --all-hosts --probe", "a job's hosts"},
            {"ringwood doctor --ssh node[01-16]", "hosts of a list, without a launcher"},
            {"ringwood doctor --explain memlock", "what a rule is about"},
            {"ringwood doctor --fix > repair.sh", "to be read before it is run"},
            {"ringwood doctor --from host1.json host2.json", "snapshots that were sent to you"},
            {"ringwood doctor --against last-week.json", "what has changed since"}},
           {{0, "clean"},
            {1, "warnings"},
            {2, "errors"},
            {3, "could not check: a host did not answer, or nothing could be read of one"},
            {64, kBadInput}});
}

}  // namespace ringwood::tools
