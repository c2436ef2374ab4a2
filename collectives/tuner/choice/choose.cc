#include "collectives/tuner/choice/choose.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/kernels/accumulate.h"
#include "collectives/tuner/choice/row_profiles.h"

namespace ringwood {
namespace {

// "all_reduce:ring,broadcast:chain", or one name for every collective that has it.
std::string from_options(const std::string& text, Collective collective) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string item = text.substr(begin, end - begin);
    const size_t colon = item.find(':');
    if (colon == std::string::npos) {
      if (find_algorithm(collective, item)) return item;
    } else if (parse_collective(item.substr(0, colon)) == collective) {
      return item.substr(colon + 1);
    }
    begin = end + 1;
  }
  return "";
}

Where where_of(const ModelQuery& q) {
  if (!q.machine) return {0, q.n};
  return {0, q.n, 0, q.machine->hosts, q.machine->nodes};
}

bool is_right(const AlgorithmRow& row, const ModelQuery& q) {
  return row.accepts(where_of(q)) && !(q.uneven && row.sizes == BlockSizes::equal);
}

std::string names(const ModelQuery& q) {
  std::string text;
  for (const AlgorithmRow& row : algorithm_table())
    if (row.collective == q.collective && is_right(row, q))
      text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

// Null: no row was named.
const AlgorithmRow* named(const ModelQuery& q, const Options& options,
                          const std::string& algorithm) {
  const std::string name =
      !algorithm.empty() ? algorithm : from_options(options.algorithm, q.collective);
  if (name.empty()) return nullptr;
  const AlgorithmRow* row = find_algorithm(q.collective, name);
  if (row && is_right(*row, q)) return row;
  if (row && row->accepts(where_of(q)) && algorithm.empty()) return nullptr;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("no algorithm '{}' for {} with {} ranks{}; there are: {}", name,
                          to_string(q.collective), q.n,
                          q.uneven ? " and blocks of different sizes" : "", names(q)));
}

std::vector<const AlgorithmRow*> rows_of(const ModelQuery& q, const Options& options) {
  const bool ordered = options.reproducible && reduces(q.collective);
  std::vector<const AlgorithmRow*> rows;
  for (const AlgorithmRow& row : algorithm_table())
    if (row.collective == q.collective && (row.rank_order || !ordered) &&
        (row.sizes == BlockSizes::any || !q.uneven))
      rows.push_back(&row);
  return rows;
}

double tolerance_of(const ModelQuery& q, const Options& options) {
  return options.reproducible || !may_encode(q.collective, q.type, q.op) ? 0 : q.tolerance;
}

// The choice where nothing can be costed.
TuningChoice first_row(const ModelQuery& q, const Options& options, const AlgorithmRow* row,
                       int segments) {
  for (const AlgorithmRow* one : rows_of(q, options))
    if (!row && one->accepts(where_of(q))) row = one;
  return {row ? row->name : "", std::clamp(segments, 1, kMaxSegments), WireFormat::exact};
}

// Where only pairs of ranks know the sizes of their blocks, all ranks weigh the same one.
constexpr size_t kNominalBlock = 64 << 10;

size_t weighed_bytes(const ModelQuery& q) {
  return q.bytes == 0 && q.uneven && moves_data(q.collective) ? kNominalBlock : q.bytes;
}

CandidateQuery query_of(const ModelQuery& q, const Options& options, const AlgorithmRow* row,
                        int segments) {
  CandidateQuery query;
  query.collective = q.collective;
  query.bytes = size_class(weighed_bytes(q));
  query.element = size_of(q.type);
  query.n = q.n;
  query.rows = row ? std::vector{row} : rows_of(q, options);
  if (!row && reduces(q.collective) && gains_by_accumulation(q.type, q.op))
    query.rounding =
        is_integer(q.type) ? CandidateQuery::Rounding::once : CandidateQuery::Rounding::seldom;
  query.traced = !row && reduces(q.collective) && scales_operands(q.type, q.op);
  query.tolerance = tolerance_of(q, options);
  query.segments = q.bytes == 0 && weighed_bytes(q) > 0 ? std::max(1, segments) : segments;
  query.segment_bytes = options.segment_bytes;
  return query;
}

