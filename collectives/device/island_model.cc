#include "collectives/device/island_model.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/device/kernel/words.h"
#include "transports/base/error.h"

namespace ringwood::device {
namespace {

constexpr std::string_view kVersion = "ringwood-island-1";
constexpr size_t kMaxText = 4096, kMaxName = 32;
constexpr double kGiB = 1 << 30;

[[noreturn]] void refuse(std::string why) {
  throw Error(ErrorCode::invalid_argument, "island: " + std::move(why));
}

enum class Kind { seconds, bytes, number };

// Times may be 0 (a perfect machine, in theory and tests).
struct Key {
  const char* name;
  double IslandModel::*parameter;
  Kind kind;
  double least, most;
};
constexpr double kMaxSeconds = 1, kMinRate = 1e6, kMaxRate = 1e15;
constexpr Key kKeys[] = {
    {"launch", &IslandModel::launch, Kind::seconds, 0, kMaxSeconds},
    {"flag", &IslandModel::flag, Kind::seconds, 0, kMaxSeconds},
    {"fence", &IslandModel::fence, Kind::seconds, 0, kMaxSeconds},
    {"block", &IslandModel::block, Kind::bytes, kMinRate, kMaxRate},
    {"packet_block", &IslandModel::packet_block, Kind::bytes, kMinRate, kMaxRate},
    {"packet_efficiency", &IslandModel::packet_efficiency, Kind::number, 0.01, 1},
    {"packet_room", &IslandModel::packet_room, Kind::bytes, 0, kMaxRate},
    {"blocks", &IslandModel::blocks, Kind::number, 1, kMaxSegments},
    {"link", &IslandModel::link, Kind::bytes, kMinRate, kMaxRate},
    {"memory", &IslandModel::memory, Kind::bytes, kMinRate, kMaxRate},
    {"rail", &IslandModel::rail, Kind::bytes, kMinRate, kMaxRate},
    {"rail_latency", &IslandModel::rail_latency, Kind::seconds, 0, kMaxSeconds},
};

// By kind: what may stand behind a number.
struct Unit {
  Kind kind;
  std::string_view name;
  double times;
};
constexpr Unit kUnits[] = {{Kind::seconds, "s", 1},     {Kind::seconds, "ms", 1e-3},
                           {Kind::seconds, "us", 1e-6}, {Kind::seconds, "ns", 1e-9},
                           {Kind::bytes, "K", 1e3},     {Kind::bytes, "M", 1e6},
                           {Kind::bytes, "G", 1e9},     {Kind::bytes, "T", 1e12}};

double value_of(const Key& key, std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  const auto known = std::ranges::find_if(
      kUnits, [&](const Unit& one) { return one.kind == key.kind && one.name == unit; });
  if (known != std::end(kUnits)) value *= known->times;
  const bool good = error == std::errc() && (unit.empty() || known != std::end(kUnits));
  // Written so that a NaN fails.
  if (!good || !(value >= key.least && value <= key.most))
    refuse(fmt::format("{}={} is not a number from {} to {}{}", key.name, text.substr(0, 40),
                       key.least, key.most,
                       key.kind == Kind::seconds ? " seconds, as in 2us"
                       : key.kind == Kind::bytes ? " bytes, as in 400G"
                                                 : ""));
  if (key.parameter == &IslandModel::blocks && value != static_cast<int>(value))
    refuse(fmt::format("blocks={} is not a whole number", text.substr(0, 40)));
  return value;
}

const Key& key_of(std::string_view name) {
  const auto key = std::ranges::find_if(kKeys, [&](const Key& one) { return one.name == name; });
  if (key != std::end(kKeys)) return *key;
  std::vector<std::string_view> names;
  for (const Key& one : kKeys) names.emplace_back(one.name);
  refuse(fmt::format("there is no parameter {}; there are {}", name.substr(0, 40),
                     fmt::join(names, ", ")));
}

bool good_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '-'; });
}

IslandModel h200() {
  IslandModel model;
  model.name = "h200";
  model.memory = 4.3e12;
  return model;
}

// 8 B take 3 us. Bulk: NCCL's model has 19.5 us beside 11 us of LL; in that ratio 5.3 us.
IslandModel b200() {
  IslandModel model;
  model.name = "b200";
  model.launch = 2.4e-6;
  model.fence = 1.7e-6;
  model.block = 55 * kGiB;
  model.packet_block = model.block / 4.5;
  model.link = 600 * kGiB;
  model.memory = 7.2e12;  // 0.9 of the nominal rate, as H100 and H200 have it
  return model;
}

}  // namespace

std::vector<std::string> island_presets() { return {"h100", "h200", "b200"}; }

IslandModel island_preset(std::string_view name) {
  for (IslandModel model : {IslandModel{}, h200(), b200()})
    if (model.name == name) return model;
  refuse(fmt::format("there is no {}; there are {}", name.substr(0, 40),
                     fmt::join(island_presets(), ", ")));
}

void set_parameter(IslandModel& model, std::string_view change) {
  const size_t equals = change.find('=');
  if (equals == std::string_view::npos)
    refuse(fmt::format("{} is not of the form link=400G", change.substr(0, 40)));
  const Key& key = key_of(change.substr(0, equals));
  model.*key.parameter = value_of(key, change.substr(equals + 1));
}

std::string print(const IslandModel& model) {
  std::string text = fmt::format("{} name={}", kVersion, model.name);
  for (const Key& key : kKeys) text += fmt::format(" {}={}", key.name, model.*key.parameter);
  return text;
}

IslandModel parse_island_model(std::string_view text) {
  if (text.size() > kMaxText) refuse(fmt::format("longer than {} bytes", kMaxText));
  const std::string_view whole = text;
  const auto word = [&] {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view head = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return head;
  };
  const auto value = [&](std::string_view name) {
    const std::string_view item = word();
    if (!item.starts_with(name) || item.substr(name.size(), 1) != "=")
      refuse(fmt::format("{}= is missing or not in its place", name));
    return item.substr(name.size() + 1);
  };
  if (word() != kVersion) refuse(fmt::format("does not begin with {}", kVersion));
  IslandModel model;
  model.name = value("name");
  if (!good_name(model.name)) refuse("name= is not letters, digits and '-'");
  for (const Key& key : kKeys) model.*key.parameter = value_of(key, value(key.name));
  // Any other difference (a unit, a space) would be another text for the same parameters.
  if (print(model) != whole) refuse("is not in the form in which it is printed");
  return model;
}

}  // namespace ringwood::device
