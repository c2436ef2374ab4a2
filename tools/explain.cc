#include "tools/explain.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/machine/group_model.h"
#include "collectives/tuner/machine/network_facts.h"
#include "collectives/tuner/model_tuner.h"
#include "collectives/tuner/plugin/plugin_tuner.h"
#include "collectives/tuner/tuning/link_tuning.h"
#include "tools/cluster/cluster_file.h"
#include "tools/command/help.h"
#include "tools/command/numbers.h"
#include "tools/command/types_and_ops.h"
#include "tools/counted.h"
#include "tools/perf/perf.h"
#include "tools/prediction.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

// As they are typed.
struct RawArguments {
  QueryWords words;
  Shape shape;
  LinkWords links;
  NetworkWords network;
  std::string cluster_file;
  ClusterFile known;  // of cluster_file
  std::string parameters = "host", save, tuning;
  int nodes = 1, cores = 0;
  double tolerance = -1;
  bool json = false, all = false;
};

// Without a shape that of a file, if it has one; else hosts like this one.
void place(const RawArguments& typed, MachineModel& machine) {
  if (!typed.shape.typed() && typed.nodes == 1 && !machine.hosts.empty()) return;
  machine.hosts = places_of(typed.shape);
  machine.nodes = nodes_of(machine.hosts, typed.nodes);
}

ModelQuery query_of(const RawArguments& typed, const MachineModel& machine) {
  ModelQuery q = parse_query(typed.words, static_cast<int>(machine.hosts.size()));
  q.several_hosts = host_count(machine) > 1;
  q.tolerance = typed.tolerance;
  q.machine = &machine;
  return q;
}

// Those that the times are of.
size_t priced_bytes(ModelQuery q) {
  q.bytes = size_class(q.bytes);
  return whole_bytes(q);
}

nlohmann::ordered_json json_of(const RawArguments& typed, const ModelQuery& q,
                               const std::vector<Candidate>& candidates,
                               const Parameters& parameters, const FoundTuning& tuning) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Candidate& c : candidates) {
    nlohmann::ordered_json row = {{"algorithm", c.algorithm},  {"segments", c.segments},
                                  {"wire", to_string(c.wire)}, {"time_us", nullptr},
                                  {"simulated", c.simulated},  {"chosen", c.chosen},
                                  {"why_not", c.why_not},      {"why", c.why}};
    if (c.roundings > 0) row["roundings"] = c.roundings;
    if (!std::isinf(c.seconds)) row["time_us"] = c.seconds * 1e6;
    if (!std::isinf(c.seconds)) row["shared_time_us"] = c.zero_copy_seconds * 1e6;
    rows.push_back(std::move(row));
  }
  nlohmann::ordered_json links = nlohmann::ordered_json::object();
  if (tuning.file)
    for (const LinkSetting& s : tuning.file->links) links[s.name] = s.value;
  nlohmann::ordered_json left = nlohmann::ordered_json::array();
  for (const ClusterFile::Line& line : typed.known.left) left.push_back(line.key);
  for (const std::string& one : parameters.unknown) left.push_back(one);
  nlohmann::ordered_json origins;
  for (const ParameterLine& line : lines_of(parameters)) origins[line.name] = line.origin;
  return {{"version", RINGWOOD_VERSION},
          {"collective", to_string(q.collective)},
          {"ranks", q.n},
          {"hosts", host_count(*q.machine)},
          {"bytes", whole_bytes(q)},
          {"priced_bytes", priced_bytes(q)},
          {"dtype", to_string(q.type)},
          {"tuning", tuning.file ? nlohmann::ordered_json(tuning.path) : nullptr},
          {"links", std::move(links)},
          {"parameters", print(*q.machine)},
          {"origins", std::move(origins)},
          {"not_predicted", std::move(left)},  // keys of the cluster's file
          {"candidates", std::move(rows)}};
}

