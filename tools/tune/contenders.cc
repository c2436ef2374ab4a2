#include "tools/tune/contenders.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "collectives/algorithms/algorithms.h"
#include "tools/command/text_files.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

// Of more ranks the schedules are not compared: their rows differ.
constexpr int kMaxCompared = 64;

// Rows whose schedules are those of `first`, or of one before them.
std::set<std::string> repeated(Collective collective, const std::string& first, const Call& call,
                               const std::vector<int>& hosts) {
  std::set<std::string> names;
  if (call.size() > kMaxCompared) return names;
  const Where where{0, call.size(), call.root, hosts};
  std::vector<const AlgorithmRow*> rows = {find_algorithm(collective, first)};
  for (const AlgorithmRow& row : algorithm_table())
    if (row.collective == collective && row.name != first) rows.push_back(&row);
  std::vector<std::vector<Schedule>> known;
  for (const AlgorithmRow* row : rows) {
    if (!row || !row->accepts(where)) continue;
    std::vector<Schedule> all = build_all(*row, where);
    if (std::ranges::find(known, all) != known.end())
      names.insert(row->name);
    else
      known.push_back(std::move(all));
  }
  return names;
}

// Candidates that are refused have no time. Those that round sums more often than once per level
// are not measured either: what is measured is not to cost a user's numbers more than the choice.
bool may_run(const Candidate& c) { return !std::isinf(c.seconds) && c.handicap == 1; }

std::string plain_stem(const std::string& path) {
  std::string name = std::filesystem::path(path).stem().string().substr(0, 60);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.') c = '_';
  return name.empty() ? "schedules" : name;
}

}  // namespace

OwnText read_own_text(const std::string& word, const std::vector<Collective>& tuned, int root) {
  const size_t at = word.find('=');
  const std::string path = at == word.npos ? word : word.substr(at + 1);
  if (at == word.npos && tuned.size() != 1)
    refuse(fmt::format("--file {}: of which collective? Write --file COLLECTIVE={}", word, path));
  const Collective collective =
      at == word.npos ? tuned.front() : parse_collective(word.substr(0, at));
  const std::string text = read_all("--file", path);
  const std::string name = plain_stem(path);
  if (name == "default" || find_algorithm(collective, name))
    refuse(fmt::format("--file {}: {} is a name of the table of algorithms; rename the file", path,
                       name));
  try {
    return {collective,
            {name, ProvedSchedules::parse(collective, text, has_root(collective) ? root : 0)}};
  } catch (const Error& error) {
    refuse(fmt::format("--file {}: {}", path, error.cause));
  }
}

std::vector<Contender> contenders_for(const Call& call, Collective collective,
                                      const std::vector<int>& hosts,
                                      const std::vector<OwnText>& own,
                                      const ContenderLimits& limits, size_t& predicted) {
  std::vector<Candidate> all;
  std::string chosen;
  for (Candidate& c :
       call.communicator->explain(collective, call.block_bytes(), call.type, call.op)) {
    if (c.chosen) chosen = c.algorithm;
    if (may_run(c)) all.push_back(std::move(c));
  }
  predicted = all.size();
  const std::set<std::string> left_out = repeated(collective, chosen, call, hosts);
  std::erase_if(all, [&](const Candidate& c) { return left_out.contains(c.algorithm); });
  std::ranges::stable_sort(all, [](const Candidate& a, const Candidate& b) {
    return std::pair(!a.chosen, a.seconds) < std::pair(!b.chosen, b.seconds);
  });
  double best = all.empty() ? 0 : all.front().seconds;
  for (const Candidate& c : all) best = std::min(best, c.seconds);
  std::vector<Contender> taken;
  for (const Candidate& c : all) {
    if (!c.chosen &&
        (c.seconds > limits.factor * best || taken.size() >= static_cast<size_t>(limits.most)))
      continue;
    Contender& one = taken.emplace_back();
    one.algorithm = c.algorithm;
    one.segments = c.segments;
    one.wire = c.wire;
    one.predicted = c.seconds;
    one.is_default = c.chosen;
  }
  for (const OwnText& text : own) {
    if (text.collective != collective) continue;
    const size_t chunk = call.block_bytes() / 16;
    for (const int segments : {1, 4}) {
      if (segments > 1 && chunk < (size_t{16} << 10)) continue;
      Contender& one = taken.emplace_back();
      one.algorithm = text.own.name;
      one.segments = segments;
      one.own = text.own.schedules;
    }
  }
  return taken;
}

}  // namespace ringwood::tools
