#include "tools/perf/html/perf_html_verdicts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "tools/counted.h"
#include "tools/perf/html/perf_sweeps.h"

namespace ringwood::tools {
namespace {

constexpr double kSpread = 5;  // p99 over p50
constexpr int kMinSamples = 20;
constexpr double kSkew = 0.2;       // of the median time
constexpr double kMinSkewUs = 0.5;  // ten readings of the clock
constexpr double kFaster = 0.9;     // of the time of what is compared
constexpr double kMinGainUs = 10;   // where it is faster at one size alone
constexpr double kFallen = 0.8;     // of the peak
constexpr size_t kMinSizesOfAFall = 4;
constexpr double kPredictionOff = 1.5;
constexpr size_t kMaxSentences = 3;   // of a symptom
constexpr size_t kMaxSizesNamed = 4;  // in a command

// A size at which two figures do not go together.
struct Hit {
  const Row* row;
  double other = 0;   // beside the row's own figure
  double factor = 1;  // between them, 1 or more
};
using Hits = std::vector<Hit>;  // by size

const Hit& worst_of(const Hits& hits) { return *std::ranges::max_element(hits, {}, &Hit::factor); }

std::string time_words(double us) {
  return us < 999.5    ? fmt::format("{:.3g} µs", us)
         : us < 999500 ? fmt::format("{:.3g} ms", us / 1e3)
                       : fmt::format("{:.3g} s", us / 1e6);
}

std::string factor_words(double factor) {
  return factor < 99.5 ? fmt::format("{:.3g}", factor) : fmt::format("{:.0f}", factor);
}

// As options have it: "64K".
std::string size_word(size_t bytes) {
  if (bytes > 0 && bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
  if (bytes > 0 && bytes % (1 << 10) == 0) return fmt::format("{}K", bytes >> 10);
  return fmt::to_string(bytes);
}

std::string size_of(const Row& row) { return size_text(static_cast<double>(row.bytes)); }

// The sentences about one sweep, and the commands in them.
class SweepJudge final {
 public:
  SweepJudge(const Sweep& sweep, const RunShape& shape)
      : sweep_(sweep), shape_(shape), rows_(sweep.taken()) {
    std::erase_if(rows_,
                  [](const Row* row) { return row->ranks < 2 || row->times.median_us <= 0; });
  }

  std::vector<PerfFinding> all(const std::vector<EarlierResults>& earlier) {
    if (rows_.empty()) return {};
    spread();
    late_rank();
    other_algorithm();
    for (const EarlierResults& one : earlier)
      if (matches(one.of, sweep_.of)) earlier_results(one);
    falling_bandwidth();
    prediction();
    return std::move(found_);
  }

 private:
  void add(Symptom symptom, const Hits& hits, size_t sizes, const std::string& rest) {
    const Hit& worst = worst_of(hits);
    std::string where;
    if (hits.size() > 1)
      where =
          fmt::format(", at {} of {} sizes from {} to {}, most at {}", hits.size(), sizes,
                      size_of(*hits.front().row), size_of(*hits.back().row), size_of(*worst.row));
    else if (worst.row->bytes > 0)
      where = fmt::format(", at {}", size_of(*worst.row));
    found_.push_back(
        {symptom, sweep_.name, worst.factor, fmt::format("{}{}: {}.", sweep_.name, where, rest)});
  }

  // ---- commands --------------------------------------------------------------------------------

  std::string start(const std::string& command) const {
    return (shape_.transports.empty()
                ? ""
                : fmt::format("RINGWOOD_TRANSPORTS={} ", fmt::join(shape_.transports, ","))) +
           "ringwood " + command;
  }
  // Several hosts have a launcher, which says how many they are.
  std::string type_and_ranks() const {
    const Row& row = *rows_.front();
    std::string text;
    if (row.bytes > 0 && row.dtype != "float32") text += " -d " + row.dtype;
    if (row.op != "none" && row.op != "sum") text += " -o " + row.op;
    if (shape_.hosts < 2) text += fmt::format(" --ranks {}", row.ranks);
    return text;
  }
  // Of perf and tune alike.
  std::string same_calls(const Hits& hits) const {
    std::string text = " " + sweep_.of.collective;
    std::vector<std::string> sizes;
    for (const Hit& hit : hits) sizes.push_back(size_word(hit.row->bytes));
    if (hits.size() > kMaxSizesNamed)
      text += fmt::format(" -b {} -e {}", sizes.front(), sizes.back());
    else if (hits.front().row->bytes > 0)
      text += fmt::format(" --sizes {}", fmt::join(sizes, ","));
    text += type_and_ranks();
    if (sweep_.of.root > 0) text += fmt::format(" -r {}", sweep_.of.root);
    if (shape_.shared) text += " --memory shared";
    return text;
  }
  std::string ladder(const std::string& sizes) const {
    return start("perf --ladder --sizes " + sizes);
  }

  // ---- the symptoms ----------------------------------------------------------------------------

  void spread() {
    Hits hits;
    for (const Row* row : rows_) {
      const Spread& s = row->times.spread;
      if (s.samples >= kMinSamples && s.p50_us > 0 && s.p99_us >= kSpread * s.p50_us)
        hits.push_back({row, s.p99_us, s.p99_us / s.p50_us});
    }
    if (hits.empty()) return;
    const Hit& worst = worst_of(hits);
    add(Symptom::spread, hits, rows_.size(),
        fmt::format("one of 100 operations takes {} or more, {} times the median of {}: "
                    "something else runs on these cores, memory is paged or packets are sent "
                    "again; look at the counters below, and run {}",
                    time_words(worst.other), factor_words(worst.factor),
                    time_words(worst.row->times.spread.p50_us),
                    shape_.hosts < 2 ? "ringwood doctor" : "ringwood doctor --all-hosts"));
  }

  void late_rank() {
    // Without a barrier the root runs ahead of those that wait for it, or they ahead of it.
    if (sweep_.of.root >= 0 && !shape_.touched) return;
    Hits hits;
    for (const Row* row : rows_) {
      const Spread& s = row->times.spread;
      const double median = row->times.median_us;
      if (s.skew_p50_us >= kSkew * median && s.last_rank >= 0 &&
          s.skew_p50_us > std::max(s.clock_error_us, kMinSkewUs))
        hits.push_back({row, s.skew_p50_us, 1 + s.skew_p50_us / median});
    }
    if (hits.empty()) return;
    const Hit& worst = worst_of(hits);
    const double median = worst.row->times.median_us;
    add(Symptom::late_rank, hits, rows_.size(),
        fmt::format("ranks come to an operation {} apart, {:.0f} % of the {} that it takes, and "
                    "rank {} comes last: see what it does meanwhile, with "
                    "RINGWOOD_TRACE_DIR=traces {} and then ringwood trace traces",
                    time_words(worst.other), worst.other / median * 100, time_words(median),
                    worst.row->times.spread.last_rank, start("perf" + same_calls({worst}))));
  }

  // By name, where it is faster than the choice.
  std::map<std::string, Hits> faster_algorithms() const {
    std::map<std::string, Hits> faster;
    for (const Row* choice : rows_) {
      if (!choice->chosen) continue;
      for (const Row* row : sweep_.rows) {
        const double us = row->times.median_us;
        if (row->bytes == choice->bytes && us > 0 && us <= kFaster * choice->times.median_us)
          faster[algorithm_text(*row)].push_back({choice, us, choice->times.median_us / us});
      }
    }
    return faster;
  }
  static double gain_us(const Hits& hits) {
    double gain = 0;
    for (const Hit& hit : hits) gain += hit.row->times.median_us - hit.other;
    return gain;
  }

  // Of several the one that saves most.
  void other_algorithm() {
    std::string name;
    Hits hits;
    for (const auto& [algorithm, sizes] : faster_algorithms()) {
      if (sizes.size() < 2 && gain_us(sizes) < kMinGainUs) continue;
      if (!hits.empty() && gain_us(sizes) <= gain_us(hits)) continue;
      name = algorithm;
      hits = sizes;
    }
    if (hits.empty()) return;
    const Hit& worst = worst_of(hits);
    add(Symptom::other_algorithm, hits, rows_.size(),
        fmt::format(
            "{} takes {} where the choice, {}, takes {}{}: {} measures what groups then "
            "choose by",
            name, time_words(worst.other), algorithm_text(*worst.row),
            time_words(worst.row->times.median_us),
            hits.size() < 2 ? "" : fmt::format(", and saves {} in all", time_words(gain_us(hits))),
            start("tune" + same_calls(hits))));
  }

  void earlier_results(const EarlierResults& one) {
    Hits hits;
    size_t common = 0, faster = 0;
    for (const Row* row : rows_) {
      const auto at = std::ranges::find(one.bytes, static_cast<double>(row->bytes));
      if (row->bytes == 0 || at == one.bytes.end()) continue;
      const double theirs = one.time_us[static_cast<size_t>(at - one.bytes.begin())];
      const double ours = row->times.median_us;
      ++common;
      faster += theirs < ours ? 1 : 0;
      if (theirs > 0 && theirs <= kFaster * ours) hits.push_back({row, theirs, ours / theirs});
    }
    if (hits.empty() || (hits.size() < 2 && faster < common)) return;
    const Hit& worst = worst_of(hits);
    const bool others = !sweep_.compared && worst.row->predicted_us.has_value();
    add(Symptom::earlier_results, hits, common,
        fmt::format("{} takes {}, and this run {}, {} times as long: {}", one.name,
                    time_words(worst.other), time_words(worst.row->times.median_us),
                    factor_words(worst.factor),
                    others ? start("perf" + same_calls(hits) + " --algorithm all") +
                                 " tells whether another algorithm is as fast"
                           : ladder(size_word(worst.row->bytes)) + " tells which layer takes it"));
  }

  void falling_bandwidth() {
    if (rows_.size() < kMinSizesOfAFall) return;
    const Row& peak =
        **std::ranges::max_element(rows_, {}, [](const Row* row) { return row->busbw_gbs; });
    const Row& last = *rows_.back();
    // Where caches end, memory allows less, too.
    const double limit = last.limit_us.value_or(0) > 0
                             ? last.busbw_gbs * last.times.best_us / *last.limit_us
                             : peak.busbw_gbs;
    if (last.busbw_gbs <= 0 || last.busbw_gbs > kFallen * std::min(peak.busbw_gbs, limit)) return;
    add(Symptom::falling_bandwidth, {{&last, peak.busbw_gbs, peak.busbw_gbs / last.busbw_gbs}},
        rows_.size(),
        fmt::format(
            "the bus bandwidth has fallen to {:.3g} GB/s from the {:.3g} GB/s at {}{}: {} "
            "tells which layer loses it",
            last.busbw_gbs, peak.busbw_gbs, size_of(peak),
            last.limit_us ? fmt::format(", and memory and links allow {:.3g} GB/s", limit) : "",
            ladder(fmt::format("{},{}", size_word(peak.bytes), size_word(last.bytes)))));
  }

  // How far off, either way; 1 where nothing is predicted.
  static double off(const Row& row) {
    const double predicted = row.predicted_us.value_or(0), median = row.times.median_us;
    return predicted > 0 ? std::max(predicted / median, median / predicted) : 1;
  }

  void prediction() {
    Hits hits;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const auto is_off = [&](size_t at) {
        return at < rows_.size() && off(*rows_[at]) >= kPredictionOff;
      };
      if (is_off(i) && (is_off(i + 1) || (i > 0 && is_off(i - 1))))
        hits.push_back({rows_[i], *rows_[i]->predicted_us, off(*rows_[i])});
    }
    if (hits.empty()) return;
    const Hit& worst = worst_of(hits);
    const Row& row = *worst.row;
    std::string next = start("tune" + same_calls(hits)) + " lets measurements choose";
    // What it prints is about shared memory, on one host.
    if (shape_.hosts < 2 && row.transports == "shm")
      next += fmt::format(", and ringwood explain {} {}{} says what the prediction follows from",
                          row.collective, size_word(row.bytes), type_and_ranks());
    add(Symptom::prediction, hits, rows_.size(),
        fmt::format("an operation takes {}, {} times the {} that are predicted for {}: {}",
                    time_words(row.times.median_us),
                    factor_words(row.times.median_us / worst.other), time_words(worst.other),
                    algorithm_text(row), next));
  }

  const Sweep& sweep_;
  const RunShape& shape_;
  std::vector<const Row*> rows_;  // one of each size, by size
  std::vector<PerfFinding> found_;
};

// Of a symptom, the worst first: those after the third become one.
void shorten(std::vector<PerfFinding>& same) {
  if (same.size() <= kMaxSentences) return;
  const size_t others = same.size() - kMaxSentences;
  std::set<std::string> collectives;
  for (size_t i = kMaxSentences; i < same.size(); ++i)
    collectives.insert(same[i].sweep.substr(0, same[i].sweep.find(',')));
  PerfFinding& last = same[kMaxSentences];
  last.sentence =
      fmt::format("Likewise, but less so: {} more, of {}.", others, fmt::join(collectives, ", "));
  last.sweep = "";
  same.resize(kMaxSentences + 1, last);
}

}  // namespace

std::vector<PerfFinding> findings_of(const std::vector<Row>& rows,
                                     const std::vector<EarlierResults>& earlier,
                                     const RunShape& shape) {
  std::map<Symptom, std::vector<PerfFinding>> by_symptom;
  for (const Sweep& sweep : sweeps_of(rows))
    for (PerfFinding& one : SweepJudge(sweep, shape).all(earlier))
      by_symptom[one.symptom].push_back(std::move(one));
  std::vector<PerfFinding> all;
  for (auto& [symptom, same] : by_symptom) {
    std::ranges::stable_sort(same, std::greater{}, &PerfFinding::factor);
    shorten(same);
    std::ranges::move(same, std::back_inserter(all));
  }
  return all;
}

std::string nothing_found(const std::vector<Row>& rows,
                          const std::vector<EarlierResults>& earlier) {
  const std::vector<Sweep> sweeps = sweeps_of(rows);
  if (std::ranges::all_of(rows, [](const Row& row) { return row.ranks < 2; }))
    return "One rank sends nothing: there is nothing to look at.";
  size_t sizes = 0;
  bool compared = false;
  for (const Sweep& sweep : sweeps) {
    sizes += sweep.taken().size();
    compared |= sweep.compared;
  }
  return fmt::format(
      "Nothing stands out: looked at were {} of {}, with the predictions, the spread and the skew "
      "of the ranks, and the bandwidth beside its peak{}{}.",
      counted(sizes, "size"), counted(sweeps.size(), "sweep"),
      compared ? ", the other algorithms" : "", earlier.empty() ? "" : ", earlier results");
}

}  // namespace ringwood::tools
