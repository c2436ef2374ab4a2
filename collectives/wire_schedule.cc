#include "collectives/wire_schedule.h"

#include <algorithm>
#include <deque>
#include <map>

#include "collectives/verify_expressions.h"

namespace ringwood {
namespace {

bool adds(StepKind kind) { return kind == StepKind::recv_reduce || kind == StepKind::reduce; }

std::vector<Step> chunk_by_chunk(const std::vector<Step>& steps) {
  std::vector<Step> apart;
  for (const Step& step : steps)
    for (int i = 0; i < std::max(step.dst.count, step.src.count); ++i) {
      Step one = step;
      if (one.dst.count) one.dst = {step.dst.first + i, 1};
      if (one.src.count) one.src = {step.src.first + i, 1};
      apart.push_back(one);
    }
  return apart;
}

// Follows what each chunk holds from one write to the next, and finds which of these values are to
// be rounded, and before which step.
class Values {
 public:
  Values(const Schedule& s, const std::vector<Step>& steps, std::span<const int> host)
      : host_(host), rank_(s.rank), of_(s.chunks + s.scratch.size()), round_before_(steps.size()) {
    for (size_t i = 0; i < steps.size(); ++i) visit(steps[i], static_cast<int>(i));
    // What the user's chunks hold at the end is used by the user; of the scratch, what was used.
    for (size_t c = 0; c < of_.size(); ++c) end(of_[c], static_cast<int>(c) < s.chunks);
  }
  const std::vector<std::vector<int>>& round_before() const { return round_before_; }

 private:
  struct Value {
    int chunk = -1, first_use = -1;
    bool rounded = false, goes_out = false, used = false;
  };

  void visit(const Step& step, int index) {
    if (step.kind == StepKind::send) {
      Value& value = use(step.src.first, index);
      (is_encoded(host_, rank_, step.peer) ? value.goes_out : value.used) = true;
      return;
    }
    if (step.src.count) use(step.src.first, index).used = true;
    Value& old = adds(step.kind) ? use(step.dst.first, index) : of_[step.dst.first];
    end(old, adds(step.kind));
    of_[step.dst.first] = {};
    of_[step.dst.first].rounded =
        step.kind == StepKind::recv && is_encoded(host_, rank_, step.peer);
  }

  Value& use(int chunk, int index) {
    Value& value = of_[chunk];
    value.chunk = chunk;
    if (value.first_use < 0) value.first_use = index;
    return value;
  }

  void end(const Value& value, bool used) {
    if (value.goes_out && !value.rounded && (used || value.used))
      round_before_[value.first_use].push_back(value.chunk);
  }

  std::span<const int> host_;
  const int rank_;
  std::vector<Value> of_;  // by chunk
  std::vector<std::vector<int>> round_before_;
};

// Runs all ranks one after the other, as far as each gets, on symbols.
class Proof {
 public:
  Proof(Collective collective, const std::vector<Schedule>& all, std::span<const int> host)
      : host_(host), expressions_(static_cast<int>(all.size()), all[0].chunks) {
    for (const Schedule& s : all) {
      schedules_.push_back(with_roundings(s, collective, host));
      values_.emplace_back(s.chunks + s.scratch.size(), Expressions::kNothing);
      for (int c = 0; c < s.chunks; ++c) values_.back()[c] = expressions_.leaf(s.rank, c);
    }
    at_.assign(all.size(), 0);
  }

  WireProof run(Collective collective) {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < schedules_.size(); ++r)
        for (; at_[r] < schedules_[r].steps.size() && step(static_cast<int>(r)); ++at_[r])
          moved = true;
    }
    bool equal = true;
    if (collective == Collective::all_reduce)
      for (const auto& values : values_)
        equal = equal && std::equal(values.begin(), values.begin() + schedules_[0].chunks,
                                    values_[0].begin());
    return {equal, most_};
  }

 private:
  using Id = Expressions::Id;

  // False: what it receives has not been sent yet.
  bool step(int rank) {
    const Step& step = schedules_[rank].steps[at_[rank]];
    std::vector<Id>& mine = values_[rank];
    if (step.kind == StepKind::send) {
      const Id value = mine[step.src.first];
      links_[{rank, step.peer}].push_back(is_encoded(host_, rank, step.peer) ? rounded(value)
                                                                             : value);
      return true;
    }
    Id value = step.src.count ? mine[step.src.first] : Expressions::kNothing;
    if (step.peer >= 0) {
      auto& link = links_[{step.peer, rank}];
      if (link.empty()) return false;
      value = link.front();
      link.pop_front();
    }
    Id& target = mine[step.dst.first];
    if (is_rounding(step))
      target = rounded(target);
    else
      target = adds(step.kind) ? sum(target, value) : value;
    return true;
  }

  int roundings(Id id) const { return id < roundings_.size() ? roundings_[id] : 0; }
  void set_roundings(Id id, int count) {
    if (id >= roundings_.size()) roundings_.resize(id + 1, 0);
    roundings_[id] = count;
    most_ = std::max(most_, count);
  }
  Id rounded(Id value) {
    const Id result = expressions_.rounded(value);
    if (result != value) set_roundings(result, roundings(value) + 1);
    return result;
  }
  Id sum(Id a, Id b) {
    const Id result = expressions_.sum(a, b);
    set_roundings(result, std::max(roundings(a), roundings(b)));
    return result;
  }

  std::span<const int> host_;
  Expressions expressions_;
  std::vector<Schedule> schedules_;
  std::vector<std::vector<Id>> values_;  // by rank and chunk
  std::vector<size_t> at_;               // by rank: the next step
  std::map<std::pair<int, int>, std::deque<Id>> links_;
  std::vector<int> roundings_;  // by expression
  int most_ = 0;
};

}  // namespace

Schedule with_roundings(const Schedule& schedule, Collective collective,
                        std::span<const int> host) {
  Schedule result = schedule;
  result.steps = chunk_by_chunk(schedule.steps);
  if (collective != Collective::all_reduce || host.empty()) return result;
  const std::vector<Step> steps = std::move(result.steps);
  const Values values(schedule, steps, host);
  result.steps.clear();
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const int chunk : values.round_before()[i]) result.copy({chunk, 1}, {chunk, 1});
    result.steps.push_back(steps[i]);
  }
  return result;
}

WireProof prove_wire(Collective collective, const std::vector<Schedule>& all,
                     std::span<const int> host) {
  if (all.empty()) return {true, 0};
  return Proof(collective, all, host).run(collective);
}

}  // namespace ringwood
