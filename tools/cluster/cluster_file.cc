#include "tools/cluster/cluster_file.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "tools/command/numbers.h"
#include "tools/command/text_files.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

struct Key {
  const char* name;
  bool several = false;  // as often as wanted
  bool place = false;    // says which hosts and ranks there are
};
// The names of options, of one command at least.
constexpr Key kKeys[] = {
    {"hosts", false, true},
    {"ranks", false, true},
    {"ranks-per-host", false, true},
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
    {"routing"},
    {"seed"},
    {"slow", true},
    {"slow-link", true},
    {"dead", true},
    {"dead-uplink", true},
    {"slow-rank", true},
    {"late", true},
};
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

// Numbers: what hosts, leaves and slow ports there are is said by options.
bool is_parameter(const std::string& name) {
  if (name == "leaves" || name == "far" || name == "exceptions" || name == "carrier") return false;
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

}  // namespace

void add_cluster(CLI::App& command, std::string& file) {
  command
      .add_option("--cluster", file,
                  "the cluster, in place of typing it: a line \"hosts = 16x8\" for each option")
      ->type_name("FILE");
}

ClusterFile use_cluster(const std::string& file, CLI::App& command, bool placed) {
  ClusterFile found{file, {}, {}};
  const auto typed = [&](const char* name) {
    const CLI::Option* option = command.get_option_no_throw(std::string("--") + name);
    return option && option->count() > 0;
  };
  const bool uplinks = typed("uplinks") || typed("oversubscription");
  std::vector<std::string> was_typed;
  for (const Key& key : kKeys)
    if (typed(key.name)) was_typed.emplace_back(key.name);
  for (ClusterFile::Line& line : read_lines(file)) {
    const Key* key = find_key(line.key);
    if (!key) {
      if (!is_parameter(line.key)) refuse_key(file, line);
      found.parameters.push_back(std::move(line));
      continue;
    }
    CLI::Option* option = command.get_option_no_throw("--" + line.key);
    if (!option) {
      found.left.push_back(std::move(line));
      continue;
    }
    const bool says_uplinks = line.key == "uplinks" || line.key == "oversubscription";
    if (std::ranges::count(was_typed, line.key) > 0) continue;
    if ((placed && key->place) || (uplinks && says_uplinks)) continue;
    try {
      option->add_result(line.value);
      option->run_callback();
    } catch (const CLI::Error& error) {
      refuse_line(file, line, error.what());
    }
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

}  // namespace ringwood::tools
