#include "tools/command/tables.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "collectives/algorithms/algorithms.h"
#include "tools/command/help.h"
#include "transports/base/knobs/knobs.h"

namespace ringwood::tools {
namespace {

const char* name_of(KnobFor audience) { return audience == KnobFor::user ? "users" : "experts"; }

const char* name_of(BlockSizes sizes) {
  switch (sizes) {
    case BlockSizes::any: return "any";
    case BlockSizes::similar: return "similar";
    case BlockSizes::equal: return "equal";
  }
  return "";
}

void print_knobs(bool with_reasons) {
  const Options options = Options::from_environment();
  const auto shown = [](const std::string& value) { return value.empty() ? "-" : value; };
  const Knob* before = nullptr;
  for (const Knob& knob : knobs()) {
    if (!before || knob.audience != before->audience) {
      fmt::print("{}# for {}\n", before ? "\n" : "", name_of(knob.audience));
      fmt::print("{:<32} {:<16} {:<12} {:<16} {}\n", "# name", "value", "origin", "default",
                 "description");
    }
    before = &knob;
    std::string description = knob.does;
    for (const char* alias : knob.aliases)
      if (alias) description += fmt::format(" [{}]", alias);
    fmt::print("{:<32} {:<16} {:<12} {:<16} {}\n", knob.name, shown(knob.text.show(options)),
               setting_of(knob).name ? "environment" : "default", shown(knob.text.show({})),
               description);
    if (with_reasons) fmt::print("#   {}={}\n#   {}\n", knob.name, knob.example, knob.why);
  }
}

void print_knobs_json() {
  const Options options = Options::from_environment();
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Knob& knob : knobs()) {
    nlohmann::ordered_json aliases = nlohmann::ordered_json::array();
    for (const char* alias : knob.aliases)
      if (alias) aliases.push_back(alias);
    const Setting setting = setting_of(knob);
    rows.push_back({{"name", knob.name},
                    {"for", name_of(knob.audience)},
                    {"value", knob.text.show(options)},
                    {"origin", setting.name ? "environment" : "default"},
                    {"variable", setting.name ? setting.name : knob.name},
                    {"default", knob.text.show({})},
                    {"aliases", std::move(aliases)},
                    {"example", knob.example},
                    {"description", knob.does},
                    {"why", knob.why}});
  }
  fmt::print("{}\n",
             nlohmann::ordered_json{{"version", RINGWOOD_VERSION}, {"knobs", rows}}.dump(2));
}

// Of all collectives where the name is empty.
void print_algorithms(const std::string& collective, bool json) {
  const bool all = collective.empty();
  const Collective wanted = all ? Collective{} : parse_collective(collective);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const AlgorithmRow& row : algorithm_table()) {
    if (!all && row.collective != wanted) continue;
    if (!json)
      fmt::print("{:<16} {:<22} {}\n", to_string(row.collective), row.name, row.description);
    rows.push_back({{"collective", to_string(row.collective)},
                    {"name", row.name},
                    {"description", row.description},
                    {"rank_order", row.rank_order},
                    {"block_sizes", name_of(row.sizes)}});
  }
  if (json)
    fmt::print("{}\n",
               nlohmann::ordered_json{{"version", RINGWOOD_VERSION}, {"algorithms", rows}}.dump(2));
}

}  // namespace

void add_env_command(CLI::App& app) {
  struct RawArguments {
    bool why = false, json = false;
  };
  const auto typed = std::make_shared<RawArguments>();
  CLI::App* command = app.add_subcommand(
      "env", "Every knob, those for users first: value, origin, default, what it does");
  command->add_flag("--why", typed->why, "also an example, why it exists, and why its default");
  command->add_flag("--json", typed->json, "an object with all of it, for programs");
  add_help(*command,
           {{"ringwood env", ""},
            {"ringwood env --why", "with examples and reasons"},
            {"ringwood env --json", "for programs"}},
           {{0, "all is well"}, {2, "a variable's value cannot be used"}});
  command->callback([typed] { typed->json ? print_knobs_json() : print_knobs(typed->why); });
}

void add_algorithms_command(CLI::App& app) {
  struct RawArguments {
    std::string collective;
    bool json = false;
  };
  const auto typed = std::make_shared<RawArguments>();
  CLI::App* command = app.add_subcommand("algorithms", "The table of algorithms");
  command->add_option("collective", typed->collective, "only those of this one")
      ->type_name("COLLECTIVE");
  command->add_flag("--json", typed->json, "an object with all rows, for programs");
  add_help(*command,
           {{"ringwood algorithms", ""},
            {"ringwood algorithms all_reduce", "those of one collective"},
            {"ringwood algorithms --json", "for programs"}},
           {{0, "all is well"}, {2, "bad input"}});
  command->callback([typed] { print_algorithms(typed->collective, typed->json); });
}

}  // namespace ringwood::tools
