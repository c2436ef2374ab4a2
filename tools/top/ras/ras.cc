#include "tools/top/ras/ras.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "tools/top/ras/ras_facts.h"

namespace ringwood::tools {
namespace {

using Json = nlohmann::ordered_json;

// The protocol's, and the release whose format is written.
constexpr int kProtocol = 2;
constexpr const char* kFormatOf = "2.30.0";
constexpr std::string_view kLifecycle = "LIFECYCLE", kTrace = "TRACE";
// As in NCCL: a group of ranks is listed if it is small.
constexpr size_t kMaxListed = 10;

std::string local_time(std::time_t time) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(time));
}

// What follows `word` in the line, where it begins with it in any case.
std::optional<std::string_view> after(std::string_view line, std::string_view word) {
  if (line.size() < word.size() || strncasecmp(line.data(), word.data(), word.size()) != 0)
    return std::nullopt;
  return line.substr(word.size());
}

bool same(std::string_view a, std::string_view b) { return a.size() == b.size() && after(a, b); }

// Seconds; scripts also write fractions of them.
bool is_timeout(std::string_view text) {
  double seconds = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return error == std::errc() && end == text.data() + text.size() && seconds >= 0 &&
         std::isfinite(seconds);
}

// ---- json ------------------------------------------------------------------------------------

Json common(const RasRank& rank) {
  return {{"rank", rank.rank},
          {"host", rank.host},
          {"pid", rank.pid},
          {"cuda_dev", rank.device},
          {"nvml_dev", rank.device}};
}

Json communicator(const GroupView& view, const GroupLines& lines) {
  Json present = Json::array(), missing = Json::array();
  for (const RasRank& rank : ras_ranks(view, lines)) {
    Json one = common(rank);
    if (rank.missing) {
      one["status"] = {{"unresponsive", rank.unresponsive || rank.dead},
                       {"considered_dead", rank.dead}};
      missing.push_back(std::move(one));
      continue;
    }
    one["status"] = {{"init_state", 0},
                     {"async_error", 0},
                     {"finalize_called", false},
                     {"destroy_flag", false},
                     {"abort_flag", rank.aborted}};
    one["collective_counts"] = rank.counts;
    present.push_back(std::move(one));
  }
  return {{"hash", fmt::format("0x{:x}", view.id)},
          {"secondary_hash", fmt::format("0x{:x}:0x{:x}", view.id, view.ranks.size())},
          {"size", view.ranks.size()},
          {"ranks_count", present.size()},
          {"missing_ranks_count", missing.size()},
          {"ranks", std::move(present)},
          {"missing_ranks", std::move(missing)}};
}

// ---- text ------------------------------------------------------------------------------------

std::string of_process(const RasRank& rank) {
  return fmt::format("GPU {} managed by process {} on node {}", rank.device, rank.pid, rank.host);
}

bool is_listed(size_t count, size_t all, bool verbose) {
  if (count == 1) return true;
  return verbose ? count * 2 < all : count <= kMaxListed && count * 4 <= all;
}

std::string job_summary(const Sample& sample) {
  std::map<std::string, std::set<int>> nodes;
  for (size_t i = 0; i < sample.groups.size(); ++i)
    for (const RasRank& rank : ras_ranks(sample.view.groups[i], sample.groups[i]))
      nodes[rank.node].insert(rank.pid);
  size_t least = SIZE_MAX, most = 0, all = 0;
  for (const auto& [node, pids] : nodes) {
    least = std::min(least, pids.size());
    most = std::max(most, pids.size());
    all += pids.size();
  }
  const std::string each = least == most ? std::to_string(most) : fmt::format("{}-{}", least, most);
  return fmt::format(
      "Job summary\n===========\n\n"
      "  Nodes  Processes         GPUs  Processes     GPUs\n"
      "(total)   per node  per process    (total)  (total)\n"
      "{:>7}  {:>9}  {:>11}  {:>9}  {:>7}\n",
      nodes.size(), each, 1, all, all);
}

struct GroupText {
  std::string row, errors, warnings;
};

// The ranks by the value of a count; the most frequent first.
std::vector<std::pair<uint64_t, std::vector<const RasRank*>>> by_count(
    const std::vector<RasRank>& ranks, const std::string& name) {
  std::map<uint64_t, std::vector<const RasRank*>> found;
  for (const RasRank& rank : ranks)
    if (!rank.missing) found[rank.counts.at(name)].push_back(&rank);
  std::vector<std::pair<uint64_t, std::vector<const RasRank*>>> sorted(found.begin(), found.end());
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           [](const auto& one) { return one.second.size(); });
  return sorted;
}