// All parameters by origin, as comments of at most 100 columns.
std::string print_origins(const Parameters& parameters) {
  std::map<std::string, std::string> texts;
  std::map<std::string, size_t> widths;
  for (const ParameterLine& line : lines_of(parameters)) {
    const std::string item = fmt::format(" {}={}", line.name, line.value);
    std::string& text = texts[line.origin];
    size_t& width = widths[line.origin];
    if (text.empty() || width + item.size() > 100) {
      text += text.empty() ? fmt::format("# {}:", line.origin) : "\n#  ";
      width = line.origin.size() + 3;
    }
    text += item;
    width += item.size();
  }
  std::string all;
  for (const auto& [origin, text] : texts) all += text + "\n";
  return all;
}

// The tuning file that a group on this host would find, or the one that is named, whatever its
// hosts are.
// As a group's of these ranks.
std::shared_ptr<const Tuner> tuner_of(const MachineModel& machine, const FoundTuning& tuning,
                                      int ranks, const Options& options) {
  auto model = std::make_shared<ModelTuner>(
      machine, options, tuning.file ? std::make_shared<const TuningFile>(*tuning.file) : nullptr);
  const ringwood_tuner* const plugin = load_plugin(options);
  return plugin ? with_plugin(model, *plugin, ranks, options) : model;
}

FoundTuning tuning_of(const RawArguments& typed, const ModelQuery& q, const Options& options) {
  const int hosts = host_count(*q.machine);
  if (!typed.tuning.empty() && typed.tuning != "off") {
    FoundTuning found;
    found.path = typed.tuning;
    try {
      found.file = parse_tuning_file(read_tuning_text(typed.tuning));
    } catch (const Error& error) {
      refuse(fmt::format("--tuning {}: {}", typed.tuning, error.cause));
    }
    if (found.file->fingerprint.ranks() != q.n)
      refuse(fmt::format("--tuning {}: it is for {} ranks, not {}", typed.tuning,
                         found.file->fingerprint.ranks(), q.n));
    return found;
  }
  if (typed.tuning == "off" || typed.parameters != "host" || hosts != 1 || q.n < 2) return {};
  TuningFingerprint here;
  here.hosts.assign(static_cast<size_t>(q.n), 0);
  here.nodes = q.machine->nodes;
  here.hardware = hardware_of({host_facts("shm")});
  here.table = table_hash();
  const std::vector<RankFacts> ranks(static_cast<size_t>(q.n), own_rank_facts(options));
  LinkChoice links = choose_link_file(link_files(options.tuning_file, q.n), here, options, ranks);
  here.knobs = link_knobs(with(options, links.file ? links.file->file->links : LinkSettings{}));
  FoundTuning found = find_tuning(options.tuning_file, here);
  if (found.path != links.path) return found;
  FoundTuning refused;
  refused.path = links.path;
  refused.refusal = links.refusal;
  return refused;
}

void run_explain(const RawArguments& typed) {
  const Options options = Options::from_environment();
  const bool file = is_file(typed.parameters);
  // A bad query is refused before anything is measured.
  Parameters parameters;
  if (file) parameters = read_parameters_from(typed.parameters, options);
  place(typed, parameters.machine);
  query_of(typed, parameters.machine);
  if (!file) {
    const MachineModel placed =
        std::exchange(parameters, read_parameters_from(typed.parameters, options)).machine;
    parameters.machine.hosts = placed.hosts;
    parameters.machine.nodes = placed.nodes;
  }
  if (typed.links.island > 0 && typed.nodes > 1)
    refuse("--island says which GPUs of a host reach each other: leave out --nodes");
  const MachineModel& machine = parameters.machine;
  use_rails(typed.network, parameters);
  use_links(typed.links, parameters);
  if (!file) use_all_rings(parameters.machine, query_of(typed, machine).n, options);
  set_parameters(typed.known, parameters);
  use_network(typed.network, parameters);
  set_cores(parameters.machine, typed.cores, file, typed.parameters == "host");
  if (!typed.save.empty()) save_parameters(typed.save, machine);
  ModelQuery q = query_of(typed, machine);
  if (typed.tolerance < 0) q.tolerance = options.tolerance;
  const FoundTuning tuning = tuning_of(typed, q, options);
  std::vector<Candidate> candidates = tuner_of(machine, tuning, q.n, options)->explain(q);
  if (typed.json) {
    fmt::print("{}\n", json_of(typed, q, candidates, parameters, tuning).dump(2));
    return;
  }
  const int hosts = host_count(machine);
  fmt::print("# ringwood {} explain: {} of {} bytes, {}, {} on {}, {}\n", RINGWOOD_VERSION,
             to_string(q.collective), whole_bytes(q), to_string(q.type), counted(q.n, "rank"),
             counted(hosts, "host"), cores_of(machine));
  if (priced_bytes(q) != whole_bytes(q))
    fmt::print("# times are of {} bytes: sizes are rounded down to an eighth of a power of two\n",
               priced_bytes(q));
  fmt::print("{}", print(std::move(candidates), typed.all ? Shown::all : Shown::nearest));
  if (tuning.file) fmt::print("# tuning file {}: {}\n", tuning.path, summary(*tuning.file));
  if (!tuning.refusal.empty()) fmt::print("# {}\n", tuning.refusal);
  for (const ClusterFile::Line& line : typed.known.left)
    fmt::print("# {}:{}: {} is for ringwood simulate, not in this prediction\n", typed.known.name,
               line.number, line.key);
  for (const std::string& one : parameters.unknown)
    fmt::print("# {} is for ringwood simulate, not in this prediction\n", one);
  fmt::print("# the parameters, by origin\n{}", print_origins(parameters));
}

}  // namespace

