#include "tools/top/job_watcher.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <ranges>
#include <thread>

#include "transports/base/bytes.h"
#include "transports/base/host.h"

namespace ringwood::tools {
namespace {

// A rank that has not answered is given less time from then on.
constexpr std::chrono::milliseconds kShortPatience{50};

// A look takes no longer than about this, however many ranks do not answer.
constexpr std::chrono::seconds kLookPatience{2};

// A process, as the kernel has confirmed it.
using Owner = std::pair<unsigned, int>;  // user, pid

struct Job {
  std::string id;
  std::set<Owner> owners;
  std::vector<StatusName> names;

  int pid() const { return owners.begin()->second; }
};

std::string hex(uint64_t id) { return fmt::format("{:016x}", id).substr(0, 8); }

std::string program_of(int pid) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
  return name.empty() ? "unknown program" : printable(name);
}

// Named by the group that has most ranks here.
std::string id_of(const Job& job) {
  std::map<uint64_t, int> ranks;
  for (const StatusName& name : job.names) ++ranks[name.group];
  return hex(
      std::ranges::max_element(ranks, {}, [](const auto& one) { return one.second; })->first);
}

// A group has one user: another one's sockets by the same number are another group.
std::vector<Job> find_jobs(const std::vector<StatusName>& names) {
  std::map<std::pair<unsigned, uint64_t>, Job> by_group;
  for (const StatusName& name : names) {
    Job& job = by_group[{name.user, name.group}];
    job.owners.insert({name.user, name.pid});
    job.names.push_back(name);
  }
  std::vector<Job> jobs;
  for (auto& [group, part] : by_group) {
    Job whole = std::move(part);
    std::erase_if(jobs, [&](Job& other) {
      const bool shares = std::ranges::any_of(
          other.owners, [&](const Owner& one) { return whole.owners.contains(one); });
      if (!shares) return false;
      whole.owners.merge(other.owners);
      whole.names.insert(whole.names.end(), other.names.begin(), other.names.end());
      return true;
    });
    jobs.push_back(std::move(whole));
  }
  for (Job& job : jobs) job.id = id_of(job);
  return jobs;
}

bool is_meant(const Job& job, const JobChoice& choice) {
  if (choice.pid != 0)
    return std::ranges::any_of(job.owners,
                               [&](const Owner& one) { return one.second == choice.pid; });
  return std::ranges::any_of(job.names, [&](const StatusName& name) {
    return fmt::format("{:016x}", name.group).starts_with(choice.job);
  });
}

std::string list(const std::vector<Job>& jobs) {
  std::string text;
  for (const Job& job : jobs)
    text += fmt::format(
        "{}--job {} ({}, pid {}{})", text.empty() ? "" : ", ", job.id, program_of(job.pid()),
        job.pid(),
        job.owners.size() > 1 ? fmt::format(" and {} more", job.owners.size() - 1) : std::string());
  return text;
}

Error no_job() {
  std::set<unsigned> others;
  for (const StatusName& name : status_names())
    if (geteuid() != 0 && name.user != geteuid()) others.insert(name.user);
  return Error(ErrorCode::system,
               others.empty()
                   ? "no job of ringwood runs on this host, in this network namespace"
                   : fmt::format("the jobs on this host belong to others (user {}): only their "
                                 "user and root may look",
                                 *others.begin()));
}

// For root, another user may have a job with the number of this process: it is not theirs.
bool owns_process(const Job& job, int pid) {
  struct stat process {};
  return ::stat(fmt::format("/proc/{}", pid).c_str(), &process) == 0 &&
         process.st_uid == job.owners.begin()->first;
}

// None of the jobs has this process.
Error not_in_a_job(int pid, const std::vector<Job>& all) {
  const std::string there = all.empty() ? "" : "; there are: " + list(all);
  struct stat process {};
  if (::stat(fmt::format("/proc/{}", pid).c_str(), &process) != 0)
    return Error(ErrorCode::invalid_argument,
                 fmt::format("--pid {}: there is no such process on this host, or in this "
                             "container{}",
                             pid, there));
  if (geteuid() != 0 && process.st_uid != geteuid())
    return Error(ErrorCode::invalid_argument,
                 fmt::format("--pid {}: {} belongs to another user (user {}): only its user and "
                             "root may look",
                             pid, program_of(pid), process.st_uid));
  return Error(ErrorCode::invalid_argument,
               fmt::format("--pid {}: {} has no group of ringwood with two ranks and more now, "
                           "hides it (RINGWOOD_STATUS=0), or is in another network namespace{}",
                           pid, program_of(pid), there));
}

// Waits for one until `deadline`; a choice between several is the user's, at once.
Job choose(const JobChoice& choice, KnownNames& names, Deadline deadline) {
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    const std::vector<Job> all = find_jobs(names.read());
    std::vector<Job> meant;
    for (const Job& job : all)
      if (is_meant(job, choice)) meant.push_back(job);
    if (meant.size() > 1 && choice.pid != 0)
      std::erase_if(meant, [&](const Job& job) { return !owns_process(job, choice.pid); });
    if (meant.size() == 1) return meant.front();
    if (meant.size() > 1)
      throw Error(ErrorCode::invalid_argument,
                  "several jobs run here; which one: " + list(meant) + "?");
    if (!deadline.passed()) continue;
    if (choice.pid != 0) throw not_in_a_job(choice.pid, all);
    if (all.empty()) throw no_job();
    throw Error(ErrorCode::invalid_argument, "no such job here; there are: " + list(all));
  }
}

