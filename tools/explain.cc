#include "tools/explain.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "collectives/choice/choose.h"
#include "collectives/machine/calibrate.h"
#include "tools/perf/perf.h"
#include "transports/base/knobs/knobs.h"

namespace ringwood::tools {
namespace {

// As they are typed.
struct Typed {
  std::string collective, bytes, type = "float32", op = "sum", parameters = "host";
  int ranks = 2, hosts = 1, nodes = 1;
  double tolerance = -1;
  bool json = false;
};

[[noreturn]] void refuse(std::string why) {
  throw Error(ErrorCode::invalid_argument, std::move(why));
}

// Hosts like this one, with equally many ranks, or one more on the first ones.
MachineModel machine_model_of(const Typed& typed, const Options& options) {
  MachineModel machine = calibration(cache_directory(), typed.parameters == "default"
                                                            ? CalibrationUse::off
                                                            : calibration_use(options.calibration));
  for (int r = 0; r < typed.ranks; ++r)
    machine.hosts.push_back(static_cast<int>(int64_t{r} * typed.hosts / typed.ranks));
  for (int r = 0; r < typed.ranks && typed.nodes > 1; ++r)
    machine.nodes.push_back(static_cast<int>(int64_t{r} * typed.hosts * typed.nodes / typed.ranks));
  return machine;
}

TuningQuery query_of(const Typed& typed, const MachineModel& machine) {
  TuningQuery q;
  q.collective = parse_collective(typed.collective);
  q.type = parse_data_type(typed.type);
  q.op = parse_reduce_op(typed.op);
  if (!supports(q.collective, q.type, q.op))
    refuse(fmt::format("{} cannot be reduced by {}", to_string(q.type), to_string(q.op)));
  q.n = typed.ranks;
  q.bytes = parse_bytes("BYTES", typed.bytes);
  // Whole blocks, of at least one element each, as `ringwood perf` has them.
  if (in_blocks(q.collective))
    q.bytes = std::max(size_of(q.type), q.bytes / static_cast<size_t>(q.n));
  if (!moves_data(q.collective)) q.bytes = 0;
  q.several_hosts = typed.hosts > 1;
  q.tolerance = typed.tolerance;
  q.machine = &machine;
  return q;
}

nlohmann::ordered_json json_of(const Typed& typed, const TuningQuery& q,
                               const std::vector<Candidate>& candidates) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Candidate& c : candidates) {
    nlohmann::ordered_json row = {{"algorithm", c.algorithm},  {"segments", c.segments},
                                  {"wire", to_string(c.wire)}, {"time_us", nullptr},
                                  {"simulated", c.simulated},  {"chosen", c.chosen},
                                  {"why_not", c.why_not}};
    if (!std::isinf(c.seconds)) row["time_us"] = c.seconds * 1e6;
    if (!std::isinf(c.seconds)) row["shared_time_us"] = c.zero_copy_seconds * 1e6;
    rows.push_back(std::move(row));
  }
  return {{"version", RINGWOOD_VERSION},
          {"collective", to_string(q.collective)},
          {"ranks", typed.ranks},
          {"hosts", typed.hosts},
          {"bytes", parse_bytes("BYTES", typed.bytes)},
          {"dtype", to_string(q.type)},
          {"parameters", print(*q.machine)},
          {"candidates", std::move(rows)}};
}

void run_explain(const Typed& typed) {
  if (typed.hosts > typed.ranks)
    refuse(fmt::format("--hosts {} is more than --ranks {}", typed.hosts, typed.ranks));
  if (int64_t{typed.hosts} * typed.nodes > typed.ranks)
    refuse(fmt::format("--nodes {} on each of --hosts {} are more than --ranks {}", typed.nodes,
                       typed.hosts, typed.ranks));
  const Options options = Options::from_environment();
  // A bad query is refused before anything is measured.
  const MachineModel defaults = default_machine_model(typed.ranks, typed.hosts > 1);
  query_of(typed, defaults);
  const MachineModel machine = machine_model_of(typed, options);
  TuningQuery q = query_of(typed, machine);
  if (typed.tolerance < 0) q.tolerance = options.tolerance;
  std::vector<Candidate> candidates = explain(q, options);
  if (typed.json) {
    fmt::print("{}\n", json_of(typed, q, candidates).dump(2));
    return;
  }
  fmt::print("# ringwood {} explain: {} of {} bytes, {}, {} rank{} on {} host{}, {} core{} each\n",
             RINGWOOD_VERSION, to_string(q.collective), parse_bytes("BYTES", typed.bytes),
             to_string(q.type), typed.ranks, typed.ranks == 1 ? "" : "s", typed.hosts,
             typed.hosts == 1 ? "" : "s", machine.cores, machine.cores == 1 ? "" : "s");
  fmt::print("{}", print(std::move(candidates)));
}

}  // namespace

void add_explain_command(CLI::App& app) {
  auto typed = std::make_shared<Typed>();
  CLI::App* command =
      app.add_subcommand("explain", "What every algorithm would cost, and which is chosen");
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command->add_option(name, value, description)->type_name(type);
  };
  add("collective", typed->collective, "COLLECTIVE", "all_reduce, broadcast, ...")->required();
  add("bytes", typed->bytes, "BYTES", "512, 64K, 16M; of the whole buffer, or of n blocks")
      ->required();
  add("--ranks", typed->ranks, "N", "ranks of the group (2)")
      ->check(CLI::Range(1, 16384).description(""));
  add("--hosts", typed->hosts, "H", "hosts like this one that they are spread over (1)")
      ->check(CLI::Range(1, 16384).description(""));
  add("--nodes", typed->nodes, "N", "memory nodes of each host (1)")
      ->check(CLI::Range(1, 256).description(""));
  add("-d,--type", typed->type, "TYPE", "float32, bfloat16, ... (float32)");
  add("-o,--op", typed->op, "OP", "sum, avg, max, ... (sum)");
  add("--tolerance", typed->tolerance, "ERROR",
      "relative error that sums may have (RINGWOOD_TOLERANCE)")
      ->check(CLI::Range(0.0, 0.999).description(""));
  add("--parameters", typed->parameters, "host|default",
      "measured ones of this host, or the defaults")
      ->check(CLI::IsMember({"host", "default"}).description(""));
  command->add_flag("--json", typed->json, "an object with the parameters and all candidates");
  command->footer(
      "Example:\n"
      "  ringwood explain all_reduce 1M --ranks 8 --hosts 2");
  command->callback([typed] { run_explain(*typed); });
}

}  // namespace ringwood::tools
