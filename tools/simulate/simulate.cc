#include "tools/simulate/simulate.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tools/perf/perf.h"
#include "tools/prediction.h"
#include "tools/simulate/simulate_report.h"
#include "tools/simulate/simulate_rows.h"
#include "tools/simulate/simulate_svg.h"
#include "tools/simulate/simulate_trace.h"

namespace ringwood::tools {
namespace {

// As they are typed.
struct Typed {
  QueryWords words;
  std::string parameters = "host";
  std::string rail_use, island_rate = "150G", island_latency = "3us";
  std::vector<std::string> slow, dead, dead_uplinks, slow_ranks, late;
  int hosts = 1, ranks_per_host = 1, cores = 0, rails = 0;
  double oversubscription = 0;
  std::string scale;
  SimulateOptions options;
};

[[noreturn]] void refuse(std::string why) {
  throw Error(ErrorCode::invalid_argument, std::move(why));
}

// "150G": bytes/s, in powers of 1000.
double parse_rate(const std::string& what, const std::string& text) {
  constexpr std::pair<char, double> kUnits[] = {{'G', 1e9}, {'M', 1e6}, {'K', 1e3}};
  size_t end = 0;
  double value = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  for (const auto& [unit, times] : kUnits)
    if (end > 0 && end + 1 == text.size() && text[end] == unit && value > 0 && value < 1e6)
      return value * times;
  refuse(fmt::format("{} \"{}\" is not of the form 150G, in bytes a second with K, M or G", what,
                     text));
}

void set_query(const Typed& typed, SimulateOptions& options) {
  if (int64_t{typed.hosts} * typed.ranks_per_host > kMaxRanks)
    refuse(fmt::format("--hosts {} with --ranks-per-host {} are more than {} ranks: take fewer",
                       typed.hosts, typed.ranks_per_host, kMaxRanks));
  TuningQuery& q = options.query = parse_query(typed.words, typed.hosts * typed.ranks_per_host);
  q.several_hosts = typed.hosts > 1;
  options.hosts = typed.hosts;
  options.ranks_per_host = typed.ranks_per_host;
  options.bytes = moves_data(q.collective) ? parse_bytes("BYTES", typed.words.bytes) : 0;
}

void set_network(const Typed& typed, SimulateOptions& options) {
  NetworkShape& shape = options.shape;
  if (typed.oversubscription > 0) {
    if (shape.uplinks > 0) refuse("--uplinks and --oversubscription say the same: take one");
    if (shape.leaf == 0) refuse("--oversubscription needs --leaf, the hosts of a leaf switch");
    shape.uplinks = std::max(1, static_cast<int>(std::lround(shape.leaf / typed.oversubscription)));
  }
  if (shape.leaf > 0 && shape.uplinks == 0) shape.uplinks = shape.leaf;
  if (shape.uplinks > 0 && shape.leaf == 0) refuse("--uplinks needs --leaf, the hosts of a leaf");
  shape.island_rate = parse_rate("--island-rate", typed.island_rate);
  shape.island_latency = parse_seconds("--island-latency", typed.island_latency);
}

void set_faults(const Typed& typed, SimulateOptions& options) {
  const auto add = [&](const char* option, const std::vector<std::string>& texts,
                       void (*parse)(Faults&, std::string_view)) {
    for (const std::string& text : texts) {
      parse(options.faults, text);
      options.fault_texts.push_back(fmt::format("{} {}", option, text));
    }
  };
  add("slow", typed.slow, add_slow_port);
  add("dead", typed.dead, add_dead_port);
  add("dead uplink", typed.dead_uplinks, add_dead_uplink);
  add("slow rank", typed.slow_ranks, add_slow_rank);
  add("late", typed.late, add_late_rank);
  for (const std::vector<RankFault>* faults : {&options.faults.slow, &options.faults.late})
    for (const RankFault& fault : *faults)
      if (fault.rank >= options.query.n)
        refuse(fmt::format("there is no rank{}: the last one is rank{}", fault.rank,
                           options.query.n - 1));
}

// The parameters, for the hosts and leaves that were typed.
void set_machine(const Typed& typed, SimulateOptions& options) {
  MachineModel machine =
      read_parameters_from(typed.parameters, Options::from_environment()).machine;
  machine.hosts = std::move(options.machine.hosts);
  machine.nodes.clear();
  machine.net.leaves.clear();
  std::erase_if(machine.net.exceptions,
                [&](const HostException& host) { return host.host >= options.hosts; });
  if (options.shape.leaf > 0) {
    for (int h = 0; h < options.hosts; ++h) machine.net.leaves.push_back(h / options.shape.leaf);
    // Why far paths are slower is simulated.
    if (machine.net.far) machine.net.far->rate = machine.net.nic;
  }
  if (typed.cores > 0)
    machine.cores = typed.cores;
  else if (!is_file(typed.parameters))
    machine.cores = std::max(machine.cores, typed.ranks_per_host);
  if (typed.rails > 0) machine.net.rails = typed.rails;
  if (!typed.rail_use.empty()) machine.net.rail_of_rank = typed.rail_use == "rank";
  options.shape.rails = machine.net.rails;
  if (machine.net.rail_of_rank) options.shape.use = RailUse::by_rank;
  options.machine = std::move(machine);
}

SimulateOptions parse(const Typed& typed) {
  SimulateOptions options = typed.options;
  set_query(typed, options);
  set_network(typed, options);
  set_faults(typed, options);
  for (int r = 0; r < options.query.n; ++r)
    options.machine.hosts.push_back(r / typed.ranks_per_host);
  if (!options.algorithm.empty() && options.algorithm != "all" &&
      !find_algorithm(options.query.collective, options.algorithm))
    choose(options.query, Options{}, options.algorithm);
  set_machine(typed, options);
  // Refuses what is not there.
  [[maybe_unused]] const Network network(options.machine, options.query.n, options.shape,
                                         options.faults);
  return options;
}

// One line on stderr that is written over, at most five times a second; at first after a fifth of
// a second, or at once where it is asked for.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted)
      : on_(wanted || ::isatty(STDERR_FILENO) == 1),
        last_(wanted ? Clock::time_point() : Clock::now()) {}
  ~ProgressLine() { erase(); }
  void erase() {
    if (shown_) fmt::print(stderr, "\r\033[K");
    shown_ = false;
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const std::string& text) {
    const auto now = Clock::now();
    if (!on_ || now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now;
    shown_ = true;
    fmt::print(stderr, "\r\033[K{}", text);
    std::fflush(stderr);
  }

 private:
  const bool on_;
  bool shown_ = false;
  Clock::time_point last_;
};

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) refuse(fmt::format("{} cannot be written: name a file in a folder that exists", path));
}