void add_explain_command(CLI::App& app) {
  auto typed = std::make_shared<RawArguments>();
  CLI::App* command =
      app.add_subcommand("explain", "What every algorithm would cost, and which is chosen");
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command->add_option(name, value, description)->type_name(type);
  };
  add("collective", typed->words.collective, "COLLECTIVE", "all_reduce, broadcast, ...")
      ->required();
  add("bytes", typed->words.bytes, "BYTES", "512, 64K, 16M; of the whole buffer, or of n blocks");
  add_shape(*command, typed->shape);
  add("--nodes", typed->nodes, "N", "memory nodes of each host (1)")->check(whole(1, 256));
  add("--cores", typed->cores, "N",
      "of each host (of a file; or this host's, for several hosts one for each rank at least)")
      ->check(whole(1, 4096));
  add_cluster(*command, typed->cluster_file);
  add_links(*command, typed->links);
  add_network(*command, typed->network);
  add_type_and_op(*command, typed->words.type, typed->words.op);
  add("--tolerance", typed->tolerance, "ERROR",
      "relative error that sums may have (RINGWOOD_TOLERANCE)")
      ->check(decimal(0.0, 0.999));
  add("--parameters", typed->parameters, "host|default|FILE",
      "measured ones of this host, the defaults, or those of a file (host)");
  add("--save", typed->save, "FILE", "write the parameters to a file for --parameters");
  add("--tuning", typed->tuning, "FILE|off",
      "a file of ringwood tune, or none (on one host: the one that a group here finds)");
  command->add_flag("--all", typed->all,
                    "every candidate, also those that are not near the choice");
  command->add_flag("--json", typed->json, "an object with the parameters and all candidates");
  add_help(
      *command,
      {{"ringwood explain all_reduce 1M --ranks 8", "on this host, as it was measured"},
       {"ringwood explain all_reduce 64M --ranks 16 --hosts 4",
        "four hosts like this one, a core for each rank"},
       {"ringwood explain all_gather 64M --hosts 2048x8 --parameters cluster.txt", ""},
       {"ringwood explain all_reduce 64M --hosts 4x8 --rdma --nic 50G", "on InfiniBand or RoCE"},
       {"ringwood explain all_reduce 64M --cluster cluster.txt", "hosts = 32x8, leaf = 16, ..."},
       {"ringwood explain all_reduce 64M --hosts 2 --tolerance 0.016", "fewer bytes between hosts"},
       {"ringwood explain broadcast 8 --dtype bfloat16 --json", "for programs"}},
      {{0, "all is well"}, {1, "this host could not be measured"}, {2, "bad input"}});
  command->callback([typed, command] {
    if (command->count("--cluster") > 0) typed->known = use_cluster(typed->cluster_file, *command);
    try {
      run_explain(*typed);
    } catch (Error& error) {
      name_cluster(typed->known, error);
      throw;
    }
  });
}

}  // namespace ringwood::tools
