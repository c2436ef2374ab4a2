#include "collectives/schedule/graph.h"

#include <algorithm>

namespace ringwood {
namespace {

// Walks the steps once and records, per chunk, which step wrote it last and which have read it
// since. A write must wait for those readers, which themselves waited for the last writer, so that
// edge is implied and omitted.
class Deriver {
 public:
  explicit Deriver(const ScheduleView& schedule)
      : schedule_(schedule),
        steps_(schedule.size()),
        writer_(schedule.chunks + schedule.scratch_size(), -1),
        readers_(writer_.size(), -1),
        marked_by_(steps_, -1) {
    graph_.offset.assign(steps_ + 1, 0);
    graph_.predecessors.assign(steps_, 0);
    reader_pool_.reserve(steps_);
    sources_.reserve(2 * static_cast<size_t>(steps_));
  }

  Graph run() {
    for (int32_t j = 0; j < steps_; ++j) {
      const Step step = schedule_.step(j);
      const bool has_src = step.kind == StepKind::send || step.kind == StepKind::reduce ||
                           step.kind == StepKind::copy;
      if (has_src) {
        for (int c = step.src.first; c < step.src.first + step.src.count; ++c) read(c, j);
      }
      if (step.kind != StepKind::send) {
        for (int c = step.dst.first; c < step.dst.first + step.dst.count; ++c) write(c, j);
      }
    }
    transpose();
    return std::move(graph_);
  }

 private:
  struct Reader {
    int32_t step;
    int32_t next;
  };

  void read(int chunk, int32_t j) {
    edge(writer_[chunk], j);
    reader_pool_.push_back({j, readers_[chunk]});
    readers_[chunk] = static_cast<int32_t>(reader_pool_.size()) - 1;
  }

  void write(int chunk, int32_t j) {
    if (readers_[chunk] < 0) edge(writer_[chunk], j);
    for (int32_t at = readers_[chunk]; at >= 0; at = reader_pool_[at].next) {
      edge(reader_pool_[at].step, j);
    }
    readers_[chunk] = -1;
    writer_[chunk] = j;
  }

  void edge(int32_t i, int32_t j) {
    if (i < 0 || i == j || marked_by_[i] == j) return;
    marked_by_[i] = j;
    sources_.push_back(i);
    ++graph_.predecessors[j];
    ++graph_.offset[i + 1];
  }

  // The edges were found by rising target, so filling in that order leaves every list ascending.
  void transpose() {
    for (int32_t i = 0; i < steps_; ++i) graph_.offset[i + 1] += graph_.offset[i];
    graph_.successor.resize(sources_.size());
    std::vector<int32_t> next(graph_.offset.begin(), graph_.offset.end() - 1);
    size_t at = 0;
    for (int32_t j = 0; j < steps_; ++j) {
      for (int32_t k = 0; k < graph_.predecessors[j]; ++k)
        graph_.successor[next[sources_[at++]]++] = j;
    }
  }

  const ScheduleView& schedule_;
  const int32_t steps_;
  std::vector<int32_t> writer_;   // by chunk: the step, -1 = none yet
  std::vector<int32_t> readers_;  // by chunk: head of a list in reader_pool_, -1 = empty
  std::vector<Reader> reader_pool_;
  std::vector<int32_t>
      marked_by_;  // by step i: the last j that got the edge i -> j, against duplicates
  std::vector<int32_t> sources_;  // i of every edge i -> j, by rising j
  Graph graph_;
};

}  // namespace

Graph derive(const ScheduleView& schedule) { return Deriver(schedule).run(); }

Graphs::Graphs(GroupSchedules all) : all_(all) {
  graphs_.reserve(all.lists());
  for (int list = 0; list < all.lists(); ++list) {
    const Graph graph = derive(all[all.first_of(list)]);
    graphs_.push_back({stored(graph.offset), stored(graph.successor)});
  }
}

std::span<const int32_t> Graphs::stored(const std::vector<int32_t>& numbers) {
  std::pmr::polymorphic_allocator<int32_t> allocator(&memory_);
  int32_t* const copy = allocator.allocate(numbers.size());
  std::copy(numbers.begin(), numbers.end(), copy);
  return {copy, numbers.size()};
}

}  // namespace ringwood
