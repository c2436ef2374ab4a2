#include "collectives/schedule/accumulations.h"

namespace ringwood {
namespace {

class Accumulations {
 public:
  explicit Accumulations(const Schedule& s)
      : places_(s.steps.size()), open_(s.chunks + s.scratch.size(), -1) {
    for (size_t i = 0; i < s.steps.size(); ++i) visit(s.steps[i], i);
    for (const Accumulation& one : accumulations_) places_[one.last].last = true;
  }
  std::vector<AccumulationPlace> take() { return std::move(places_); }

 private:
  struct Accumulation {
    Span dst;
    size_t last;
    bool closed = false;
  };

  void visit(const Step& step, size_t index) {
    if (step.src.count) touch(step.src);
    if (!step.dst.count) return;
    const bool reduces = step.kind == StepKind::recv_reduce || step.kind == StepKind::reduce;
    const int current = open_[step.dst.first];
    if (reduces && current >= 0 && !accumulations_[current].closed &&
        accumulations_[current].dst == step.dst) {
      accumulations_[current].last = index;
      places_[index].accumulation = current;
      return;
    }
    touch(step.dst);
    if (!reduces) return;
    places_[index] = {static_cast<int32_t>(accumulations_.size()), true, false};
    for (int c = step.dst.first; c < step.dst.first + step.dst.count; ++c)
      open_[c] = static_cast<int>(accumulations_.size());
    accumulations_.push_back({step.dst, index, false});
  }

  void touch(Span span) {
    for (int c = span.first; c < span.first + span.count; ++c) {
      if (open_[c] >= 0) accumulations_[open_[c]].closed = true;
      open_[c] = -1;
    }
  }

  std::vector<AccumulationPlace> places_;
  std::vector<int> open_;  // by chunk: its accumulation
  std::vector<Accumulation> accumulations_;
};

}  // namespace

std::vector<AccumulationPlace> accumulations_of(const Schedule& schedule) {
  return Accumulations(schedule).take();
}

}  // namespace ringwood