bool is_ours(const StatusName& name) { return name.version == kStatusVersion; }

}  // namespace

JobWatcher::JobWatcher(const JobChoice& choice, Deadline deadline) {
  const Job job = choose(choice, names_, deadline);
  if (std::ranges::none_of(job.names, is_ours))
    throw Error(ErrorCode::unsupported,
                fmt::format("the job (pid {}) is of another version of ringwood: use the "
                            "`ringwood` that was installed with it",
                            job.pid()));
  id_ = job.id;
  owners_ = job.owners;
}

// Processes and groups may have joined the job, or left it.
std::optional<JobView> JobWatcher::look() {
  Job job;
  for (Job& one : find_jobs(names_.read()))
    if (std::ranges::any_of(owners_,
                            [&](const Owner& owner) { return one.owners.contains(owner); }))
      job = std::move(one);
  std::erase_if(job.names, [](const StatusName& name) { return !is_ours(name); });
  sockets_ = job.names;
  if (job.names.empty()) return std::nullopt;
  owners_ = job.owners;
  look_until_ = Deadline::after(kLookPatience);
  std::set<std::string> present;
  std::map<uint64_t, std::vector<StatusName>> by_group;
  for (const StatusName& name : job.names) {
    by_group[name.group].push_back(name);
    present.insert(to_string(name));
  }
  std::erase_if(connections_, [&](const auto& one) { return !present.contains(one.first); });
  for (auto* reports : {&last_, &before_})
    std::erase_if(*reports, [&](const auto& one) { return !by_group.contains(one.first.first); });
  JobView view{.id = id_, .user = job.names.front().user, .pids = {}, .groups = {}};
  for (const auto& [user, pid] : owners_) view.pids.push_back(pid);
  for (auto& [group, names] : by_group) {
    std::ranges::sort(names, {}, &StatusName::rank);
    view.groups.push_back(look_at(names));
  }
  std::ranges::stable_sort(view.groups, std::ranges::greater(),
                           [](const GroupView& group) { return group.ranks.size(); });
  return view;
}

