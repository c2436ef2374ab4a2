#include "collectives/schedule/rows.h"

namespace ringwood {
namespace {

class Rows {
 public:
  explicit Rows(const Schedule& s)
      : places_(s.steps.size()), open_(s.chunks + s.scratch.size(), -1) {
    for (size_t i = 0; i < s.steps.size(); ++i) visit(s.steps[i], i);
    for (const Row& row : rows_) places_[row.last].last = true;
  }
  std::vector<RowPlace> take() { return std::move(places_); }

 private:
  struct Row {
    Span dst;
    size_t last;
    bool closed = false;
  };

  void visit(const Step& step, size_t index) {
    if (step.src.count) touch(step.src);
    if (!step.dst.count) return;
    const bool reduces = step.kind == StepKind::recv_reduce || step.kind == StepKind::reduce;
    const int row = open_[step.dst.first];
    if (reduces && row >= 0 && !rows_[row].closed && rows_[row].dst == step.dst) {
      rows_[row].last = index;
      places_[index].row = row;
      return;
    }
    touch(step.dst);
    if (!reduces) return;
    places_[index] = {static_cast<int32_t>(rows_.size()), true, false};
    for (int c = step.dst.first; c < step.dst.first + step.dst.count; ++c)
      open_[c] = static_cast<int>(rows_.size());
    rows_.push_back({step.dst, index, false});
  }

  void touch(Span span) {
    for (int c = span.first; c < span.first + span.count; ++c) {
      if (open_[c] >= 0) rows_[open_[c]].closed = true;
      open_[c] = -1;
    }
  }

  std::vector<RowPlace> places_;
  std::vector<int> open_;  // by chunk: its row
  std::vector<Row> rows_;
};

}  // namespace

std::vector<RowPlace> rows_of(const Schedule& schedule) { return Rows(schedule).take(); }

}  // namespace ringwood
