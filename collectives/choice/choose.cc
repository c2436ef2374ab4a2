#include "collectives/choice/choose.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "collectives/algorithms/algorithms.h"

namespace ringwood {
namespace {

// Nine collectives of a few dozen sizes each; beyond this the questions do not repeat.
constexpr size_t kMostAnswers = 4096;

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

Where where_of(const Question& q) {
  if (!q.fabric) return {0, q.n};
  return {0, q.n, 0, q.fabric->hosts, q.fabric->nodes};
}

bool is_right(const AlgorithmRow& row, const Question& q) {
  return row.accepts(where_of(q)) && !(q.uneven && row.sizes == BlockSizes::equal);
}

std::string names(const Question& q) {
  std::string text;
  for (const AlgorithmRow& row : algorithm_table())
    if (row.collective == q.collective && is_right(row, q))
      text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

// Null: nobody has named one.
const AlgorithmRow* named(const Question& q, const Options& options, const std::string& algorithm) {
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

std::vector<const AlgorithmRow*> rows_of(const Question& q, const Options& options) {
  const bool ordered = options.reproducible && reduces(q.collective);
  std::vector<const AlgorithmRow*> rows;
  for (const AlgorithmRow& row : algorithm_table())
    if (row.collective == q.collective && (row.rank_order || !ordered) &&
        (row.sizes == BlockSizes::any || !q.uneven))
      rows.push_back(&row);
  return rows;
}

double tolerance_of(const Question& q, const Options& options) {
  return options.reproducible || !may_encode(q.collective, q.type, q.op) ? 0 : q.tolerance;
}

// Written so that a NaN is refused.
void check_tolerance(const Question& q) {
  if (q.tolerance < 1) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: a tolerance of {} is not below 1",
                                                       to_string(q.collective), q.tolerance));
}

// Where there is nothing to weigh.
Answer first_row(const Question& q, const Options& options, const AlgorithmRow* row, int lanes) {
  for (const AlgorithmRow* one : rows_of(q, options))
    if (!row && one->accepts(where_of(q))) row = one;
  return {row ? row->name : "", std::clamp(lanes, 1, kMostLanes), WireFormat::exact};
}

CandidateQuery query_of(const Question& q, const Options& options, const AlgorithmRow* row,
                        int lanes) {
  CandidateQuery query;
  query.collective = q.collective;
  query.bytes = size_class(q.bytes);
  query.element = size_of(q.type);
  query.n = q.n;
  query.rows = row ? std::vector{row} : rows_of(q, options);
  query.adds_once = !row && reduces(q.collective) && gains_by_rows(q.type, q.op);
  query.tolerance = tolerance_of(q, options);
  query.lanes = lanes;
  query.lane_bytes = options.lane_bytes;
  return query;
}

std::vector<Candidate> weigh_question(const Question& q, const CandidateQuery& query) {
  if (q.fabric) return weigh(query, *q.fabric);
  return weigh(query, default_fabric(q.n, q.several_hosts));
}

std::string time_text(const Candidate& c, double seconds) {
  if (std::isinf(seconds)) return "-";
  const bool bound = c.why_not == "slower even at its bound" && !c.simulated;
  return fmt::format("{}{:.{}f}",
                     c.simulated ? ""
                     : bound     ? ">"
                                 : "~",
                     seconds * 1e6,
                     seconds < 1e-5   ? 3
                     : seconds < 1e-1 ? 1
                                      : 0);
}

}  // namespace

Fabric default_fabric(int n, bool several_hosts) {
  Fabric fabric;
  fabric.cores = std::max(1, n);
  for (int r = 0; several_hosts && r < n; ++r) fabric.hosts.push_back(r);
  return fabric;
}

size_t size_class(size_t bytes) {
  constexpr int kBits = 4;  // of the size, the highest one included
  const int drop = std::max(0, static_cast<int>(std::bit_width(bytes)) - kBits);
  return bytes >> drop << drop;
}

Answer choose(const Question& q, const Options& options, const std::string& algorithm, int lanes) {
  check_tolerance(q);
  const AlgorithmRow* row = named(q, options, algorithm);
  const bool named_whole = row && lanes > 0 && tolerance_of(q, options) == 0;
  const bool nothing_to_weigh = q.n == 1 || q.bytes == 0 || named_whole;
  if (nothing_to_weigh && q.collective != Collective::barrier)
    return first_row(q, options, row, lanes);
  for (const Candidate& c : weigh_question(q, query_of(q, options, row, lanes)))
    if (c.chosen) return {c.algorithm, c.lanes, c.wire};
  return first_row(q, options, row, lanes);
}

std::vector<Candidate> explain(const Question& q, const Options& options,
                               const std::string& algorithm, int lanes) {
  const Answer answer = choose(q, options, algorithm, lanes);
  CandidateQuery query = query_of(q, options, named(q, options, algorithm), lanes);
  query.all = true;
  std::vector<Candidate> candidates = weigh_question(q, query);
  for (Candidate& c : candidates) {
    const bool chosen = Answer{c.algorithm, c.lanes, c.wire} == answer;
    if (c.chosen && !chosen) c.why_not = "nothing to choose from";
    c.chosen = chosen;
    if (chosen) c.why_not.clear();
  }
  return candidates;
}

std::string name_of(const std::string& algorithm, WireFormat wire) {
  if (wire == WireFormat::exact) return algorithm;
  return fmt::format("{}+{}", algorithm, to_string(wire));
}

std::string print(std::vector<Candidate> candidates) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return std::pair(!a.chosen, a.seconds) < std::pair(!b.chosen, b.seconds);
  });
  std::string text = fmt::format("# {:<25} {:>5} {:>12} {:>12}  {}\n", "algorithm", "lanes",
                                 "time (us)", "shared (us)", "(~ estimated, > at least)");
  for (const Candidate& c : candidates)
    text += fmt::format("{} {:<25} {:>5} {:>12} {:>12}  {}\n", c.chosen ? '*' : ' ',
                        name_of(c.algorithm, c.wire), c.lanes, time_text(c, c.seconds),
                        time_text(c, c.lent_seconds), c.chosen ? "chosen" : c.why_not);
  return text;
}

Chooser::Chooser(Fabric fabric, const Options& options)
    : fabric_(std::move(fabric)), options_(options) {}

Answer Chooser::choose(Question q, const std::string& algorithm, int lanes) {
  check_tolerance(q);  // no key can be made of a NaN
  q.fabric = &fabric_;
  Key key{q.collective, size_class(q.bytes), q.type,    q.op, q.n,
          q.uneven,     q.tolerance,         algorithm, lanes};
  std::lock_guard lock(mutex_);
  const auto it = answers_.find(key);
  if (it != answers_.end()) return it->second;
  if (answers_.size() >= kMostAnswers) answers_.clear();
  Answer answer = ringwood::choose(q, options_, algorithm, lanes);
  return answers_.emplace(std::move(key), std::move(answer)).first->second;
}

std::vector<Candidate> Chooser::explain(Question q) const {
  q.fabric = &fabric_;
  return ringwood::explain(q, options_);
}

}  // namespace ringwood
