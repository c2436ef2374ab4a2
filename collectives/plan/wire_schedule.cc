#include "collectives/plan/wire_schedule.h"

#include <algorithm>

#include "collectives/schedule/interpret.h"
#include "collectives/verify/verify_expressions.h"

namespace ringwood {
namespace {

bool adds(StepKind kind) { return kind == StepKind::recv_reduce || kind == StepKind::reduce; }

std::vector<Step> chunk_by_chunk(const std::vector<Step>& steps) {
  std::vector<Step> apart;
  for (const Step& step : steps)
    for (int i = 0; i < std::max(step.dst.count, step.src.count); ++i) {
      Step one = step;
      one.joined = false;
      if (one.dst.count) one.dst = {step.dst.first + i, 1};
      if (one.src.count) one.src = {step.src.first + i, 1};
      apart.push_back(one);
    }
  return apart;
}

// Follows what each chunk contains from one write to the next, and finds which of these values must
// be rounded, and before which step.
class Values {
 public:
  Values(const Schedule& s, const std::vector<Step>& steps, std::span<const int> host)
      : host_(host), rank_(s.rank), of_(s.chunks + s.scratch.size()), round_before_(steps.size()) {
    for (size_t i = 0; i < steps.size(); ++i) visit(steps[i], static_cast<int>(i));
    // What the user's chunks contain at the end is used by the user; of the scratch, only
    // what was read.
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

// Counts the roundings of each expression.
class Roundings {
 public:
  using Value = Expressions::Id;
  Roundings(int ranks, int chunks, std::span<const int> host)
      : host_(host), expressions_(ranks, chunks) {}

  Value begin(int rank, int chunk) const { return expressions_.leaf(rank, chunk); }
  Value send(const Move& m, Value value) {
    return is_encoded(host_, m.from, m.to) ? round(m, value) : value;
  }
  Value round(const Move&, Value value) {
    const Value result = expressions_.rounded(value);
    if (result != value) set(result, of(value) + 1);
    return result;
  }
  Value add(const Move&, Value target, Value operand) {
    const Value result = expressions_.sum(target, operand);
    set(result, std::max(of(target), of(operand)));
    return result;
  }
  int most() const { return most_; }

 private:
  int of(Value id) const { return id < roundings_.size() ? roundings_[id] : 0; }
  void set(Value id, int count) {
    if (id >= roundings_.size()) roundings_.resize(id + 1, 0);
    roundings_[id] = count;
    most_ = std::max(most_, count);
  }

  std::span<const int> host_;
  Expressions expressions_;
  std::vector<int> roundings_;  // by expression
  int most_ = 0;
};

}  // namespace

Schedule with_roundings(const Schedule& schedule, Collective collective,
                        std::span<const int> host) {
  Schedule result = schedule;
  result.steps = chunk_by_chunk(schedule.steps);
  if (!ends_in_same_sums(collective) || host.empty()) return result;
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
  std::vector<Schedule> rounded;
  for (const Schedule& schedule : all)
    rounded.push_back(with_roundings(schedule, collective, host));
  const int chunks = all[0].chunks;
  Roundings roundings(static_cast<int>(all.size()), chunks, host);
  const auto values = execute(rounded, roundings);
  const auto as_first = [&](const auto& of_rank) {
    return std::equal(of_rank.begin(), of_rank.begin() + chunks, values[0].begin());
  };
  return {!ends_in_same_sums(collective) || std::ranges::all_of(values, as_first),
          roundings.most()};
}

}  // namespace ringwood
