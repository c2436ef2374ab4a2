#include "collectives/tuner/tuning/tuning_file.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/machine/places.h"
#include "collectives/verify/verify.h"
#include "transports/base/hash.h"

namespace ringwood {
namespace {

// Beyond it a row's schedules are neither hashed nor compared: building them takes seconds.
constexpr int kMaxHashedRanks = 128;

// Beyond so many steps schedules are not proved once more: the suites have proved their row.
constexpr size_t kMaxProvedSteps = 20000;

bool provable(const std::vector<Schedule>& all) {
  size_t steps = 0;
  for (const Schedule& s : all) steps += s.steps.size();
  return !all.empty() && steps <= kMaxProvedSteps;
}

std::optional<std::string> refuted(Collective collective, const std::vector<Schedule>& all,
                                   int root) {
  return verify(collective, all, root, 1, /*equal_blocks=*/true);
}

Where where_of(const TuningFingerprint& f, int root) {
  return {0, f.ranks(), root, f.hosts, f.nodes};
}

void add(std::string& text, const char* what, const std::string& then, const std::string& now) {
  if (then == now) return;
  text += fmt::format("{}the {} '{}', but '{}' when it was tuned", text.empty() ? "" : "; ", what,
                      now, then);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const size_t comma = text.find(',');
    words.push_back(text.substr(0, comma));
    if (comma == text.npos) return words;
    text.remove_prefix(comma + 1);
  }
}

// Of two lists of "name:value" those that differ, where there are as many in both.
void add_words(std::string& text, const char* what, const std::string& then,
               const std::string& now) {
  const std::vector<std::string_view> before = words_of(then), after = words_of(now);
  if (before.size() != after.size()) return add(text, what, then, now);
  std::vector<std::string_view> old_words, new_words;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    old_words.push_back(before[i]);
    new_words.push_back(after[i]);
  }
  add(text, what, fmt::format("{}", fmt::join(old_words, ",")),
      fmt::format("{}", fmt::join(new_words, ",")));
}

}  // namespace

uint64_t table_hash() {
  static const uint64_t hash = [] {
    std::string text;
    for (const AlgorithmRow& row : algorithm_table())
      text += fmt::format("{} {}\n", to_string(row.collective), row.name);
    return fnv1a_64(text);
  }();
  return hash;
}

std::string difference(const TuningFingerprint& tuned, const TuningFingerprint& now) {
  std::string text;
  add(text, "number of ranks is", std::to_string(tuned.ranks()), std::to_string(now.ranks()));
  if (tuned.ranks() == now.ranks()) {
    add(text, "ranks' hosts are", print_places(tuned.hosts), print_places(now.hosts));
    add(text, "ranks' memory nodes are", print_places(tuned.nodes), print_places(now.nodes));
  }
  add(text, "hardware is", tuned.hardware, now.hardware);
  add_words(text, "links' knobs are", tuned.knobs, now.knobs);
  add(text, "table of algorithms is", fmt::format("{:016x}", tuned.table),
      fmt::format("{:016x}", now.table));
  return text;
}

uint64_t schedules_hash(std::span<const Schedule> schedules) {
  std::string text;
  for (const Schedule& s : schedules) text += print(s);
  return fnv1a_64(text);
}

std::shared_ptr<const ProvedSchedules> own_schedules(const TuningFile& file,
                                                     const TunedRange& range) {
  for (const TunedSchedules& own : file.schedules)
    if (own.name == range.algorithm && own.schedules->collective() == range.collective)
      return own.schedules;
  return nullptr;
}

std::vector<Schedule> schedules_of(const TuningFile& file, const TunedRange& range) {
  if (const auto own = own_schedules(file, range))
    return {own->schedules().begin(), own->schedules().end()};
  const AlgorithmRow* const row = find_algorithm(range.collective, range.algorithm);
  if (!row || file.fingerprint.ranks() > kMaxHashedRanks) return {};
  return build_all(*row, where_of(file.fingerprint, range.root));
}

bool proved(Collective collective, const std::vector<Schedule>& all, int root) {
  return provable(all) && !refuted(collective, all, root);
}

std::string objection_to_rows(const TuningFile& file) {
  std::set<std::tuple<Collective, int, std::string, bool>> seen;
  for (const TunedRange& range : file.ranges) {
    if (!seen.emplace(range.collective, range.root, range.algorithm, edited(range)).second)
      continue;
    const std::vector<Schedule> now = schedules_of(file, range);
    if (now.empty()) continue;
    if (!edited(range) && schedules_hash(now) != range.schedule)
      return fmt::format("{} of {} is not the schedule that was tuned", range.algorithm,
                         to_string(range.collective));
    if (!edited(range) || !provable(now)) continue;
    if (const auto why = refuted(range.collective, now, range.root))
      return fmt::format("{} of {} is wrong here: {}", range.algorithm, to_string(range.collective),
                         *why);
  }
  return "";
}

std::string summary(const TuningFile& file) {
  std::set<Collective> collectives;
  size_t ranges = 0, by_hand = 0;
  for (const TunedRange& range : file.ranges) {
    if (range.algorithm.empty()) continue;
    ++ranges;
    by_hand += edited(range);
    collectives.insert(range.collective);
  }
  return fmt::format("{} range{} for {} collective{}, measured {}{}{}", ranges,
                     ranges == 1 ? "" : "s", collectives.size(), collectives.size() == 1 ? "" : "s",
                     file.measured, by_hand > 0 ? fmt::format(", {} edited", by_hand) : "",
                     file.links.empty() ? "" : ", links " + print(file.links));
}

const TunedRange* find_range(const TuningFile& file, const TunedCall& call) {
  for (const TunedRange& range : file.ranges)
    if (!range.algorithm.empty() && range.collective == call.collective &&
        range.root == call.root && range.rounded == call.rounded && range.from <= call.bytes &&
        call.bytes <= range.to && range.tolerance == call.tolerance)
      return &range;
  return nullptr;
}

}  // namespace ringwood
