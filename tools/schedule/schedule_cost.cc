#include "tools/schedule/schedule_cost.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "collectives/kernels/types.h"
#include "collectives/plan/plan.h"
#include "collectives/plan/protocol.h"
#include "collectives/plan/proved_schedules.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/cost/cost.h"
#include "collectives/tuner/machine/group_model.h"
#include "tools/command/numbers.h"
#include "tools/counted.h"
#include "tools/perf/perf.h"
#include "tools/prediction.h"

namespace ringwood::tools {
namespace {

// Of HostQueues::work(), for each size: about a second. Beyond it the prediction is an estimate.
constexpr size_t kMaxWork = 50'000'000;
// Of all ranks: they are built, and proved, in some seconds.
constexpr size_t kMaxCostedSteps = 4'000'000;

std::vector<size_t> sizes_of(const TypedCost& cost, Collective collective) {
  if (!moves_data(collective)) return {0};
  std::vector<size_t> sizes;
  for (const std::string& size : CLI::detail::split(cost.sizes, ','))
    if (!size.empty()) sizes.push_back(parse_bytes("--sizes", size));
  if (!sizes.empty()) return sizes;
  if (!cost.sizes.empty()) refuse(fmt::format("--sizes {} names none; write 8,4K,64M", cost.sizes));
  const size_t first = parse_bytes("--minbytes", cost.first);
  const size_t last = parse_bytes("--maxbytes", cost.last);
  if (first == 0) refuse("--minbytes 0 times a factor stays 0; begin with 1 or more");
  if (first > last)
    refuse(fmt::format("--minbytes {} is more than --maxbytes {}", cost.first, cost.last));
  const auto factor = static_cast<size_t>(cost.factor);
  for (size_t size = first; size <= last; size *= factor) {
    sizes.push_back(size);
    if (size > last / factor) break;
  }
  return sizes;
}

// As the choice costs a row (tuner/choice/built_rows.cc), for all ranks.
Load load_of(const Schedules& schedules, const ModelQuery& query, int segments) {
  const MachineModel& machine = *query.machine;
  const bool apart = all_apart(machine.hosts, query.n, machine.loopback);
  Load load{query.collective, query.bytes, size_of(query.type)};
  load.agreement = true;
  load.out_of_place = true;
  load.one_round =
      segments == 1 &&
      small_for_one_round(machine.limits, query.collective, query.bytes, query.n, apart) &&
      std::ranges::all_of(schedules.all, fits_one_round);
  load.most_work = kMaxWork;
  return load;
}

ScheduleCost cost_of(const Schedules& schedules, ModelQuery query, size_t bytes, int segments,
                     const Options& options) {
  ScheduleCost row;
  row.bytes = bytes;
  for (const Candidate& candidate : explain(query, options)) {
    if (!candidate.chosen) continue;
    row.choice = name_of(candidate.algorithm, candidate.wire);
    if (candidate.segments > 1) row.choice += fmt::format(" x{}", candidate.segments);
    row.choice_seconds = candidate.seconds;
  }
  query.bytes = size_class(query.bytes);  // as the choice does
  row.priced_bytes = whole_bytes(query);
  Load load = load_of(schedules, query, segments);
  const Prediction own = predict(schedules.all, load, *query.machine, segments);
  load.zero_copy = true;
  const Prediction shared = predict(schedules.all, load, *query.machine, segments);
  row.seconds = own.seconds;
  row.zero_copy_seconds = shared.seconds;
  row.simulated = own.simulated && shared.simulated;
  if (own.seconds > 0)
    row.busbw_gbs = static_cast<double>(row.priced_bytes) / own.seconds / 1e9 *
                    traits_of(query.collective).bus_factor(query.n);
  return row;
}

void print_table(const Schedules& schedules, const ModelQuery& query, const TypedCost& cost,
                 int segments, const std::vector<ScheduleCost>& rows) {
  const int hosts = host_count(*query.machine);
  fmt::print("# ringwood {} schedule cost: {} by {}, {} on {}, {}, {}, parameters: {}\n",
             RINGWOOD_VERSION, to_string(query.collective), schedules.name(),
             counted(query.n, "rank"), counted(hosts, "host"), to_string(query.type),
             counted(segments, "segment"), cost.parameters);
  fmt::print("{:>12} {:>12} {:>12} {:>10}   {:<28} {:>12} {:>8}\n", "# size", "time", "zero copy",
             "busbw", "instead the choice", "time", "ratio");
  fmt::print("{:>12} {:>12} {:>12} {:>10}   {:<28} {:>12}\n", "# B", "us", "us", "GB/s", "", "us");
  for (const ScheduleCost& row : rows)
    fmt::print(
        "{:>12} {:>11.2f}{} {:>12.2f} {:>10.3f}   {:<28} {:>12.2f} {:>8}\n", row.bytes,
        row.seconds * 1e6, row.simulated ? ' ' : '~', row.zero_copy_seconds * 1e6, row.busbw_gbs,
        row.choice, row.choice_seconds * 1e6,
        row.choice_seconds > 0 ? fmt::format("{:.2f}", row.seconds / row.choice_seconds) : "-");
  fmt::print(
      "# predictions; ratio below 1: faster than the choice{}{}\n",
      std::ranges::all_of(rows, &ScheduleCost::simulated) ? "" : "; ~: an estimate",
      std::ranges::all_of(rows, [](const auto& row) { return row.priced_bytes == row.bytes; })
          ? ""
          : "; sizes are rounded down to an eighth of a power of two");
}

void print_json(const Schedules& schedules, const ModelQuery& query, int segments,
                const std::vector<ScheduleCost>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ScheduleCost& row : rows)
    list.push_back({{"bytes", row.bytes},
                    {"priced_bytes", row.priced_bytes},
                    {"time_us", row.seconds * 1e6},
                    {"zero_copy_time_us", row.zero_copy_seconds * 1e6},
                    {"busbw_gbs", row.busbw_gbs},
                    {"simulated", row.simulated},
                    {"choice", row.choice},
                    {"choice_time_us", row.choice_seconds * 1e6},
                    {"ratio", row.seconds / row.choice_seconds}});
  nlohmann::ordered_json object = {{"version", RINGWOOD_VERSION},
                                   {"collective", to_string(query.collective)},
                                   {"algorithm", nullptr},
                                   {"ranks", query.n},
                                   {"hosts", host_count(*query.machine)},
                                   {"segments", segments},
                                   {"dtype", to_string(query.type)},
                                   {"parameters", print(*query.machine)},
                                   {"rows", std::move(list)}};
  if (schedules.row) object["algorithm"] = schedules.row->name;
  fmt::print("{}\n", object.dump(2));
}

}  // namespace

