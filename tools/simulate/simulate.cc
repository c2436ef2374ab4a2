#include "tools/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "collectives/tuner/machine/group_model.h"
#include "tools/cluster/cluster_file.h"
#include "tools/command/help.h"
#include "tools/command/numbers.h"
#include "tools/command/progress_line.h"
#include "tools/command/text_files.h"
#include "tools/command/types_and_ops.h"
#include "tools/perf/perf.h"
#include "tools/prediction.h"
#include "tools/simulate/simulate_choice.h"
#include "tools/simulate/simulate_html.h"
#include "tools/simulate/simulate_like.h"
#include "tools/simulate/simulate_replay.h"
#include "tools/simulate/simulate_report.h"
#include "tools/simulate/simulate_rows.h"
#include "tools/simulate/simulate_svg.h"
#include "tools/simulate/simulate_trace.h"
#include "tools/simulate/simulate_values.h"
#include "transports/verbs/path/path_end.h"

namespace ringwood::tools {
namespace {

// As they are typed.
struct RawArguments {
  QueryWords words;
  std::string parameters = "host";
  NetworkWords network;
  std::vector<std::string> slow_links, dead, dead_uplinks, slow_ranks, late;
  Shape shape;
  LinkWords links;
  int cores = 0;
  uint64_t seed = 1;
  std::string scale, like, replay, group, cluster_file;
  ClusterFile known;                   // of cluster_file
  std::optional<LikeCluster> cluster;  // of --like or --replay
  std::vector<int> places;             // by rank: its host; empty: as many on each
  SimulatePage page;
  SimulateOptions options;
};

void set_query(const RawArguments& typed, SimulateOptions& options) {
  std::vector<int>& places = options.machine.hosts;
  places = typed.places.empty() ? places_of(typed.shape) : typed.places;
  ModelQuery& q = options.query = parse_query(typed.words, static_cast<int>(places.size()));
  std::vector<int> ranks(static_cast<size_t>(*std::ranges::max_element(places)) + 1);
  for (const int host : places) ++ranks[static_cast<size_t>(host)];
  options.hosts = static_cast<int>(ranks.size());
  options.ranks_per_host = *std::ranges::max_element(ranks);
  q.several_hosts = options.hosts > 1;
  options.bytes = whole_bytes(q);
}

void set_faults(const RawArguments& typed, SimulateOptions& options) {
  if (typed.cluster) add_faults(*typed.cluster, options.hosts, options.faults, options.fault_texts);
  const auto add = [&](const char* option, const std::vector<std::string>& texts,
                       void (*parse)(Faults&, std::string_view)) {
    for (const std::string& text : texts) {
      parse(options.faults, text);
      options.fault_texts.push_back(fmt::format("{} {}", option, text));
    }
  };
  add("slow", typed.network.slow, add_slow_port);
  add("slow link", typed.slow_links, add_slow_link);
  add("dead", typed.dead, add_dead_port);
  add("dead uplink", typed.dead_uplinks, add_dead_uplink);
  add("slow rank", typed.slow_ranks, add_slow_rank);
  add("late", typed.late, add_late_rank);
  require_ranks(options.faults, options.query.n);
}

// The parameters, for the hosts and leaves that were typed.
void set_machine(const RawArguments& typed, SimulateOptions& options) {
  Parameters parameters = typed.cluster ? Parameters{typed.cluster->machine, "", {}, {}}
                                        : read_parameters_from(typed.parameters, options.knobs);
  MachineModel& machine = parameters.machine;
  machine.hosts = std::move(options.machine.hosts);
  machine.nodes.clear();
  use_links(typed.links, parameters);
  if (!is_file(typed.parameters) && !typed.cluster)
    use_all_rings(machine, options.query.n, options.knobs);
  set_parameters(typed.known, parameters);
  machine.net.leaves.clear();
  std::erase_if(machine.net.exceptions,
                [&](const HostException& host) { return host.host >= options.hosts; });
  if (options.shape.leaf > 0) {
    for (int h = 0; h < options.hosts; ++h) machine.net.leaves.push_back(h / options.shape.leaf);
    // Why far paths are slower is simulated.
    if (machine.net.far) machine.net.far->rate = machine.net.nic;
  }
  set_cores(machine, typed.cores, is_file(typed.parameters) || typed.cluster,
            typed.parameters == "host");
  use_rails(typed.network, parameters);
  options.shape.rails = machine.net.rails;
  if (typed.network.queue_pairs == 0 && machine.net.carrier == PathClass::rdma)
    options.shape.queue_pairs =
        verbs::queue_pairs_of_rail(options.knobs.verbs.queue_pairs, machine.net.rails);
  if (typed.cluster) options.shape.pair = typed.cluster->pair;
  if (machine.net.rail_of_rank) options.shape.use = RailUse::by_rank;
  options.machine = std::move(parameters.machine);
}

SimulateOptions parse(const RawArguments& typed) {
  SimulateOptions options = typed.options;
  options.knobs = Options::from_environment();
  set_query(typed, options);
  options.shape = switches_of(typed.network);
  options.shape.seed = typed.seed;
  set_faults(typed, options);
  if (!options.algorithm.empty() && options.algorithm != "all" &&
      !find_algorithm(options.query.collective, options.algorithm))
    choose(options.query, Options{}, options.algorithm);
  set_machine(typed, options);
  // Validates fault names.
  [[maybe_unused]] const Network network(options.machine, options.query.n, options.shape,
                                         options.faults);
  return options;
}

ScalePoint simulate_point(const RawArguments& typed, const Progress& progress) {
  ScalePoint point{parse(typed), {}};
  point.rows = rows_of(point.options);
  simulate(point.options, point.rows, progress);
  return point;
}

std::vector<ScalePoint> simulate_points(const RawArguments& typed, const Progress& progress) {
  if (typed.scale.empty()) return {simulate_point(typed, progress)};
  std::vector<ScalePoint> points;
  for (const int n : group_sizes(typed.scale)) {
    RawArguments one = typed;
    const int each = std::min(std::max(1, typed.shape.ranks_per_host), n);
    if (n % each != 0)
      refuse(
          fmt::format("--scale goes by doublings from {}, which are not hosts of {}: begin with "
                      "a multiple",
                      n, each));
    one.shape = {std::to_string(n / each), 0, each};
    points.push_back(simulate_point(
        one, [&](const std::string& text) { progress(fmt::format("{} ranks, {}", n, text)); }));
  }
  return points;
}

// Hosts, and the ranks of each, that were not typed: those of a cluster.
void take_shape(Shape& shape, const LikeCluster& cluster, const char* unequal) {
  const bool counted = !shape.hosts.empty() && !shape.lists_hosts();
  const bool needs_hosts = shape.hosts.empty() && shape.ranks == 0;
  const bool needs_ranks = shape.ranks == 0 && shape.ranks_per_host == 0;
  if (needs_hosts) shape.hosts = std::to_string(cluster.hosts);
  if (!needs_ranks || !(needs_hosts || counted)) return;
  if (cluster.ranks_per_host == 0)
    refuse(fmt::format("{}; say one with --ranks-per-host", unequal));
  shape.ranks_per_host = cluster.ranks_per_host;
}

// What was not typed is as it was measured.
void use_like(RawArguments& typed, const CLI::App& command) {
  if (command.count("--parameters") > 0)
    refuse("--like has the measured parameters: leave out --parameters");
  typed.cluster = read_like(typed.like);
  typed.page.like = typed.like;
  take_shape(typed.shape, *typed.cluster, "--like: its hosts have different numbers of ranks");
}

void use_cluster_file(RawArguments& typed, CLI::App& command) {
  if (!typed.like.empty()) refuse("--cluster and --like both say what the cluster is: take one");
  typed.known = use_cluster(typed.cluster_file, command);
}

// Says where its parameters come from.
SimulatePage page_of(const RawArguments& typed) {
  SimulatePage page = typed.page;
  page.parameters = !typed.like.empty() ? "measured with the matrix"
                    : typed.cluster     ? "those of the trace"
                                        : typed.parameters;
  return page;
}

void run_simulate(const RawArguments& typed) {
  if (!typed.options.svg.empty() && typed.scale.empty())
    refuse("--svg draws what --scale simulates: add --scale 8..1024");
  if (!typed.options.trace.empty() && !typed.scale.empty())
    refuse("--trace is of one group: leave out --scale");
  ProgressLine line("simulate", typed.options.progress);
  const Progress progress = [&](const std::string& text) { line.show(text); };
  const std::vector<ScalePoint> points = simulate_points(typed, progress);
  if (!typed.options.svg.empty()) write_all("--svg", typed.options.svg, draw_scale(points));
  if (!typed.page.file.empty()) write_html(page_of(typed), points, progress);
  const ScalePoint& first = points.front();
  if (const SimulatedRow* row = taken_of(first.rows); row && !typed.options.trace.empty())
    write_all("--trace", typed.options.trace,
              print_trace(first.options, trace(first.options, *row, progress)));
  line.erase();
  std::vector<std::string> texts;
  for (const ScalePoint& point : points)
    texts.push_back(typed.options.json ? print_json(point.options, point.rows)
                                       : print_table(point.options, point.rows));
  if (typed.options.json && !typed.scale.empty())
    fmt::print("[{}]\n", fmt::join(texts, ",\n"));
  else
    fmt::print("{}{}", fmt::join(texts, "\n"), typed.options.json ? "\n" : "");
}

// The recorded hosts, unless others were typed: whether all ranks are where they were.
bool use_places(RawArguments& typed, const RecordedRun& run, const CLI::App& command) {
  LikeCluster recorded = cluster_of(run);
  const bool placed = !typed.shape.typed() && typed.like.empty();
  if (typed.like.empty() && command.count("--parameters") == 0) typed.cluster = recorded;
  if (placed)
    typed.places = run.machine.hosts;
  else
    take_shape(typed.shape, recorded, "the recorded hosts had different numbers of ranks");
  return placed;
}

void refuse_beside_replay(const CLI::App& command) {
  for (const char* option : {"collective", "bytes", "--scale", "--svg", "--trace", "--seeds",
                             "--segments", "--dtype", "--op"})
    if (command.count(option) > 0)
      refuse(fmt::format("--replay simulates what was recorded: leave out {}", option));
}

void run_replay(RawArguments& typed, const CLI::App& command) {
  refuse_beside_replay(command);
  const RecordedRun run = read_recorded_run(typed.replay, typed.group);
  const bool placed = use_places(typed, run, command);
  typed.words.collective = "barrier";  // each call takes its place
  typed.words.bytes = "0";
  std::string algorithm = std::exchange(typed.options.algorithm, "");
  SimulateOptions options = parse(typed);
  options.algorithm = std::move(algorithm);
  if (placed) options.machine.nodes = run.machine.nodes;
  ProgressLine line("simulate", options.progress);
  const ReplayReport report =
      simulate_replay(options, run, placed, [&](const std::string& text) { line.show(text); });
  line.erase();
  if (!typed.page.file.empty()) write_html(page_of(typed), options, report);
  fmt::print("{}", options.json ? print_json(report) + "\n" : print_table(report));
}

void run(RawArguments& typed, CLI::App& command) {
  require_page(typed.page);
  if (!typed.like.empty()) use_like(typed, command);
  if (!typed.replay.empty()) return run_replay(typed, command);
  if (typed.words.collective.empty())
    refuse("collective is required, as in ringwood simulate all_reduce 64M; or --replay");
  if (typed.words.bytes.empty() && moves_data(parse_collective(typed.words.collective)))
    refuse("bytes is required, as in ringwood simulate all_reduce 64M; or --replay");
  run_simulate(typed);
}

void run_with_cluster(RawArguments& typed, CLI::App& command) {
  if (!typed.scale.empty() && (!typed.shape.hosts.empty() || typed.shape.ranks > 0))
    refuse("--scale says how many ranks: leave out --hosts and --ranks");
  if (command.count("--cluster") > 0) use_cluster_file(typed, command);
  try {
    run(typed, command);
  } catch (Error& error) {
    name_cluster(typed.known, error);
    throw;
  }
}

void add_network_options(CLI::App& command, RawArguments& typed) {
  SimulateOptions& options = typed.options;
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type);
  };
  add_links(command, typed.links);
  add_network(command, typed.network);
  add("--seed", typed.seed, "N", "of the switches' hash (1)")->check(whole(0, INT64_MAX));
  add("--seeds", options.seeds, "N", "seeds from there on: p10, p50 and p90 (1)")
      ->check(whole(1, 1000));
}