// "8..16384": each doubling; hosts of as many ranks as typed, as long as there are so many.
std::vector<int> group_sizes(const std::string& text) {
  const size_t dots = text.find("..");
  const auto number = [](const std::string& digits) {
    const bool good = !digits.empty() && digits.size() < 6 &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
    return good ? std::stoi(digits) : 0;
  };
  const int first = dots == std::string::npos ? 0 : number(text.substr(0, dots));
  const int last = dots == std::string::npos ? 0 : number(text.substr(dots + 2));
  if (first < 1 || last < first || last > kMaxRanks)
    refuse(fmt::format("--scale \"{}\" is not of the form 8..{}", text, kMaxRanks));
  std::vector<int> sizes;
  for (int n = first; n <= last; n *= 2) sizes.push_back(n);
  return sizes;
}

ScalePoint simulate_point(const Typed& typed, const Progress& progress) {
  ScalePoint point{parse(typed), {}};
  point.rows = rows_of(point.options);
  for (SimulatedRow& row : point.rows) simulate(point.options, row, progress);
  return point;
}

std::vector<ScalePoint> simulate_points(const Typed& typed, const Progress& progress) {
  if (typed.scale.empty()) return {simulate_point(typed, progress)};
  std::vector<ScalePoint> points;
  for (const int n : group_sizes(typed.scale)) {
    Typed one = typed;
    one.ranks_per_host = std::min(typed.ranks_per_host, n);
    if (n % one.ranks_per_host != 0)
      refuse(
          fmt::format("--scale goes by doublings from {}, which are not hosts of {}: begin with "
                      "a multiple",
                      n, typed.ranks_per_host));
    one.hosts = n / one.ranks_per_host;
    points.push_back(simulate_point(
        one, [&](const std::string& text) { progress(fmt::format("{} ranks, {}", n, text)); }));
  }
  return points;
}

void run_simulate(const Typed& typed) {
  if (!typed.options.svg.empty() && typed.scale.empty())
    refuse("--svg draws what --scale simulates: add --scale 8..1024");
  if (!typed.options.trace.empty() && !typed.scale.empty())
    refuse("--trace is of one group: leave out --scale");
  ProgressLine line(typed.options.progress);
  const Progress progress = [&](const std::string& text) { line.show(text); };
  const std::vector<ScalePoint> points = simulate_points(typed, progress);
  if (!typed.options.svg.empty()) write(typed.options.svg, draw_scale(points));
  const ScalePoint& first = points.front();
  if (const SimulatedRow* row = taken_of(first.rows); row && !typed.options.trace.empty())
    write(typed.options.trace, print_trace(first.options, trace(first.options, *row, progress)));
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

}  // namespace

