#include "tools/prediction.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "collectives/tuner/machine/calibrate.h"
#include "collectives/tuner/machine/port_prior.h"
#include "tools/command/numbers.h"
#include "tools/command/text_files.h"
#include "tools/command/types_and_ops.h"
#include "tools/perf/perf.h"
#include "tools/simulate/simulate_values.h"
#include "tools/simulation/faults.h"
#include "transports/base/error.h"
#include "transports/base/knobs/knobs.h"

namespace ringwood::tools {
namespace {

constexpr size_t kMaxLine = 256 << 10;

// By rank: its island, of so many ranks of a host; empty: no host has more.
std::vector<int> islands_of(const std::vector<int>& hosts, int ranks) {
  std::map<int, int> seen;                   // by host
  std::map<std::pair<int, int>, int> known;  // numbered in the order of first ranks
  std::vector<int> places;
  for (const int host : hosts) {
    const int island = seen[host]++ / ranks, next = static_cast<int>(known.size());
    places.push_back(known.emplace(std::pair(host, island), next).first->second);
  }
  return known.size() == seen.size() ? std::vector<int>{} : places;
}

// The words of the text form, after the version.
std::vector<std::string> words_of(const MachineModel& machine) {
  std::istringstream in(print(machine));
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  words.erase(words.begin());
  return words;
}

}  // namespace

ModelQuery parse_query(const QueryWords& words, int n) {
  if (words.collective == "sendrecv")
    refuse("sendrecv has no algorithms to choose from; ringwood perf sendrecv measures it");
  ModelQuery q;
  q.collective = parse_collective(words.collective);
  q.type = parse_data_type(words.type);
  q.op = parse_reduce_op(words.op);
  require_supported(q.collective, q.type, q.op);
  q.n = n;
  q.bytes = parse_bytes("BYTES", words.bytes);
  if (in_blocks(q.collective)) {
    const size_t count = q.bytes / static_cast<size_t>(q.n) / size_of(q.type);
    q.bytes = std::max<size_t>(1, count) * size_of(q.type);
  }
  if (!moves_data(q.collective)) q.bytes = 0;
  return q;
}

size_t whole_bytes(const ModelQuery& query) {
  return in_blocks(query.collective) ? query.bytes * static_cast<size_t>(query.n) : query.bytes;
}

bool is_file(const std::string& source) { return source != "host" && source != "default"; }

Parameters read_parameters_from(const std::string& source, const Options& options) {
  if (source == "host") {
    const CalibrationUse use = calibration_use(options.calibration);
    Parameters found{calibration(cache_directory(), use), "measured", {}, {}};
    const auto prior = use == CalibrationUse::off ? std::nullopt : port_prior();
    if (!prior) return found;
    found.machine.net.nic = prior->rate;
    found.machine.net.rails = prior->rails;
    found.priors = {"nic", "rails"};
    if (prior->rdma) use_links({"", true}, found);
    return found;
  }
  if (source == "default") return {MachineModel{}, "default", {}, {}};
  std::error_code ignored;
  if (!std::filesystem::exists(source, ignored))
    refuse_file("--parameters", source, "this is neither host, default, nor a file");
  std::istringstream in(read_all("--parameters", source));
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("ringwood-machine-") || line.size() > kMaxLine) continue;
    try {
      return {parse_machine_model(line), source, {}, {}};
    } catch (const Error& error) {
      refuse(fmt::format("--parameters {}: {}", source, error.cause));
    }
  }
  refuse(fmt::format("--parameters {}: no line of it begins with ringwood-machine-", source));
}

void save_parameters(const std::string& file, const MachineModel& machine) {
  write_all("--save", file, print(machine) + "\n");
}

void add_links(CLI::App& command, LinkWords& words) {
  command
      .add_option("--nic", words.nic,
                  "bytes/s of all ports of a host, each way (as the parameters have it)")
      ->type_name("RATE");
  command.add_flag("--rdma", words.rdma,
                   "hosts are linked by InfiniBand or RoCE; where the parameters have not measured "
                   "that, as such cards usually are");
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type);
  };
  add("--island", words.island, "N", "ranks of an island of GPUs; no core moves data then")
      ->check(whole(1, 1024));
  add("--island-rate", words.island_rate, "RATE", "bytes/s of a rank in its island (150G)");
  add("--island-latency", words.island_latency, "TIME", "of a message there (3us)");
}

void use_links(const LinkWords& words, Parameters& parameters) {
  if (!words.nic.empty()) {
    parameters.machine.net.nic = parse_rate("--nic", words.nic);
    parameters.typed.emplace_back("nic");
  }
  MachineModel& machine = parameters.machine;
  const double rate = parse_rate("--island-rate", words.island_rate);
  const double latency = parse_seconds("--island-latency", words.island_latency);
  if (words.island > 0) {
    machine.device = {rate, latency};
    machine.nodes = islands_of(machine.hosts, words.island);
    for (const char* name : {"device_rate", "device_latency"}) parameters.typed.emplace_back(name);
  }
  if (!words.rdma || machine.net.carrier == PathClass::rdma) return;
  use_rdma_prior(machine);
  for (const char* name :
       {"carrier", "net_latency", "net_post", "net_copied", "net_eager", "net_zero_copy"})
    parameters.priors.emplace_back(name);
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

void set_cores(MachineModel& machine, int typed, bool file, bool measured) {
  if (typed > 0) machine.cores = typed;
  if (typed > 0 || file || machine.hosts.empty()) return;
  if (measured && host_count(machine) == 1) return;
  std::vector<int> of_host(static_cast<size_t>(host_count(machine)));
  for (const int host : machine.hosts) ++of_host[static_cast<size_t>(host)];
  machine.cores = std::max(machine.cores, *std::ranges::max_element(of_host));
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
    const auto among = [&](const auto& names) { return std::ranges::count(names, name) > 0; };
    lines.push_back({name, words[i].substr(at + 1),
                     among(parameters.typed)    ? "typed"
                     : among(parameters.priors) ? "prior"
                     : words[i] == usual[i]     ? "default"
                                                : parameters.origin});
  }
  return lines;
}

}  // namespace ringwood::tools