void add_replay_options(CLI::App& command, RawArguments& typed) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type);
  };
  CLI::Option* replay = add("--replay", typed.replay, "DIR",
                            "instead: each call of a run that was recorded there "
                            "(RINGWOOD_TRACE_DIR), beside what it took");
  add("--group", typed.group, "NAME", "of a trace with several groups")->needs(replay);
  add("--html", typed.page.file, "FILE", "a report with plots, which opens without a network");
  add("--compare", typed.page.compare, "[NAME=]FILE",
      "JSON of ringwood perf or nccl-tests: measured beside predicted, in that report");
}

void add_fault_options(CLI::App& command, RawArguments& typed) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type);
  };
  add("--slow-link", typed.slow_links, "host2-host3=0.25", "from one host to the other one");
  add("--dead", typed.dead, "host3/rail0", "a port without a link");
  add("--dead-uplink", typed.dead_uplinks, "leaf0/3",
      "uplinks without a link; leaf0/rail1/0-7, pod0/3");
  add("--slow-rank", typed.slow_ranks, "rank5=0.1", "a rank with that part of a core");
  add("--late", typed.late, "rank3=5ms", "a rank that calls so late");
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  auto typed = std::make_shared<RawArguments>();
  CLI::App* command = app.add_subcommand(
      "simulate", "What algorithms would take on thousands of ranks, also with faults");
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command->add_option(name, value, description)->type_name(type);
  };
  SimulateOptions& options = typed->options;
  add("collective", typed->words.collective, "COLLECTIVE", "all_reduce, broadcast, ...");
  add("bytes", typed->words.bytes, "BYTES", "512, 64K, 1G; of the whole buffer, or of n blocks");
  add_shape(*command, typed->shape);
  add("--cores", typed->cores, "N",
      "of each host (of a file; or this host's, for several hosts one for each rank at least)")
      ->check(whole(1, 4096));
  add("-a,--algorithm", options.algorithm, "ALGORITHM|all",
      "only this one, or each (sensible ones)");
  command->add_flag("--all", options.every_message,
                    "simulate every row, however many messages it has (some are estimated)");
  add("--segments", options.segments, "N", "that messages are cut into (those of the choice)")
      ->check(whole(1, 256));
  add_type_and_op(*command, typed->words.type, typed->words.op);
  add("--parameters", typed->parameters, "host|default|FILE",
      "measured ones of this host, the defaults, or those of a file (host)");
  add_cluster(*command, typed->cluster_file);
  add("--like", typed->like, "FILE",
      "the cluster that ringwood matrix --json or doctor --json has measured, with what is slow");
  add_replay_options(*command, *typed);
  add_network_options(*command, *typed);
  add_fault_options(*command, *typed);
  add("--trace", options.trace, "FILE", "time line of the choice, for ui.perfetto.dev");
  add("--scale", typed->scale, "8..16384", "each doubling of the ranks, in place of --hosts");
  add("--svg", options.svg, "FILE", "with --scale: bus bandwidth by ranks, as a picture");
  command->add_flag("--progress", options.progress, "on stderr, also where that is no terminal");
  command->add_flag("--json", options.json, "an object with all rows");
  add_help(
      *command,
      {{"ringwood simulate all_reduce 64M --hosts 128 --ranks-per-host 8", "the sensible rows"},
       {"ringwood simulate all_reduce 64M --hosts 128 --ranks-per-host 8 --all",
        "none of them estimated"},
       {"ringwood simulate all_reduce 64M --hosts 16 --ranks-per-host 8 --rails 2 --slow "
        "host7/rail1=0.5 --late rank3=5ms",
        "with a slow port and a late rank"},
       {"ringwood simulate all_reduce 64M --hosts 128 --rails 2 --leaf 32 --oversubscription 2 "
        "--seeds 20",
        "leaf switches with hashed uplinks"},
       {"ringwood simulate all_reduce 64M --ranks-per-host 8 --scale 8..1024 --svg scale.svg",
        "bus bandwidth by ranks, as a picture"},
       {"ringwood simulate all_reduce 64M --cluster cluster.txt", "hosts = 32x8, leaf = 16, ..."},
       {"ringwood simulate all_reduce 64M --like matrix.json",
        "a measured cluster, its slow links"},
       {"ringwood simulate --replay traces --like matrix.json",
        "a recorded run on that cluster: what it took, what it would take"},
       {"ringwood simulate all_reduce 64M --hosts 2 --html page.html --compare perf.json",
        "a page: predicted beside measured"},
       {"ringwood simulate all_gather 1M --hosts 4 --json", "for programs"}},
      {{0, "all is well"}, {1, "this host could not be measured"}, {2, "bad input"}});
  command->callback([typed, command] { run_with_cluster(*typed, *command); });
}

}  // namespace ringwood::tools
