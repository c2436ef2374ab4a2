#include "tools/cluster/cluster_file.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "tools/command/numbers.h"
#include "tools/command/text_files.h"
#include "tools/shape.h"
#include "tools/simulation/faults.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

struct Key {
  const char* name;
  bool several = false;  // as often as wanted
  // Of what only some commands take: refuses what none would.
  void (*check)(Faults&, std::string_view) = nullptr;
};
// The names of options, of one command at least.
constexpr Key kKeys[] = {
    {"hosts"},
    {"ranks"},
    {"ranks-per-host"},
    {"cores"},
    {"nic"},
    {"rdma"},
    {"island"},
    {"island-rate"},
    {"island-latency"},
    {"rails"},
    {"rail-use"},
    {"leaf"},
    {"uplinks"},
    {"oversubscription"},
    {"pod"},
    {"pod-uplinks"},
    {"pod-oversubscription"},
    {"queue-pairs"},
    {"routing"},
    {"seed", false,
     [](Faults&, std::string_view text) {
       if (!parse_whole(text)) refuse(fmt::format("seed {} is not a whole number", text));
     }},
    {"slow", true, add_slow_port},
    {"slow-link", true, add_slow_link},
    {"dead", true, add_dead_port},
    {"dead-uplink", true, add_dead_uplink},
    {"slow-rank", true, add_slow_rank},
    {"late", true, add_late_rank},
};
// Numbers of a machine model that options say, and what is no number there.
constexpr std::string_view kNoParameters[] = {
    "leaves", "far", "exceptions", "carrier", "device_rate", "device_latency", "rail_of_rank"};
constexpr int kMaxLines = 10'000;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

const Key* find_key(std::string_view name) {
  const auto* const at = std::ranges::find(kKeys, name, &Key::name);
  return at == std::end(kKeys) ? nullptr : at;
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == text.npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kBlank) - first + 1));
}

[[noreturn]] void refuse_line(const std::string& file, const ClusterFile::Line& line,
                              const std::string& why) {
  refuse_file("--cluster", fmt::format("{}:{}", file, line.number), why);
}

std::vector<ClusterFile::Line> read_lines(const std::string& file) {
  std::vector<ClusterFile::Line> lines;
  std::istringstream in(read_all("--cluster", file));
  int number = 0;
  for (std::string text; std::getline(in, text);) {
    ClusterFile::Line line{++number, "", ""};
    if (number > kMaxLines) refuse_line(file, line, "too many lines for a cluster");
    if (number == 1 && text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
    text = trimmed(std::string_view(text).substr(0, text.find('#')));
    if (text.empty()) continue;
    const size_t equals = text.find('=');
    line.key = trimmed(text.substr(0, equals));
    if (equals == text.npos) refuse_line(file, line, "a line is KEY = VALUE, as in hosts = 16x8");
    line.value = trimmed(text.substr(equals + 1));
    if (line.value.empty()) refuse_line(file, line, fmt::format("{} has no value", line.key));
    const Key* key = find_key(line.key);
    const auto before = std::ranges::find(lines, line.key, &ClusterFile::Line::key);
    if (before != lines.end() && !(key && key->several))
      refuse_line(file, line, fmt::format("{} is in line {} already", line.key, before->number));
    lines.push_back(std::move(line));
  }
  return lines;
}

bool is_parameter(const std::string& name) {
  if (std::ranges::count(kNoParameters, name) > 0) return false;
  const std::vector<ParameterLine> all = lines_of(Parameters{});
  return std::ranges::any_of(all, [&](const ParameterLine& one) { return one.name == name; });
}

[[noreturn]] void refuse_key(const std::string& file, const ClusterFile::Line& line) {
  std::string known;
  for (const Key& key : kKeys) known += fmt::format("{}{}", known.empty() ? "" : ", ", key.name);
  refuse_line(file, line,
              fmt::format("there is no key {:?}; there are {}, and the parameters that ringwood "
                          "explain shows",
                          line.key, known));
}

bool is_typed(CLI::App& command, const std::string& name) {
  const CLI::Option* option = command.get_option_no_throw("--" + name);
  return option && option->count() > 0;
}

bool lists_hosts(const std::string& hosts) { return Shape{hosts, 0, 0}.lists_hosts(); }

// What was typed in place of a line of the file, whatever the line says.
std::vector<std::string> replaced(CLI::App& command) {
  std::vector<std::string> names;
  for (const Key& key : kKeys)
    if (is_typed(command, key.name)) names.emplace_back(key.name);
  const auto add = [&](const char* typed, std::initializer_list<const char*> others) {
    if (is_typed(command, typed)) names.insert(names.end(), others.begin(), others.end());
  };
  add("uplinks", {"oversubscription"});
  add("oversubscription", {"uplinks"});
  add("pod-uplinks", {"pod-oversubscription"});
  add("pod-oversubscription", {"pod-uplinks"});
  add("scale", {"hosts", "ranks"});
  const CLI::Option* hosts = command.get_option_no_throw("--hosts");
  if (hosts && hosts->count() > 0 && lists_hosts(hosts->as<std::string>()))
    names.insert(names.end(), {"ranks", "ranks-per-host"});
  return names;
}

void set_option(const std::string& file, CLI::Option& option, const ClusterFile::Line& line) {
  if (line.key == "rdma" && line.value != "true" && line.value != "false")
    refuse_line(file, line, "rdma is true or false");
  if (line.value.starts_with('[')) refuse_line(file, line, "a line has one value");
  try {
    option.add_result(line.value);
    option.run_callback();
  } catch (const CLI::Error& error) {
    refuse_line(file, line, error.what());
  }
}

void check(const std::string& file, const Key& key, const ClusterFile::Line& line) {
  if (!key.check) return;
  try {
    Faults alone;
    key.check(alone, line.value);
  } catch (const Error& error) {
    refuse_line(file, line, error.cause);
  }
}

}  // namespace