int print_costs(const TypedSchedule& typed, const TypedCost& cost) {
  const Options options = Options::from_environment();
  require_few_steps(typed, kMaxCostedSteps, "take fewer ranks or segments, or ringwood simulate");
  const Schedules schedules = read_schedules(typed);
  // What is not proved may not end.
  ProvedSchedules::create(schedules.collective, schedules.all, typed.root);
  Parameters parameters = read_parameters_from(cost.parameters, options);
  MachineModel& machine = parameters.machine;
  machine.hosts = schedules.hosts;
  if (machine.hosts.empty()) machine.hosts.assign(schedules.all.size(), 0);
  machine.nodes.clear();
  use_links(cost.links, parameters);
  if (!is_file(cost.parameters)) use_all_rings(machine, schedules.n(), options);
  set_cores(machine, 0, is_file(cost.parameters), cost.parameters == "host");
  std::vector<ScheduleCost> rows;
  ModelQuery query;
  for (const size_t bytes : sizes_of(cost, schedules.collective)) {
    query =
        parse_query({to_string(schedules.collective), fmt::format("{}", bytes), cost.type, cost.op},
                    schedules.n());
    query.several_hosts = host_count(machine) > 1;
    query.machine = &machine;
    rows.push_back(cost_of(schedules, query, bytes, typed.segments, options));
  }
  if (typed.json)
    print_json(schedules, query, typed.segments, rows);
  else
    print_table(schedules, query, cost, typed.segments, rows);
  return 0;
}

}  // namespace ringwood::tools
