#include "tools/simulate/simulate_island_report.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace ringwood::tools {
namespace {

using Json = nlohmann::ordered_json;

const char* way_of(const device::DeviceChoice& choice) {
  return !choice.row ? "" : choice.packets ? "packets" : "bulk";
}
// GB/s: of the algorithm, and of the bus as nccl-tests has it.
std::pair<double, double> bandwidth_of(const IslandReport& report, const IslandRow& row) {
  const double rate = static_cast<double>(row.bytes) / row.seconds() / 1e9;
  return {rate, rate * traits_of(report.query.collective).bus_factor(report.ranks())};
}

std::string head_of(const IslandReport& report) {
  const device::IslandModel& model = report.model;
  std::string text = fmt::format(
      "# ringwood {} simulate: {}, {}{}, {} devices of an island, {}\n"
      "# island: launch {:.4g} us, flag {:.4g} us, fence {:.4g} us, block {:.4g} GB/s, link {:.4g} "
      "GB/s each way, memory {:.4g} GB/s\n",
      RINGWOOD_VERSION, to_string(report.query.collective), to_string(report.query.type),
      reduces(report.query.collective) ? fmt::format(" {}", to_string(report.query.op)) : "",
      report.devices, model.name, model.launch * 1e6, model.flag * 1e6, model.fence * 1e6,
      model.block / 1e9, model.link / 1e9, model.memory / 1e9);
  if (report.islands > 1)
    text += fmt::format("# {} islands: a rail of {:.4g} GB/s and {:.4g} us for each device\n",
                        report.islands, model.rail / 1e9, model.rail_latency * 1e6);
  return text;
}

// One line of the table. Several islands have more columns.
struct Cells {
  std::string size, algorithm, way, blocks, pieces, inside, rails, time, rate, bus;
};
std::string line_of(const IslandReport& report, char mark, const Cells& cells) {
  const std::string parts = report.islands == 1 ? ""
                                                : fmt::format(" {:>6} {:>10} {:>10}", cells.pieces,
                                                              cells.inside, cells.rails);
  return fmt::format("{} {:>12} {:<22} {:<12} {:>6}{} {:>12} {:>8} {:>8}\n", mark, cells.size,
                     cells.algorithm, cells.way, cells.blocks, parts, cells.time, cells.rate,
                     cells.bus);
}

std::string both(const std::string& a, const std::string& b) { return a == b ? a : a + "+" + b; }

std::string line_of(const IslandReport& report, const IslandRow& row) {
  const auto micros = [](double seconds) { return fmt::format("{:.2f}", seconds * 1e6); };
  const auto [rate, bus] = bandwidth_of(report, row);
  Cells cells{fmt::format("{}", row.bytes),
              name_of(row.choice),
              way_of(row.choice),
              fmt::format("{}", row.choice.blocks),
              "",
              "",
              "",
              micros(row.seconds()),
              fmt::format("{:.2f}", rate),
              fmt::format("{:.2f}", bus)};
  if (row.hosts) {
    const device::DeviceChoice &scatter = row.hosts->scatter, &gather = row.hosts->gather;
    cells.algorithm = both(name_of(scatter), name_of(gather));
    cells.way = both(way_of(scatter), way_of(gather));
    cells.blocks = fmt::format("{}", std::max(scatter.blocks, gather.blocks));
    cells.pieces = fmt::format("{}", row.hosts->pieces);
    cells.inside = micros(row.hosts->inside);
    cells.rails = micros(row.hosts->rails.seconds());
  }
  return line_of(report, row.chosen ? '*' : ' ', cells);
}

Json json_of(const device::DeviceChoice& choice) {
  return {{"algorithm", name_of(choice)},
          {"way", way_of(choice)},
          {"blocks", choice.blocks},
          {"time_us", choice.seconds * 1e6}};
}

}  // namespace

std::string print_table(const IslandReport& report) {
  std::string text = head_of(report);
  text += line_of(report, '#',
                  {"size", report.islands == 1 ? "algorithm" : "inside", "way", "blocks", "pieces",
                   "inside", "rails", "time", "algbw", "busbw"});
  text += line_of(report, '#', {"(B)", "", "", "", "", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)"});
  for (const IslandRow& row : report.rows) text += line_of(report, row);
  if (report.islands > 1)
    text +=
        "# reduce_scatter inside, all_reduce of shards over the rails, all_gather inside, in "
        "pieces; nothing of it runs yet\n";
  return text + "# predicted from the words that the blocks would run; no device was measured\n";
}

std::string print_json(const IslandReport& report) {
  Json json = {{"version", RINGWOOD_VERSION},
               {"collective", to_string(report.query.collective)},
               {"dtype", to_string(report.query.type)},
               {"op", to_string(report.query.op)},
               {"ranks", report.ranks()},
               {"hosts", report.islands},
               {"island", device::print(report.model)},
               {"rows", Json::array()}};
  for (const IslandRow& row : report.rows) {
    const auto [rate, bus] = bandwidth_of(report, row);
    Json one = {{"bytes", row.bytes}, {"chosen", row.chosen}};
    if (row.hosts)
      one.update({{"algorithm", "hierarchical"},
                  {"time_us", row.seconds() * 1e6},
                  {"pieces", row.hosts->pieces},
                  {"inside_us", row.hosts->inside * 1e6},
                  {"rails_us", row.hosts->rails.seconds() * 1e6},
                  {"reduce_scatter", json_of(row.hosts->scatter)},
                  {"all_gather", json_of(row.hosts->gather)},
                  {"runs", false}});
    else
      one.update(json_of(row.choice));
    one["algbw_gbs"] = rate;
    one["busbw_gbs"] = bus;
    json["rows"].push_back(std::move(one));
  }
  return json.dump(2) + "\n";
}

}  // namespace ringwood::tools
