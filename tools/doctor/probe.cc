#include "tools/doctor/probe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <set>

#include "tools/doctor/collect/tree.h"
#include "tools/doctor/probe_addresses.h"
#include "tools/doctor/rules/facts.h"
#include "tools/gather.h"

namespace ringwood::tools::doctor {
namespace {

constexpr size_t kMaxPairs = 32;  // that are named one by one
// Of the exchange of addresses.
constexpr std::chrono::milliseconds kTime{1500}, kForEach{10};

bool is_first(const Snapshot& host, int rank) {
  return !host.ranks.empty() && host.ranks.front() == rank;
}

// The number of this run, rank 0's.
uint64_t agree_on_key(Communicator& group) {
  std::random_device random;
  const uint64_t mine = (uint64_t{random()} << 32) | random();
  return static_cast<uint64_t>(
      leading_number(gather_texts(group, std::to_string(mine >> 2))[0]).value_or(0));
}

std::string to_text(const std::vector<ProbeTarget>& targets,
                    const std::vector<ProbeAddress>& mine) {
  std::string text;
  for (const ProbeTarget& target : targets) {
    if (target.full_answered) continue;
    for (const ProbeAddress& own : mine)
      if (own.rail == target.address.rail)
        text +=
            fmt::format("{} {} {} {} {} {}\n", target.host, own.rail, target.small_answered ? 0 : 1,
                        own.address, target.address.address, std::min(own.mtu, target.address.mtu));
  }
  return text;
}

void add_failures(const std::string& text, int from, size_t hosts, std::vector<FailedPath>& all) {
  for (const std::string& line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() != 6) continue;
    std::vector<int64_t> numbers;
    for (const std::string& word : words) numbers.push_back(leading_number(word).value_or(-1));
    if (numbers[0] < 0 || numbers[0] >= static_cast<int64_t>(hosts)) continue;
    all.push_back({from, static_cast<int>(numbers[0]), static_cast<int>(numbers[1]),
                   numbers[2] == 1,
                   fmt::format("{} -> {}, {} bytes", print_ipv4(static_cast<uint32_t>(numbers[3])),
                               print_ipv4(static_cast<uint32_t>(numbers[4])), numbers[5])});
  }
}

void probe_addresses(Communicator& group, const Snapshots& hosts, size_t mine,
                     ProbeResult& result) {
  const uint64_t key = agree_on_key(group);
  std::optional<AddressProbe> probe;
  if (is_first(hosts[mine], group.rank())) probe.emplace(hosts[mine]);
  const auto texts = gather_texts(group, probe ? to_text(probe->addresses()) : "");
  std::vector<ProbeTarget> targets;
  size_t all = 0;
  for (size_t i = 1; i <= hosts.size(); ++i) {
    const size_t host = (mine + i) % hosts.size();
    const auto addresses =
        parse_probe_addresses(texts[static_cast<size_t>(hosts[host].ranks.front())]);
    if (addresses.empty())
      result.not_checked.push_back({"probe",
                                    "it has no IPv4 address that could be probed",
                                    hosts[host].host,
                                    {"probe-unreachable", "probe-mtu"}});
    all += addresses.size();
    for (const ProbeAddress& one : addresses)
      if (host != mine) targets.push_back({one, static_cast<int>(host)});
  }
  if (probe) probe->exchange(key, targets, kTime + kForEach * static_cast<int>(all));
  const auto failures = gather_texts(group, probe ? to_text(targets, probe->addresses()) : "");
  std::vector<FailedPath> failed;
  std::vector<std::string> names;
  for (size_t host = 0; host < hosts.size(); ++host) {
    names.push_back(hosts[host].host);
    add_failures(failures[static_cast<size_t>(hosts[host].ranks.front())], static_cast<int>(host),
                 hosts.size(), failed);
  }
  for (Finding& finding : name_failures(failed, names)) result.findings.push_back(finding);
}

// Of a job that may use verbs: its environment does not forbid it.
bool wants_verbs(const Snapshot& host) {
  const auto transports = knob_in(host, "RINGWOOD_TRANSPORTS");
  return knob_number(host, "RINGWOOD_VERBS_DISABLE").value_or(0) == 0 &&
         (!transports || transports->value.find("verbs") != std::string::npos);
}

// Hosts that could use verbs between them, and whose ranks use TCP. Each rank tells the first such
// rank of each other host, of at most so many hosts.
void probe_transports(Communicator& group, const Snapshots& hosts, size_t mine,
                      ProbeResult& result) {
  constexpr int kMaxTold = 64;
  const auto able = [](const Snapshot& host) { return has_verbs(host) && wants_verbs(host); };
  std::string text;
  int told = 0;
  for (size_t i = 1; able(hosts[mine]) && i < hosts.size() && told < kMaxTold; ++i) {
    const size_t host = (mine + i) % hosts.size();
    if (!able(hosts[host])) continue;
    for (const int peer : hosts[host].ranks) {
      if (group.transport_to(peer) != "tcp") continue;
      text += fmt::format("{} {}\n", host, peer);
      ++told;
      break;
    }
  }
  const auto texts = gather_texts(group, text);
  std::vector<std::string> names;
  FailedPairs pairs;
  for (size_t host = 0; host < hosts.size(); ++host) {
    names.push_back(hosts[host].host);
    for (const int rank : hosts[host].ranks) {
      for (const std::string& line : lines_of(texts[static_cast<size_t>(rank)])) {
        const auto words = words_of(line);
        const auto to = words.size() == 2 ? leading_number(words[0]) : std::nullopt;
        if (!to || *to < 0 || *to >= static_cast<int64_t>(hosts.size())) continue;
        pairs.try_emplace(std::minmax(static_cast<int>(host), static_cast<int>(*to)),
                          fmt::format("rank {} reaches rank {} over tcp, and both hosts have RDMA "
                                      "ports that could be used",
                                      rank, words[1]));
      }
    }
  }
  for (Finding& finding : name_pairs("probe-over-tcp", std::move(pairs), names))
    result.findings.push_back(finding);
}

Finding finding_of(const char* id, const std::string& host, const std::string& evidence) {
  const Rule* rule = find_rule(id);
  return {id, rule->severity, evidence, rule->fix, host, {}};
}

}  // namespace

