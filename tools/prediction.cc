#include "tools/prediction.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "collectives/tuner/machine/calibrate.h"
#include "collectives/tuner/machine/places.h"
#include "collectives/tuner/machine/port_prior.h"
#include "tools/command/text_files.h"
#include "tools/command/types_and_ops.h"
#include "tools/perf/perf.h"
#include "transports/base/error.h"
#include "transports/base/knobs/knobs.h"

namespace ringwood::tools {
namespace {

constexpr size_t kMaxLine = 256 << 10;

// The words of the text form, after the version.
std::vector<std::string> words_of(const MachineModel& machine) {
  std::istringstream in(print(machine));
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  words.erase(words.begin());
  return words;
}

void refuse_other_letters(const std::string& hosts) {
  if (hosts.find_first_not_of("0123456789x*,") == std::string::npos && !hosts.empty()) return;
  refuse(
      fmt::format("--hosts {}: neither the host of each rank (0,0,1,1), nor hosts and the ranks of "
                  "each (2x8), nor how many hosts (2)",
                  hosts.substr(0, 40)));
}

}  // namespace

ModelQuery parse_query(const QueryWords& words, int n) {
  ModelQuery q;
  q.collective = parse_collective(words.collective);
  q.type = parse_data_type(words.type);
  q.op = parse_reduce_op(words.op);
  require_supported(q.collective, q.type, q.op);
  q.n = n;
  q.bytes = parse_bytes("BYTES", words.bytes);
  if (in_blocks(q.collective))
    q.bytes = std::max(size_of(q.type), q.bytes / static_cast<size_t>(q.n));
  if (!moves_data(q.collective)) q.bytes = 0;
  return q;
}

bool is_file(const std::string& source) { return source != "host" && source != "default"; }

Parameters read_parameters_from(const std::string& source, const Options& options) {
  if (source == "host") {
    const CalibrationUse use = calibration_use(options.calibration);
    Parameters found{calibration(cache_directory(), use), "measured", {}};
    const auto prior = use == CalibrationUse::off ? std::nullopt : port_prior();
    if (!prior) return found;
    found.machine.net.nic = prior->rate;
    found.machine.net.rails = prior->rails;
    found.priors = {"nic", "rails"};
    return found;
  }
  if (source == "default") return {MachineModel{}, "default", {}};
  std::ifstream in(source);
  if (!in)
    refuse(
        fmt::format("--parameters {}: the file cannot be read: this is neither host, default, nor "
                    "a file that can be read",
                    source));
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("ringwood-machine-") || line.size() > kMaxLine) continue;
    try {
      return {parse_machine_model(line), source, {}};
    } catch (const Error& error) {
      refuse(fmt::format("--parameters {}: {}", source, error.cause));
    }
  }
  refuse(fmt::format("--parameters {}: no line of it begins with ringwood-machine-", source));
}

void save_parameters(const std::string& file, const MachineModel& machine) {
  write_all("--save", file, print(machine) + "\n");
}

std::vector<int> hosts_of(const std::string& hosts, int ranks, int usual) {
  int count = 0;
  const auto [end, error] = std::from_chars(hosts.data(), hosts.data() + hosts.size(), count);
  if (error == std::errc() && end == hosts.data() + hosts.size()) {
    if (count < 1 || count > kMaxRanks)
      refuse(fmt::format("--hosts {}: not in range 1 to {}", hosts, kMaxRanks));
    const int n = ranks > 0 ? ranks : std::max(usual, count);
    if (count > n)
      refuse(fmt::format("--hosts {} contradicts the {} rank{}: a host has one at least", count, n,
                         n == 1 ? "" : "s"));
    std::vector<int> places(n);
    for (int r = 0; r < n; ++r) places[r] = static_cast<int>(int64_t{r} * count / n);
    return places;
  }
  refuse_other_letters(hosts);
  std::vector<int> places = parse_places("--hosts", hosts);
  if (places.empty() || places.size() > kMaxRanks)
    refuse(
        fmt::format("--hosts {}: {} ranks, not in range 1 to {}", hosts, places.size(), kMaxRanks));
  if (ranks > 0 && ranks != static_cast<int>(places.size()))
    refuse(fmt::format("--hosts {} contradicts the {} rank{}: it places {}", hosts, ranks,
                       ranks == 1 ? "" : "s", places.size()));
  return places;
}

std::vector<int> nodes_of(const std::vector<int>& hosts, int nodes) {
  if (nodes == 1) return {};
  std::vector<int> of_host(*std::ranges::max_element(hosts) + 1), index = of_host;
  for (const int host : hosts) ++of_host[host];
  std::map<std::pair<int, int64_t>, int> known;  // numbered in the order of first ranks
  std::vector<int> places;
  for (const int host : hosts) {
    if (of_host[host] < nodes)
      refuse(fmt::format("--nodes {} are more than the {} ranks of host {}", nodes, of_host[host],
                         host));
    const int64_t node = int64_t{index[host]++} * nodes / of_host[host];
    const auto next = static_cast<int>(known.size());
    places.push_back(known.emplace(std::pair(host, node), next).first->second);
  }
  return places;
}

std::string cores_of(const MachineModel& machine) {
  const std::string cores = fmt::format("{} core{}", machine.cores, machine.cores == 1 ? "" : "s");
  return machine.net.sharing > 1 ? fmt::format("{} for {} hosts", cores, machine.net.sharing)
                                 : cores + " each";
}

std::vector<ParameterLine> lines_of(const Parameters& parameters) {
  MachineModel machine = parameters.machine, defaults;
  machine.hosts = machine.nodes = {};
  const std::vector<std::string> words = words_of(machine), usual = words_of(defaults);
  std::vector<ParameterLine> lines;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t at = words[i].find('=');
    const std::string name = words[i].substr(0, at);
    if (name == "hosts" || name == "nodes") continue;
    const bool prior = std::ranges::count(parameters.priors, name) > 0;
    lines.push_back({name, words[i].substr(at + 1),
                     prior                  ? "prior"
                     : words[i] == usual[i] ? "default"
                                            : parameters.origin});
  }
  return lines;
}

}  // namespace ringwood::tools