std::string mismatch(const std::vector<RasRank>& ranks, const std::string& name, bool verbose) {
  const auto values = by_count(ranks, name);
  if (values.size() < 2) return "";
  std::string text = fmt::format("  Communicator ranks have different {} operation counts\n", name);
  for (const auto& [count, who] : values) {
    const std::string launched = count > 0 ? fmt::format("launched up to operation {}", count)
                                           : std::string("not launched any operations");
    if (who.size() > 1) text += fmt::format("  {} ranks have {}\n", who.size(), launched);
    if (!is_listed(who.size(), ranks.size(), verbose)) continue;
    for (const RasRank* rank : who)
      text += who.size() > 1 ? fmt::format("  Rank {} -- {}\n", rank->rank, of_process(*rank))
                             : fmt::format("  Rank {} has {} -- {}\n", rank->rank, launched,
                                           of_process(*rank));
  }
  return text + "\n";
}

std::string incomplete(const std::vector<RasRank>& ranks, const std::string& name, bool verbose) {
  std::vector<const RasRank*> missing;
  for (const RasRank& rank : ranks)
    if (rank.unresponsive || rank.dead) missing.push_back(&rank);
  if (missing.empty()) return "";
  std::string text = fmt::format("{} INCOMPLETE\n  Missing communicator data from {} rank{}\n",
                                 name, missing.size(), missing.size() > 1 ? "s" : "");
  if (is_listed(missing.size(), ranks.size(), verbose))
    for (const RasRank* rank : missing)
      text += fmt::format("  Rank {} -- {}{}\n", rank->rank, of_process(*rank),
                          rank->dead ? ", considered dead" : "");
  return text + "\n";
}

GroupText describe(size_t number, const GroupView& view, const GroupLines& lines, bool verbose) {
  const std::vector<RasRank> ranks = ras_ranks(view, lines);
  const std::string name = fmt::format("#{}-0 ({:016x})", number, view.id);
  std::map<std::string, int> nodes;
  size_t present = 0, aborted = 0, gone = 0;
  for (const RasRank& rank : ranks) {
    present += !rank.missing;
    aborted += rank.aborted;
    gone += rank.missing && !rank.unresponsive && !rank.dead;
    if (!rank.missing) ++nodes[rank.node];
  }
  int least = 0, most = 0;
  for (const auto& [node, count] : nodes) {
    least = least == 0 ? count : std::min(least, count);
    most = std::max(most, count);
  }
  GroupText text;
  text.errors = incomplete(ranks, name, verbose);
  std::string counts;
  for (const auto& [collective, count] : ranks.front().counts)
    counts += mismatch(ranks, collective, verbose);
  if (gone > 0) counts += fmt::format("  {} ranks have status NOCOMM\n\n", gone);
  if (!counts.empty()) text.warnings = fmt::format("{} MISMATCH\n{}", name, counts);
  const char* const state = aborted > 0 ? "ABORT" : "RUNNING";
  const char* const errors = !text.errors.empty()     ? "INCOMPLETE"
                             : !text.warnings.empty() ? "MISMATCH"
                                                      : "OK";
  text.row =
      fmt::format("{:5}  {:8}  {:8}  {:>8}  {:8}  {:8}  {:>8}  {:>6}\n", number, 1, nodes.size(),
                  least == most ? std::to_string(most) : fmt::format("{}-{}", least, most),
                  ranks.size(), present, state, errors);
  return text;
}

}  // namespace