// `profiles`: null: they are found anew.
std::vector<Candidate> weigh_query(const ModelQuery& q, const CandidateQuery& query,
                                   RowProfiles* profiles) {
  const MachineModel machine =
      q.machine ? MachineModel{} : default_machine_model(q.n, q.several_hosts);
  const MachineModel& known = q.machine ? *q.machine : machine;
  if (profiles) return cost_candidates(query, known, *profiles);
  RowProfiles found(known, q.n);
  return cost_candidates(query, known, found);
}

std::string time_text(const Candidate& c, double seconds) {
  if (std::isinf(seconds)) return "-";
  return fmt::format("{}{:.{}f}",
                     c.simulated ? ""
                     : c.bound   ? ">"
                                 : "~",
                     seconds * 1e6,
                     seconds < 1e-5   ? 3
                     : seconds < 1e-1 ? 1
                                      : 0);
}

// Why the prediction chose it: how far it is from the best one, with either kind of buffers.
std::string why_predicted(const Candidate& chosen, const std::vector<Candidate>& all) {
  double fastest = chosen.seconds, shared = chosen.zero_copy_seconds;
  for (const Candidate& c : all) {
    fastest = std::min(fastest, c.seconds);
    shared = std::min(shared, c.zero_copy_seconds);
  }
  if (!(fastest > 0 && shared > 0) || std::isinf(chosen.seconds)) return "nothing else is faster";
  const double regret = std::max(chosen.seconds / fastest, chosen.zero_copy_seconds / shared);
  if (regret < 1.005) return "the fastest, with private and with shared buffers";
  return fmt::format("within {:.0f} % of the fastest, with private and with shared buffers",
                     std::ceil((regret - 1) * 100));
}

std::string why_of(const Candidate& c, const std::vector<Candidate>& all) {
  if (!c.chosen) return c.why_not;
  std::string text = "chosen: " + c.why;
  if (c.roundings > 1) text += fmt::format("; rounds a sum at most {} times", c.roundings);
  return text;
}

}  // namespace

MachineModel default_machine_model(int n, bool several_hosts) {
  MachineModel machine;
  machine.cores = std::max(1, n);
  for (int r = 0; several_hosts && r < n; ++r) machine.hosts.push_back(r);
  return machine;
}

size_t size_class(size_t bytes) {
  constexpr int kBits = 4;  // of the size that are kept, including the highest
  const int drop = std::max(0, static_cast<int>(std::bit_width(bytes)) - kBits);
  return bytes >> drop << drop;
}

bool names_row(const Options& options, Collective collective) {
  return !from_options(options.algorithm, collective).empty();
}

// Written so that a NaN is refused.
void check_tolerance(const TuningQuery& q) {
  if (q.tolerance < 1) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: a tolerance of {} is not below 1",
                                                       to_string(q.collective), q.tolerance));
}

TuningChoice choose(const ModelQuery& q, const Options& options, const std::string& algorithm,
                    int segments, RowProfiles* profiles) {
  check_tolerance(q);
  const AlgorithmRow* row = named(q, options, algorithm);
  const bool named_whole = row && segments > 0 && tolerance_of(q, options) == 0;
  const bool nothing_to_weigh = q.n == 1 || weighed_bytes(q) == 0 || named_whole;
  if (nothing_to_weigh && moves_data(q.collective)) return first_row(q, options, row, segments);
  for (const Candidate& c : weigh_query(q, query_of(q, options, row, segments), profiles))
    if (c.chosen)
      return {c.algorithm, c.segments, c.wire, std::isfinite(c.seconds) ? c.seconds : 0};
  return first_row(q, options, row, segments);
}

