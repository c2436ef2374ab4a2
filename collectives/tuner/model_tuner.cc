#include "collectives/tuner/model_tuner.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "collectives/kernels/types.h"
#include "collectives/plan/proved_schedules.h"

namespace ringwood {
namespace {

// Nine collectives of a few dozen sizes each; beyond this the queries do not repeat.
constexpr size_t kMaxChoices = 4096;

std::string time_text(const MeasuredTime& t) {
  return t.median < 1e-3 ? fmt::format("{:.4g} us", t.median * 1e6)
                         : fmt::format("{:.4g} ms", t.median * 1e3);
}

// "tuned: 74.7 us measured at 8192 B, where linear/1 takes 101.2 us", by the nearest point.
std::string words_on(const TunedRange& range, size_t bytes) {
  if (edited(range)) return "tuned: edited in the file, not measured";
  const TunedPoint* nearest = nullptr;
  const auto off = [bytes](const TunedPoint& p) {
    return static_cast<double>(std::max(p.bytes, bytes)) /
           static_cast<double>(std::max<size_t>(1, std::min(p.bytes, bytes)));
  };
  for (const TunedPoint& p : range.points)
    if (!nearest || off(p) < off(*nearest)) nearest = &p;
  if (!nearest) return "tuned";
  return fmt::format("tuned: {} measured at {} B, where {}/{} takes {}", time_text(nearest->time),
                     nearest->bytes, nearest->default_algorithm, nearest->default_segments,
                     time_text(nearest->default_time));
}

// As `ringwood perf` counts.
size_t whole_bytes(const ModelQuery& q) {
  return in_blocks(q.collective) ? q.bytes * static_cast<size_t>(q.n) : q.bytes;
}

}  // namespace

ModelTuner::ModelTuner(MachineModel machine, NetworkParameters first, const Options& options,
                       std::shared_ptr<const TuningFile> file)
    : machine_(std::move(machine)),
      first_(std::move(first)),
      options_(options),
      file_(alike(machine_.net, first_) ? file : nullptr),
      first_file_(std::move(file)) {}

ModelTuner::~ModelTuner() = default;

ModelQuery ModelTuner::query_of(const TuningQuery& query) const {
  ModelQuery q{query};
  q.machine = &machine_;
  if (q.tolerance < 0) q.tolerance = options_.tolerance;
  return q;
}

const TunedRange* ModelTuner::tuned_range(const ModelQuery& q, const std::string& algorithm,
                                          int segments) const {
  if (!file_ || q.n != file_->fingerprint.ranks() || q.uneven || !algorithm.empty() ||
      segments != 0 || names_row(options_, q.collective) ||
      (options_.reproducible && reduces(q.collective)))
    return nullptr;
  const bool rounded = reduces(q.collective) && gains_by_accumulation(q.type, q.op);
  const double tolerance = may_encode(q.collective, q.type, q.op) ? q.tolerance : 0;
  return find_range(*file_, {q.collective, has_root(q.collective) ? q.root : 0, rounded,
                             whole_bytes(q), tolerance});
}

TuningChoice ModelTuner::tuned_choice(const ModelQuery& query, const TunedRange& range) const {
  TuningChoice choice;
  if (auto own = own_schedules(*file_, range)) {
    choice = {std::string(kUserSchedules), range.segments};
    choice.own = std::move(own);
    choice.own_name = range.algorithm;
  } else {
    ModelQuery q = query;
    if (range.wire == WireFormat::exact) q.tolerance = 0;
    choice = ringwood::choose(q, options_, range.algorithm, range.segments, &profiles(q.n));
  }
  choice.by = ChosenBy::tuning_file;
  return choice;
}

TuningChoice ModelTuner::compute(const ModelQuery& q, const TunedRange* range,
                                 const std::string& algorithm, int segments) const {
  if (range) return tuned_choice(q, *range);
  TuningChoice choice = ringwood::choose(q, options_, algorithm, segments, &profiles(q.n));
  choice.by = !algorithm.empty()                  ? ChosenBy::given
              : names_row(options_, q.collective) ? ChosenBy::options
              : choice.seconds > 0                ? ChosenBy::prediction
                                                  : ChosenBy::only;
  return choice;
}

TuningChoice ModelTuner::choose(const TuningQuery& query, const std::string& algorithm,
                                int segments) const {
  const ModelQuery q = query_of(query);
  check_tolerance(q);  // no key can be made of a NaN
  const TunedRange* const range = tuned_range(q, algorithm, segments);
  const Key key{q.collective, size_class(q.bytes), q.type,    q.op,     q.n,
                q.uneven,     q.tolerance,         algorithm, segments, range};
  const auto known = [&]() -> const TuningChoice* {
    const auto it = choices_.find(key);
    return it == choices_.end() ? nullptr : &it->second;
  };
  {
    const std::lock_guard lock(choices_mutex_);
    if (const TuningChoice* choice = known()) return *choice;
  }
  const std::lock_guard computing(profiles_mutex_);
  {
    const std::lock_guard lock(choices_mutex_);
    if (const TuningChoice* choice = known()) return *choice;  // by another thread, meanwhile
  }
  TuningChoice choice = compute(q, range, algorithm, segments);
  const std::lock_guard lock(choices_mutex_);
  if (choices_.size() >= kMaxChoices) choices_.clear();
  choices_.emplace(key, choice);
  return choice;
}

std::vector<Candidate> ModelTuner::explain(const TuningQuery& query) const {
  const ModelQuery q = query_of(query);
  const TunedRange* const range = tuned_range(q, "", 0);
  const std::lock_guard computing(profiles_mutex_);
  std::vector<Candidate> candidates = ringwood::explain(q, options_, "", 0, &profiles(q.n));
  if (range) explain_tuned(q, *range, candidates);
  return candidates;
}

// The choice becomes the range's, with the prediction for it, or as a line of its own.
void ModelTuner::explain_tuned(const ModelQuery& q, const TunedRange& range,
                               std::vector<Candidate>& candidates) const {
  const TuningChoice choice = tuned_choice(q, range);
  const auto missing = [&] {
    if (!choice.own)
      for (Candidate& c :
           ringwood::explain(q, options_, range.algorithm, range.segments, &profiles(q.n)))
        if (c.segments == choice.segments && c.wire == choice.wire &&
            c.algorithm == range.algorithm)
          return c;
    return candidate_of(choice);
  };
  choose_instead(candidates, choice, missing, words_on(range, whole_bytes(q)),
                 "predicted best, but another one was measured to be");
}

RowProfiles& ModelTuner::profiles(int n) const {
  std::unique_ptr<RowProfiles>& found = profiles_[n];
  if (!found) found = std::make_unique<RowProfiles>(machine_, n);
  return *found;
}

// ---- other parameters ---------------------------------------------------------------------------

std::shared_ptr<const ModelTuner> ModelTuner::with(const NetworkParameters& network) const {
  MachineModel machine = machine_;
  machine.net = network;
  return std::make_shared<ModelTuner>(std::move(machine), first_, options_, first_file_);
}

// Of the text only the network's parameters count: the rest of a group's model never changes.
std::shared_ptr<const Tuner> ModelTuner::with(const std::string& parameters) const {
  return with(parse_machine_model(parameters).net);
}

std::vector<RowChange> ModelTuner::row_changes(const NetworkParameters& network,
                                               const std::vector<UsedChoice>& used,
                                               const std::atomic<bool>& stop) const {
  std::map<std::pair<Collective, size_t>, const UsedChoice*> classes;
  for (const UsedChoice& one : used)
    classes.emplace(std::pair(one.query.collective, size_class(one.query.bytes)), &one);
  const auto other = with(network);
  std::vector<RowChange> changes;
  for (const auto& [what, one] : classes) {
    if (stop) break;
    changes.push_back(row_change(what.first, what.second, one->choice, other->explain(one->query)));
  }
  return changes;
}

Proposal ModelTuner::proposal(const NetworkParameters& network,
                              const std::vector<RowChange>& changes) const {
  const std::string why = print_difference(machine_.net, network);
  if (why.empty()) return {};
  const std::string words = print(changes);
  MachineModel machine = machine_;
  machine.net = network;
  machine.hosts = machine.nodes = {};  // every rank knows them
  return {print(machine), why + (words.empty() ? "" : ": ") + words};
}

Proposal ModelTuner::propose(const NetworkParameters& network,
                             const std::vector<UsedChoice>& used) const {
  return proposal(network, row_changes(network, used, false));
}

Proposal ModelTuner::weigh(const NetworkParameters& measured, const std::vector<UsedChoice>& used,
                           const std::atomic<bool>& stop) const {
  const bool as_at_first = alike(measured, first_);
  const NetworkParameters& network = as_at_first ? first_ : measured;
  const std::vector<RowChange> changes = row_changes(network, used, stop);
  if (stop || !(as_at_first || worthwhile(changes))) return {};
  return proposal(network, changes);
}

}  // namespace ringwood