void add_simulate_command(CLI::App& app) {
  auto typed = std::make_shared<Typed>();
  CLI::App* command = app.add_subcommand(
      "simulate", "What algorithms would take on thousands of ranks, also with faults");
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command->add_option(name, value, description)->type_name(type);
  };
  SimulateOptions& options = typed->options;
  add("collective", typed->words.collective, "COLLECTIVE", "all_reduce, broadcast, ...")
      ->required();
  add("bytes", typed->words.bytes, "BYTES", "512, 64K, 1G; of the whole buffer, or of n blocks")
      ->required();
  add("--hosts", typed->hosts, "H", "hosts (1)")->check(CLI::Range(1, kMaxRanks).description(""));
  add("--ranks-per-host", typed->ranks_per_host, "K", "ranks of each (1)")
      ->check(CLI::Range(1, kMaxRanks).description(""));
  add("--cores", typed->cores, "N", "of each host (one for each rank, or those of a file)")
      ->check(CLI::Range(1, 4096).description(""));
  add("-a,--algorithm", options.algorithm, "NAME|all", "only this one, or each (sensible ones)");
  add("--segments", options.segments, "N", "that messages are cut into (those of the choice)")
      ->check(CLI::Range(1, 256).description(""));
  add("-d,--dtype", typed->words.type, "TYPE", "float32, bfloat16, ... (float32)");
  add("-o,--op", typed->words.op, "OP", "sum, avg, max, ... (sum)");
  add("--parameters", typed->parameters, "host|default|FILE",
      "measured ones of this host, the defaults, or those of a file (host)");
  add("--rails", typed->rails, "N", "ports of each host (those of the parameters)")
      ->check(CLI::Range(1, Network::kMaxRails).description(""));
  add("--rail-use", typed->rail_use, "striped|rank",
      "pieces over all rails, or a rail for a rank (as the parameters have it)")
      ->check(CLI::IsMember({"striped", "rank"}).description(""));
  add("--leaf", options.shape.leaf, "N", "hosts of a leaf switch (a core without limits)")
      ->check(CLI::Range(1, kMaxRanks).description(""));
  add("--uplinks", options.shape.uplinks, "N", "of a leaf, for each rail (as many as hosts)")
      ->check(CLI::Range(1, 1024).description(""));
  add("--oversubscription", typed->oversubscription, "X", "hosts of a leaf / its uplinks")
      ->check(CLI::Range(0.01, 1024.0).description(""));
  add("--seed", options.shape.seed, "N", "of the switches' hash (1)");
  add("--seeds", options.seeds, "N", "seeds from there on: p10, p50 and p90 (1)")
      ->check(CLI::Range(1, 1000).description(""));
  add("--island", options.shape.island, "N", "ranks of an island of GPUs; no core moves data then")
      ->check(CLI::Range(1, 1024).description(""));
  add("--island-rate", typed->island_rate, "RATE", "bytes/s of a rank in its island (150G)");
  add("--island-latency", typed->island_latency, "TIME", "of a message there (3us)");
  add("--slow", typed->slow, "host7/rail1=0.5", "a port, or a host's ports, with that rate");
  add("--dead", typed->dead, "host3/rail0", "a port without a link");
  add("--dead-uplink", typed->dead_uplinks, "leaf0/3", "uplinks without a link; leaf0/rail1/0-7");
  add("--slow-rank", typed->slow_ranks, "rank5=0.1", "a rank with that part of a core");
  add("--late", typed->late, "rank3=5ms", "a rank that calls so late");
  add("--trace", options.trace, "FILE", "time line of the choice, for ui.perfetto.dev");
  add("--scale", typed->scale, "8..16384", "each doubling of the ranks, in place of --hosts");
  add("--svg", options.svg, "FILE", "with --scale: bus bandwidth by ranks, as a picture");
  command->add_flag("--progress", options.progress, "on stderr, also where that is no terminal");
  command->add_flag("--json", options.json, "an object with all rows");
  command->footer(
      "Example:\n"
      "  ringwood simulate all_reduce 64M --hosts 128 --ranks-per-host 8 --rails 2 --leaf 32 "
      "--slow host7/rail1=0.5");
  command->callback([typed] { run_simulate(*typed); });
}

}  // namespace ringwood::tools
