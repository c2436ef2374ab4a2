#include "tools/command/values.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "collectives/algorithms/algorithms.h"
#include "collectives/kernels/types.h"
#include "tools/doctor/rules/rules.h"
#include "transports/base/knobs/knobs.h"
#include "transports/transport.h"

namespace ringwood::tools {
namespace {

template <class Enum>
std::vector<std::string> names_of(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(to_string(static_cast<Enum>(i)));
  return names;
}

template <class Rows>
std::vector<std::string> row_names(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows)
    if (std::ranges::find(names, row.name) == names.end()) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const doctor::Rule& rule : doctor::rules()) names.emplace_back(rule.id);
  return names;
}

// Empty: the word is no kind with a known set of words.
std::vector<std::string> words_of_kind(std::string_view kind) {
  if (kind == "COLLECTIVE") return collective_names();
  if (kind == "ALGORITHM") return algorithm_names();
  if (kind == "TYPE") return names_of<DataType>(kDataTypes);
  if (kind == "OP") return names_of<ReduceOp>(kReduceOps);
  if (kind == "TRANSPORT") return row_names(transport_table());
  if (kind == "KNOB") return row_names(knobs());
  if (kind == "RULE") return rule_names();
  return {};
}

// "host", "0", "float32", "nccl-tests"; neither "FILE" nor "8..16384" nor "rank5=0.1".
bool is_itself(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::islower(c) || std::isdigit(c) || c == '_' || c == '-';
  });
}

// "[FILE]" may be left out, "[NAME=]FILE" begins with what nobody can guess: "FILE".
std::string without_brackets(std::string type) {
  std::erase(type, '[');
  if (const size_t close = type.find("=]"); close != std::string::npos) type.erase(0, close + 2);
  std::erase(type, ']');
  return type;
}

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

}  // namespace

Values values_of(std::string_view type) {
  Values values;
  // A validator that describes itself: "KIND:{private,shared}".
  const size_t open = type.find('{');
  const size_t close = open == std::string_view::npos ? open : type.find('}', open);
  if (close != std::string_view::npos) {
    values.words = CLI::detail::split(std::string(type.substr(open + 1, close - open - 1)), ',');
    return values;
  }
  const std::string plain = without_brackets(std::string(type.substr(0, type.find(':'))));
  for (std::string part : CLI::detail::split(plain, '|')) {
    if (constexpr std::string_view kList = ",..."; part.ends_with(kList)) {
      values.list = true;
      part.resize(part.size() - kList.size());
    }
    values.files = values.files || part == "FILE";
    values.folders = values.folders || part == "DIR";
    values.algorithms = values.algorithms || part == "ALGORITHM";
    append(values.words, is_itself(part) ? std::vector{part} : words_of_kind(part));
  }
  return values;
}

std::vector<std::string> algorithm_names() { return row_names(algorithm_table()); }

std::vector<std::string> algorithm_names(std::string_view collective) {
  std::vector<std::string> names;
  for (const AlgorithmRow& row : algorithm_table())
    if (to_string(row.collective) == collective) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> collective_names() { return row_names(kCollectiveTraits); }

}  // namespace ringwood::tools