GroupView JobWatcher::look_at(const std::vector<StatusName>& names) {
  GroupView group{.id = names.front().group, .name = {}, .relayed = false, .ranks = {}};
  // Each rank would wait for rank 0 in the same way, so the first that answers at all will do.
  for (const StatusName& name : names)
    if (ask_all(name, group)) break;
  make_room(static_cast<size_t>(names.back().rank) + 1, group);
  for (const StatusName& name : names) {
    const auto rank = static_cast<size_t>(name.rank);
    if (rank < group.ranks.size() && group.ranks[rank].state == RankState::silent)
      ask_own(name, group);
  }
  for (RankView& rank : group.ranks) {
    const std::pair key(group.id, rank.rank);
    if (const auto old = last_.find(key); rank.report && old != last_.end()) {
      if (old->second.now_ns != rank.report->now_ns) before_[key] = old->second;
    }
    if (rank.report) last_[key] = *rank.report;
    if (const auto old = before_.find(key); old != before_.end()) rank.before = old->second;
    if (rank.report && group.name.empty()) group.name = rank.report->group;
  }
  return group;
}

bool JobWatcher::ask_all(const StatusName& name, GroupView& group) {
  for (int first = 0;;) {
    const auto page = ask(name, {.own = false, .first = first});
    if (!page) return false;
    add(*page, group);
    group.relayed = page->relayed;
    if (!page->relayed || page->next() >= page->size || page->next() <= first) return true;
    first = page->next();
  }
}

void JobWatcher::ask_own(const StatusName& name, GroupView& group) {
  if (const auto page = ask(name, {.own = true, .first = 0})) return add(*page, group);
  RankView& rank = group.ranks[static_cast<size_t>(name.rank)];
  if (group.relayed) return;  // rank 0 knows better since when
  const Duration silent = Clock::now() - connections_[to_string(name)].answered;
  rank.known = true;
  rank.silent_s = std::max(rank.silent_s, std::chrono::duration<double>(silent).count());
  if (rank.pid == 0) rank.pid = name.pid;
  if (rank.host.empty()) rank.host = host_name();
}

std::optional<ReportPage> JobWatcher::ask(const StatusName& name, const ReportQuery& query) {
  Connection& connection = connections_[to_string(name)];
  const bool patient = connection.answers && !look_until_.passed();
  const Deadline deadline = Deadline::after(patient ? Duration(kPatience) : kShortPatience);
  if (!connection.fd) {
    auto fd = connect_status(name, deadline);
    if (fd) connection.fd = std::move(*fd);
  }
  connection.answers = false;
  if (!connection.fd) return std::nullopt;
  auto page = ask_status(connection.fd.get(), query, deadline);
  if (page) {
    connection.answers = true;
    connection.answered = Clock::now();
    return *page;
  }
  connection.fd = OwnedFd();  // a late answer must not be taken for that of the next query
  return std::nullopt;
}

// Ranks come one page after the other, and a size is at most what one more page can have.
void JobWatcher::make_room(size_t size, GroupView& group) {
  size = std::min(size, size_t{1} << 20);
  for (size_t rank = group.ranks.size(); rank < size; ++rank)
    group.ranks.push_back({.rank = static_cast<int>(rank), .host = {}, .report = {}, .before = {}});
}

void JobWatcher::add(const ReportPage& page, GroupView& group) {
  make_room(static_cast<size_t>(page.size), group);
  for (const ReportRow& row : page.rows) {
    if (static_cast<size_t>(row.rank) >= group.ranks.size()) continue;
    RankView& rank = group.ranks[static_cast<size_t>(row.rank)];
    rank.state = row.state;
    rank.known = true;
    rank.silent_s = row.silent_ms * 1e-3;
    if (row.pid != 0) rank.pid = row.pid;
    if (!row.host.empty()) rank.host = row.host;
    RankReport report;
    if (row.report.empty() || !decode(row.report, report)) continue;
    if (report.rank == row.rank && report.size == page.size) rank.report = std::move(report);
  }
}

}  // namespace ringwood::tools