std::vector<Candidate> explain(const ModelQuery& q, const Options& options,
                               const std::string& algorithm, int segments, RowProfiles* profiles) {
  std::optional<RowProfiles> found;
  if (!profiles)
    profiles =
        &found.emplace(q.machine ? *q.machine : default_machine_model(q.n, q.several_hosts), q.n);
  const TuningChoice choice = choose(q, options, algorithm, segments, profiles);
  CandidateQuery query = query_of(q, options, named(q, options, algorithm), segments);
  query.all = true;
  std::vector<Candidate> candidates = weigh_query(q, query, profiles);
  for (Candidate& c : candidates) {
    const bool chosen = TuningChoice{c.algorithm, c.segments, c.wire} == choice;
    if (c.chosen && !chosen) c.why_not = "nothing to choose from";
    c.chosen = chosen;
    if (chosen) c.why_not.clear();
    if (chosen) c.why = why_predicted(c, candidates);
  }
  return candidates;
}

Candidate predict_choice(const ModelQuery& q, const Options& options, const TuningChoice& choice,
                         RowProfiles& profiles) {
  CandidateQuery query = query_of(q, options, named(q, options, choice.algorithm), choice.segments);
  query.bytes = weighed_bytes(q);
  query.all = true;
  for (Candidate& c : weigh_query(q, query, &profiles))
    if (c.segments == choice.segments && c.wire == choice.wire) return std::move(c);
  TuningChoice unknown = choice;
  unknown.seconds = 0;
  return candidate_of(unknown);
}

std::string why(const TuningChoice& choice) {
  switch (choice.by) {
    case ChosenBy::given: return "the call names it";
    case ChosenBy::options: return "RINGWOOD_ALGORITHM names it";
    case ChosenBy::only: return "the only one that can do it";
    case ChosenBy::tuning_file: return "the tuning file says so";
    case ChosenBy::plugin: return "the user's tuner says so";
    case ChosenBy::prediction: break;
  }
  return fmt::format("the shortest prediction, {:.4g} us", choice.seconds * 1e6);
}

Candidate candidate_of(const TuningChoice& choice) {
  Candidate candidate;
  candidate.algorithm = choice.own ? choice.own_name : choice.algorithm;
  candidate.segments = choice.segments;
  candidate.wire = choice.wire;
  candidate.seconds = candidate.zero_copy_seconds =
      choice.seconds > 0 ? choice.seconds : std::numeric_limits<double>::infinity();
  return candidate;
}

void choose_instead(std::vector<Candidate>& candidates, const TuningChoice& choice,
                    const std::function<Candidate()>& missing, std::string why,
                    const std::string& why_not) {
  auto it = std::ranges::find_if(candidates, [&](const Candidate& c) {
    return TuningChoice{c.algorithm, c.segments, c.wire, 0, choice.own} == choice;
  });
  if (it == candidates.end()) it = candidates.insert(candidates.end(), missing());
  for (Candidate& c : candidates) {
    if (c.chosen) c.why_not = why_not;
    c.chosen = false;
    c.why.clear();
  }
  it->chosen = true;
  it->why_not.clear();
  it->why = std::move(why);
}

std::string name_of(const std::string& algorithm, WireFormat wire) {
  if (wire == WireFormat::exact) return algorithm;
  return fmt::format("{}+{}", algorithm, to_string(wire));
}

std::string print(std::vector<Candidate> candidates, Shown shown) {
  constexpr size_t kNearest = 1 + 5;
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return std::pair(!a.chosen, a.seconds) < std::pair(!b.chosen, b.seconds);
  });
  std::string text = fmt::format("# {:<25} {:>5} {:>12} {:>12}  {}\n", "algorithm", "segments",
                                 "time (us)", "shared (us)", "(~ estimated, > at least)");
  const size_t count =
      shown == Shown::all ? candidates.size() : std::min(candidates.size(), kNearest);
  for (const Candidate& c : std::span(candidates).first(count))
    text += fmt::format("{} {:<25} {:>5} {:>12} {:>12}  {}\n", c.chosen ? '*' : ' ',
                        name_of(c.algorithm, c.wire), c.segments, time_text(c, c.seconds),
                        time_text(c, c.zero_copy_seconds), why_of(c, candidates));
  if (count < candidates.size())
    text += fmt::format("# and {} more, which --all shows\n", candidates.size() - count);
  return text;
}

}  // namespace ringwood