std::string ras_json(const Sample& sample) {
  Json communicators = Json::array();
  int silent = 0;
  for (size_t i = 0; i < sample.groups.size(); ++i) {
    communicators.push_back(communicator(sample.view.groups[i], sample.groups[i]));
    for (const RankView& rank : sample.view.groups[i].ranks)
      silent += rank.state == RankState::silent;
  }
  const Json report = {{"nccl_version", kFormatOf},
                       {"ringwood_version", RINGWOOD_VERSION},
                       {"cuda_runtime_version", 0},
                       {"cuda_driver_version", 0},
                       {"timestamp", local_time(sample.time)},
                       {"communicators_count", communicators.size()},
                       {"communicators", std::move(communicators)},
                       {"ras", {{"collection_time_sec", 0.0}, {"timeouts_count", silent}}}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string ras_text(const Sample& sample, bool verbose) {
  std::string rows, errors, warnings;
  for (size_t i = 0; i < sample.groups.size(); ++i) {
    const GroupText text = describe(i, sample.view.groups[i], sample.groups[i], verbose);
    rows += text.row;
    errors += text.errors;
    warnings += text.warnings;
  }
  for (const std::string& one : sample.trouble) warnings += one + "\n";
  return fmt::format(
      "NCCL version {} compatible report of ringwood {}\n\n{}\n"
      "Communicators... (0.00s)\n=============\n\n"
      "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
      "    #  in group  per comm  per node  per comm  in group\n{}"
      "\nErrors\n======\n\n{}Warnings\n========\n\n{}",
      kFormatOf, RINGWOOD_VERSION, job_summary(sample), rows, errors, warnings);
}

std::string RasSession::monitor(std::string_view groups) {
  bool lifecycle = false, traces = false;
  groups.remove_prefix(std::min(groups.find_first_not_of(' '), groups.size()));
  while (!groups.empty()) {
    const std::string_view one = groups.substr(0, groups.find(','));
    groups.remove_prefix(std::min(groups.size(), one.size() + 1));
    if (one.empty()) continue;
    const bool all = same(one, "all");
    if (!all && !same(one, "lifecycle") && !same(one, "trace"))
      return fmt::format("ERROR: Invalid event group '{}'\n", one);
    lifecycle = lifecycle || all || same(one, "lifecycle");
    traces = traces || all || same(one, "trace");
  }
  traces_ = traces;
  lifecycle_ = lifecycle || !traces;
  monitors_ = true;
  return "OK\n";
}

std::string RasSession::take(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (after(line, "CLIENT PROTOCOL ")) return fmt::format("SERVER PROTOCOL {}\n", kProtocol);
  if (const auto value = after(line, "TIMEOUT "))
    return is_timeout(*value) ? "OK\n" : fmt::format("ERROR: Invalid timeout value {}\n", *value);
  if (const auto format = after(line, "SET FORMAT ")) {
    if (!same(*format, "text") && !same(*format, "json"))
      return fmt::format("ERROR: Invalid format {}\n", *format);
    json_ = same(*format, "json");
    return "OK\n";
  }
  if (same(line, "MONITOR")) return monitor("");
  if (const auto groups = after(line, "MONITOR ")) return monitor(*groups);
  verbose_ = same(line, "VERBOSE STATUS");
  if (!verbose_ && !same(line, "STATUS")) return fmt::format("ERROR: Unknown command {}\n", line);
  finished_ = true;
  const Sample* const sample = sample_();
  if (!sample) return json_ ? "{}\n" : "the job has ended\n";
  return json_ ? ras_json(*sample) : ras_text(*sample, verbose_);
}

std::string RasSession::notice(const JobEvent& event) const {
  const char* name = nullptr;
  std::string_view group = kLifecycle;
  switch (event.kind) {
    case EventKind::stopped: name = "PEER_UNRESPONSIVE"; break;
    case EventKind::recovered: name = "PEER_RECOVERED"; break;
    case EventKind::lost:
    case EventKind::failed: name = "PEER_DEAD"; break;
    case EventKind::left: name = "PEER_DISCONNECTED"; break;
    default:
      group = kTrace;
      name = event.kind == EventKind::late        ? "RINGWOOD_LATE"
             : event.kind == EventKind::behind    ? "RINGWOOD_BEHIND"
             : event.kind == EventKind::caught_up ? "RINGWOOD_CAUGHT_UP"
             : event.kind == EventKind::alarm     ? "RINGWOOD_ALARM"
                                                  : "RINGWOOD_LOG";
  }
  if (group == kTrace ? !traces_ : !lifecycle_) return "";
  if (!json_)
    return fmt::format("[{}] {}: Process {} on node {} managing rank {} {}\n",
                       local_time(event.time), name, event.pid, event.host, event.rank, event.text);
  const Json notice = {{"timestamp", local_time(event.time)},
                       {"group", group},
                       {"event", name},
                       {"peer",
                        {{"host", event.host},
                         {"pid", event.pid},
                         {"cuda_devs", {std::max(0, event.rank)}},
                         {"nvml_devs", {std::max(0, event.rank)}}}},
                       {"details", event.text}};
  return notice.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ringwood::tools
