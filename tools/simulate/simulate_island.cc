#include "tools/simulate/simulate_island.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "collectives/device/kernel/words.h"
#include "tools/command/text_files.h"
#include "tools/perf/perf.h"
#include "tools/simulate/simulate_island_report.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

constexpr int kDevices = 8;

[[noreturn]] void refuse(std::string why) {
  throw Error(ErrorCode::invalid_argument, std::move(why));
}

void refuse_other_options(const CLI::App& command) {
  static constexpr std::string_view kTaken[] = {
      "collective", "bytes", "--island",    "--island-model", "--island-set", "--hosts",
      "--datatype", "--op",  "--algorithm", "--json",         "--progress"};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && std::ranges::find(kTaken, name) == std::end(kTaken))
      refuse(
          fmt::format("--island-model simulates the programs of devices and has no use for {}; "
                      "leave it out, or --island-model",
                      name));
  }
}

// A line that begins like print(IslandModel).
device::IslandModel model_in(const std::string& file) {
  constexpr size_t kMaxFile = 64 << 10;
  constexpr std::string_view kBegin = "ringwood-island-";
  std::string text;
  try {
    text = read_all(file);
  } catch (const Error&) {
    refuse(fmt::format("--island-model {} is neither {}, nor a file that can be read", file,
                       fmt::join(device::island_presets(), ", ")));
  }
  const size_t begin = text.find(kBegin);
  if (text.size() > kMaxFile || begin == std::string::npos)
    refuse(fmt::format("--island-model {}: no line of it begins with {}", file, kBegin));
  return device::parse_island_model(
      std::string_view(text).substr(begin, text.find_first_of("\r\n", begin) - begin));
}

device::IslandModel read_model(const IslandWords& words) {
  const std::vector<std::string> presets = device::island_presets();
  const bool known = std::ranges::find(presets, words.model) != presets.end();
  device::IslandModel model = known ? device::island_preset(words.model) : model_in(words.model);
  for (const std::string& change : words.changes) device::set_parameter(model, change);
  return model;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

CollectiveArgs args_of(const TuningQuery& query) {
  CollectiveArgs args{query.collective, query.type, query.op, query.root, 0, {}};
  if (moves_data(query.collective))
    args.count = std::max<size_t>(1, query.bytes / size_of(query.type));
  return args;
}

std::vector<IslandRow> rows_of(device::DeviceRows& known, const IslandReport& report,
                               const IslandWords& words, size_t bytes) {
  const CollectiveArgs args = args_of(report.query);
  std::vector<IslandRow> rows;
  if (report.islands > 1)
    return {{bytes,
             {},
             predict_hosts(known, args, report.devices, report.islands, report.model),
             true}};
  const device::DeviceChoice choice = choose_device(known, args, report.devices, report.model);
  if (words.algorithm.empty()) return {{bytes, choice, {}, true}};
  const std::string only = words.algorithm == "all" ? "" : words.algorithm;
  for (const device::DeviceChoice& one :
       device_choices(known, args, report.devices, report.model, only)) {
    const bool chosen = one.row == choice.row && one.packets == choice.packets;
    rows.push_back({bytes, chosen ? choice : one, {}, chosen});
  }
  if (rows.empty()) refuse(fmt::format("{} is not proved for {} devices", only, report.devices));
  return rows;
}

void check(const IslandReport& report, const IslandWords& words) {
  const Collective collective = report.query.collective;
  if (report.islands > 1 && collective != Collective::all_reduce)
    refuse(fmt::format("between islands only all_reduce is predicted, not {}: leave out --hosts",
                       to_string(collective)));
  if (words.algorithm.empty() || words.algorithm == "all") return;
  if (report.islands > 1)
    refuse(fmt::format("--hosts {} has one way to be predicted: leave out -a", report.islands));
  const AlgorithmRow* const row = find_algorithm(collective, words.algorithm);
  if (row && row->accepts(report.devices)) return;
  std::vector<std::string> names;
  for (const AlgorithmRow& one : algorithm_table())
    if (one.collective == collective && one.accepts(report.devices)) names.emplace_back(one.name);
  refuse(fmt::format("{} has no algorithm {} for {} devices; there are {}", to_string(collective),
                     words.algorithm, report.devices, fmt::join(names, ", ")));
}

IslandReport simulate(const IslandWords& words) {
  IslandReport report;
  report.model = read_model(words);
  report.devices = words.devices > 0 ? words.devices : kDevices;
  report.islands = words.islands;
  if (report.devices > device::kMaxRanks)
    refuse(fmt::format("--island {} is more than the {} devices that can map each other's memory",
                       report.devices, device::kMaxRanks));
  device::DeviceRows known;
  for (const std::string& size : split(words.query.bytes)) {
    QueryWords one = words.query;
    one.bytes = size;
    report.query = parse_query(one, report.devices);
    check(report, words);
    const size_t bytes =
        moves_data(report.query.collective) ? parse_bytes("BYTES", size) : size_t{0};
    for (const IslandRow& row : rows_of(known, report, words, bytes)) report.rows.push_back(row);
  }
  return report;
}

}  // namespace

void run_simulate_island(const IslandWords& words, const CLI::App& command) {
  refuse_other_options(command);
  if (words.query.bytes.empty())
    refuse(fmt::format(
        "{} is required, as in ringwood simulate all_reduce 8,64K,256M --island-model h100",
        words.query.collective.empty() ? "collective" : "bytes"));
  const IslandReport report = simulate(words);
  fmt::print("{}", words.json ? print_json(report) : print_table(report));
}

}  // namespace ringwood::tools