void add_cluster(CLI::App& command, std::string& file) {
  command
      .add_option("--cluster", file,
                  "the cluster, in place of typing it: a line \"hosts = 16x8\" for each option")
      ->type_name("FILE");
}

ClusterFile use_cluster(const std::string& file, CLI::App& command) {
  ClusterFile found{file, {}, {}};
  const std::vector<std::string> typed = replaced(command);
  for (ClusterFile::Line& line : read_lines(file)) {
    const Key* key = find_key(line.key);
    if (!key) {
      if (!is_parameter(line.key)) refuse_key(file, line);
      found.parameters.push_back(std::move(line));
      continue;
    }
    check(file, *key, line);
    if (is_typed(command, "scale") && line.key == "hosts" && lists_hosts(line.value))
      refuse_line(file, line, "with --scale say ranks-per-host, as it says how many hosts");
    if (std::ranges::count(typed, line.key) > 0) continue;
    if (CLI::Option* option = command.get_option_no_throw("--" + line.key))
      set_option(file, *option, line);
    else
      found.left.push_back(std::move(line));
  }
  return found;
}

void set_parameters(const ClusterFile& file, Parameters& parameters) {
  for (const ClusterFile::Line& line : file.parameters) {
    if (line.value.find_first_of(" \t") != line.value.npos)
      refuse_line(file.name, line, fmt::format("{} has one value", line.key));
    std::string text = print(parameters.machine);
    const std::string begins = " " + line.key + "=";
    const size_t at = text.find(begins) + begins.size();
    // A model's text has one form for each number: 3e-06, not 3e-6.
    const std::optional<double> number = parse_decimal(line.value);
    text.replace(at, text.find(' ', at) - at, number ? fmt::format("{}", *number) : line.value);
    try {
      parameters.machine = parse_machine_model(text);
    } catch (const Error& error) {
      refuse_line(file.name, line, error.cause);
    }
    parameters.typed.push_back(line.key);
  }
}

void name_cluster(const ClusterFile& file, Error& error) {
  if (file.name.empty() || error.cause.find("--cluster") != error.cause.npos) return;
  error.cause += fmt::format(" (--cluster {} says the rest)", file.name);
}

}  // namespace ringwood::tools