std::vector<Finding> name_failures(const std::vector<FailedPath>& failed,
                                   const std::vector<std::string>& hosts) {
  std::vector<Finding> findings;
  for (const bool small : {true, false}) {
    const char* id = small ? "probe-unreachable" : "probe-mtu";
    std::map<int, FailedPairs> by_rail;
    for (const FailedPath& path : failed)
      if (path.small == small)
        by_rail[path.rail].try_emplace(std::minmax(path.from, path.to), path.what);
    for (auto& [rail, pairs] : by_rail) {
      std::vector<Finding> of_rail = name_pairs(id, std::move(pairs), hosts);
      for (Finding& one : of_rail) one.evidence = fmt::format("rail {}: {}", rail, one.evidence);
      findings.insert(findings.end(), of_rail.begin(), of_rail.end());
    }
  }
  return findings;
}

std::vector<Finding> name_pairs(const char* id, FailedPairs pairs,
                                const std::vector<std::string>& hosts) {
  std::vector<Finding> findings;
  const size_t n = hosts.size();
  if (n > 2 && pairs.size() == n * (n - 1) / 2)
    return {finding_of(id, fmt::format("{}", fmt::join(hosts, ", ")),
                       "all hosts: " + pairs.begin()->second)};
  for (int host = 0; n > 2 && host < static_cast<int>(n); ++host) {
    const auto touches = [&](const auto& pair) {
      return pair.first.first == host || pair.first.second == host;
    };
    if (std::count_if(pairs.begin(), pairs.end(), touches) + 1 < static_cast<int64_t>(n)) continue;
    const auto one = std::find_if(pairs.begin(), pairs.end(), touches);
    findings.push_back(
        finding_of(id, hosts[static_cast<size_t>(host)], "all other hosts: " + one->second));
    std::erase_if(pairs, touches);
  }
  if (pairs.size() > kMaxPairs) {
    std::set<int> all;
    for (const auto& [pair, what] : pairs) all.insert({pair.first, pair.second});
    std::vector<std::string> of;
    for (const int host : all) of.push_back(hosts[static_cast<size_t>(host)]);
    findings.push_back(
        finding_of(id, fmt::format("{}", fmt::join(of, ", ")),
                   fmt::format("{} pairs of hosts: {}", pairs.size(), pairs.begin()->second)));
    return findings;
  }
  for (const auto& [pair, what] : pairs)
    findings.push_back(finding_of(id,
                                  fmt::format("{}, {}", hosts[static_cast<size_t>(pair.first)],
                                              hosts[static_cast<size_t>(pair.second)]),
                                  what));
  return findings;
}

std::vector<Finding> name_slow(const Matrix& matrix) {
  std::vector<Finding> findings;
  const auto name = [&](int host) { return matrix.hosts[static_cast<size_t>(host)]; };
  for (const SlowPath& slow : matrix.slow) {
    const auto [low, high] = std::minmax(slow.from, slow.to);
    const std::string host = high < 0  ? fmt::format("{}", fmt::join(matrix.hosts, ", "))
                             : low < 0 ? name(high)
                                       : fmt::format("{}, {}", name(low), name(high));
    const auto same = std::find_if(findings.begin(), findings.end(),
                                   [&](const Finding& one) { return one.host == host; });
    const std::string evidence = describe(matrix, slow);
    if (same != findings.end())
      same->evidence += "; " + evidence;
    else
      findings.push_back(finding_of("probe-slow-pair", host, evidence));
  }
  return findings;
}

ProbeResult probe_hosts(Communicator& group, const Snapshots& hosts, size_t mine,
                        const MakeGroup& make,
                        const std::function<void(const std::string&)>& progress) {
  ProbeResult result;
  if (hosts.size() < 2) {
    result.not_checked.push_back({"probe",
                                  "there is one host only",
                                  hosts[mine].host,
                                  {"probe-slow-pair", "probe-unreachable", "probe-mtu"}});
    return result;
  }
  if (progress) progress("addresses");
  probe_addresses(group, hosts, mine, result);
  probe_transports(group, hosts, mine, result);
  MatrixOptions options;
  options.host = hosts[mine].host;
  options.progress = progress;
  result.matrix = measure_matrix(group, options);
  RailProbe rails = probe_rails(group, hosts, mine, *result.matrix, make, progress);
  result.not_checked.insert(result.not_checked.end(), rails.not_checked.begin(),
                            rails.not_checked.end());
  Matrix all = *result.matrix;
  if (rails.matrix)
    all.slow.insert(all.slow.end(), rails.matrix->slow.begin(), rails.matrix->slow.end());
  for (Finding& finding : name_slow(all)) result.findings.push_back(finding);
  result.by_rail = std::move(rails.matrix);
  if (const auto missing = not_measured(*result.matrix); !missing.empty())
    result.not_checked.push_back({"probe",
                                  fmt::format("{} rates could not be measured, the first one {}",
                                              missing.size(), missing[0]),
                                  "",
                                  {"probe-slow-pair"}});
  return result;
}

}  // namespace ringwood::tools::doctor
