#include "tools/prediction.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "collectives/tuner/machine/calibrate.h"
#include "collectives/tuner/machine/port_prior.h"
#include "tools/command/numbers.h"
#include "tools/command/text_files.h"
#include "tools/command/types_and_ops.h"
#include "tools/counted.h"
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
  if (!words.bytes.empty())
    q.bytes = parse_bytes("BYTES", words.bytes);
  else if (moves_data(q.collective))
    refuse(fmt::format("bytes is required, as in {} 64M", words.collective));
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
  const LinkWords usual;
  if (words.island == 0 &&
      (words.island_rate != usual.island_rate || words.island_latency != usual.island_latency))
    refuse("--island-rate and --island-latency need --island, the ranks of an island");
  if (words.island > 0) {
    machine.device = {rate, latency};
    machine.nodes = islands_of(machine.hosts, words.island);
    for (const char* name : {"device_rate", "device_latency"}) parameters.typed.emplace_back(name);
  }
  if (!words.rdma || machine.net.carrier == PathClass::rdma) return;
  use_rdma_prior(machine);
  for (const char* name : {"carrier", "net_latency", "net_post", "net_copied", "net_eager",
                           "net_piece", "net_zero_copy"})
    parameters.priors.emplace_back(name);
}

void add_network(CLI::App& command, NetworkWords& words) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type);
  };
  add("--rails", words.rails, "N", "ports of each host (those of the parameters)")
      ->check(whole(1, Network::kMaxRails));
  add("--rail-use", words.rail_use, "striped|rank",
      "pieces over all rails, or a rail for a rank (as the parameters have it)")
      ->check(CLI::IsMember({"striped", "rank"}).description(""));
  add("--leaf", words.leaf, "N", "hosts of a leaf switch (a core without limits)")
      ->check(whole(1, kMaxRanks));
  add("--uplinks", words.uplinks, "N", "of a leaf, for each rail (as many as hosts)")
      ->check(whole(1, 1024));
  add("--oversubscription", words.oversubscription, "X", "hosts of a leaf / its uplinks")
      ->check(decimal(0.01, 1024.0));
  add("--pod", words.pod, "N", "leaves of a pod, below a core (all have the same spines)")
      ->check(whole(1, kMaxRanks));
  add("--pod-uplinks", words.pod_uplinks, "N", "of a pod, for each rail (as its leaves have)")
      ->check(whole(1, 65'536));
  add("--pod-oversubscription", words.pod_oversubscription, "X", "uplinks of its leaves / its own")
      ->check(decimal(0.01, 1024.0));
  add("--queue-pairs", words.queue_pairs, "N",
      "of two ranks on each rail: switches treat them apart (RINGWOOD_VERBS_QPS)")
      ->check(whole(1, 128));
  add("--routing", words.routing, "hashed|adaptive",
      "a flow takes one uplink, or all of them (hashed)")
      ->check(CLI::IsMember({"hashed", "adaptive"}).description(""));
  add("--slow", words.slow, "host7/rail1=0.5", "a port, or a host's ports, with that rate");
}

namespace {

// Uplinks of a leaf or a pod, of which `below` would be as many as there are links below it.
int uplinks_of(const char* name, const char* part, int typed, double oversubscription, int below) {
  if (oversubscription <= 0) return typed > 0 ? typed : below;
  if (typed > 0)
    refuse(fmt::format("--{0}uplinks and --{0}oversubscription say the same: take one", name));
  const double uplinks = below / oversubscription;
  const auto rounded = static_cast<int>(std::lround(uplinks));
  constexpr double kRounding = 1e-6;  // of 1.6 as a binary number, say
  if (rounded < 1 || std::abs(uplinks - rounded) > kRounding * uplinks)
    refuse(
        fmt::format("--{0}oversubscription {1:g} of {2} would need {3:g} uplinks: say --{0}uplinks",
                    name, oversubscription, part, uplinks));
  return rounded;
}

}  // namespace

NetworkShape switches_of(const NetworkWords& words) {
  NetworkShape shape;
  shape.leaf = words.leaf;
  shape.pod = words.pod;
  shape.adaptive = words.routing == "adaptive";
  if (words.queue_pairs > 0) shape.queue_pairs = words.queue_pairs;
  const auto needs = [](bool given, const char* option, const char* what) {
    if (given) refuse(fmt::format("--{} needs {}", option, what));
  };
  if (shape.leaf == 0) {
    constexpr const char* kLeaf = "--leaf, the hosts of a leaf switch";
    needs(words.uplinks > 0, "uplinks", kLeaf);
    needs(words.oversubscription > 0, "oversubscription", kLeaf);
    needs(shape.adaptive, "routing", kLeaf);
    needs(shape.pod > 0, "pod", kLeaf);
    needs(words.queue_pairs > 0, "queue-pairs", kLeaf);
  }
  if (shape.pod == 0) {
    constexpr const char* kPod = "--pod, the leaves of a pod";
    needs(words.pod_uplinks > 0, "pod-uplinks", kPod);
    needs(words.pod_oversubscription > 0, "pod-oversubscription", kPod);
  }
  if (shape.leaf > 0)
    shape.uplinks = uplinks_of("", ("leaves of " + counted(shape.leaf, "host")).c_str(),
                               words.uplinks, words.oversubscription, shape.leaf);
  if (shape.pod > 0)
    shape.pod_uplinks =
        uplinks_of("pod-", ("pods of " + counted(shape.pod, "leaf", "leaves")).c_str(),
                   words.pod_uplinks, words.pod_oversubscription, shape.pod * shape.uplinks);
  return shape;
}

void use_rails(const NetworkWords& words, Parameters& parameters) {
  NetworkParameters& net = parameters.machine.net;
  if (words.rails > 0) {
    net.rails = words.rails;
    parameters.typed.emplace_back("rails");
  }
  if (words.rail_use.empty()) return;
  net.rail_of_rank = words.rail_use == "rank";
  parameters.typed.emplace_back("rail_of_rank");
}

PathParameters far_path(const NetworkParameters& net, const NetworkShape& shape) {
  const double rate = net.nic * std::min(1.0, static_cast<double>(shape.uplinks) / shape.leaf);
  return {net.far ? net.far->latency : net.latency, rate, net.both_ways};
}

void use_network(const NetworkWords& words, Parameters& parameters) {
  NetworkParameters& net = parameters.machine.net;
  const NetworkShape shape = switches_of(words);
  const int hosts = host_count(parameters.machine);
  if (shape.adaptive) parameters.unknown.emplace_back("routing");
  if (shape.pod > 0) parameters.unknown.emplace_back("pod");
  if (words.queue_pairs > 0) parameters.unknown.emplace_back("queue-pairs");
  if (shape.leaf > 0) {
    net.far = far_path(net, shape);
    net.leaves.clear();
    for (int h = 0; h < hosts; ++h) net.leaves.push_back(h / shape.leaf);
    for (const char* name : {"leaves", "far"}) parameters.typed.emplace_back(name);
  }
  if (words.slow.empty()) return;
  Faults faults;
  for (const std::string& text : words.slow) add_slow_port(faults, text);
  for (size_t i = 0; i < faults.ports.size(); ++i) {
    const PortFault& port = faults.ports[i];
    if (port.host >= hosts)
      refuse(
          fmt::format("--slow: there is no host{}: the last one is host{}", port.host, hosts - 1));
    if (port.rail >= net.rails)
      refuse(fmt::format("--slow: host{} has no rail{}: its last one is rail{}", port.host,
                         port.rail, net.rails - 1));
    // Measured rates are those of both ways.
    if (port.way != PortWay::both)
      parameters.unknown.push_back(fmt::format("the direction of slow {}", words.slow[i]));
  }
  net.exceptions = exceptions_of(faults.ports);
  if (net.exceptions.size() > kMaxExceptions)
    refuse(fmt::format("--slow: more than {} slow ports", kMaxExceptions));
  parameters.typed.emplace_back("exceptions");
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
  const std::string cores = counted(machine.cores, "core");
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
