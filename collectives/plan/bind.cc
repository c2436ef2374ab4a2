// The first pass: binds every chunk to its bytes and its place.
#include <algorithm>
#include <numeric>

#include "collectives/plan/passes.h"
#include "collectives/schedule/compose.h"

namespace ringwood {
namespace {

// The divisions of piece(), once for all pieces.
class Cut {
 public:
  Cut(size_t count, int parts, size_t unit)
      : count_(count),
        parts_(static_cast<size_t>(parts)),
        unit_(count < unit * parts_ * 4 ? 1 : unit),
        share_(count / unit_ / parts_),
        extra_(count / unit_ % parts_) {}
  Piece operator[](size_t index) const { return {begin(index), begin(index + 1) - begin(index)}; }

 private:
  size_t begin(size_t i) const {
    return i == parts_ ? count_ : unit_ * (share_ * i + std::min(i, extra_));
  }

  size_t count_, parts_, unit_, share_, extra_;
};

struct ChunkPlace {
  Place place;
  size_t bytes = 0;
};

// Where every chunk of the segmented schedule lies.
class Layout {
 public:
  Layout(const Schedule& flat, const Schedule& segmented, const CollectiveArgs& args,
         int segment_count)
      : args_(args),
        at_{flat.rank, flat.n, args.root},
        users_(flat.chunks),
        segments_(segment_count),
        element_(size_of(args.type)) {
    chunks_.reserve(segmented.chunks + segmented.scratch.size());
    for (int l = 0; l < segment_count; ++l) add_user_chunks(l);
    const size_t per_segment = flat.scratch.size();
    for (size_t s = 0; s < segmented.scratch.size(); ++s) {
      // The scratch of one segment is contiguous, as spans require; each segment begins on
      // a cache line.
      if (per_segment && s % per_segment == 0) scratch_bytes_ = aligned(scratch_bytes_);
      const size_t bytes = segmented.chunks ? chunks_[segmented.scratch[s]].bytes
                                            : 1;  // a barrier's token is one byte
      chunks_.push_back({{kScratch, scratch_bytes_}, bytes});
      scratch_bytes_ += bytes;
    }
    before_.reserve(chunks_.size() + 1);
    for (const ChunkPlace& chunk : chunks_) before_.push_back(before_.back() + chunk.bytes);
  }

  size_t scratch_bytes() const { return scratch_bytes_; }
  Place place(Span span) const { return chunks_[span.first].place; }
  size_t bytes(Span span) const { return before_[span.first + span.count] - before_[span.first]; }

 private:
  void add_user_chunks(int segment) {
    const size_t unit = std::max<size_t>(1, 64 / element_);
    if (cut_from_one_buffer(args_.collective)) {
      const Piece outer = piece(args_.count, segments_, segment, unit);
      const Cut inner(outer.count, std::max(1, users_), unit);
      for (int c = 0; c < users_; ++c) {
        const Piece p = inner[static_cast<size_t>(c)];
        chunks_.push_back({{0, (outer.first + p.first) * element_}, p.count * element_});
      }
      return;
    }
    for (int c = 0; c < users_; ++c) {
      const size_t block = args_.blocks.empty()
                               ? args_.count
                               : args_.blocks[block_of_chunk(args_.collective, at_, c)];
      const Piece p = piece(block, segments_, segment, unit);
      chunks_.push_back({{c, p.first * element_}, p.count * element_});
    }
  }

  const CollectiveArgs& args_;
  GroupRank at_;
  int users_, segments_;
  size_t element_;
  std::vector<ChunkPlace> chunks_;
  std::vector<size_t> before_ = {0};  // by chunk: the bytes of those before it
  size_t scratch_bytes_ = 0;
};

// The steps that a step of a block-wise collective becomes: one for each chunk, but within scratch,
// which is contiguous, it stays whole. The schedule language guarantees that at both ends of a
// message.
size_t parts_of(const Schedule& s, const Step& step) {
  return touches_only_scratch(s, step)
             ? 1
             : static_cast<size_t>(std::max(step.dst.count, step.src.count));
}

// Splits the steps of a block-wise collective into their parts.
void split_spans(Schedule& s, std::vector<int32_t>& ordinals, size_t all) {
  if (all == s.steps.size()) return;
  std::vector<Step> steps;
  std::vector<int32_t> of_steps;
  steps.reserve(all);
  of_steps.reserve(all);
  for (size_t k = 0; k < s.steps.size(); ++k) {
    const Step& step = s.steps[k];
    const auto count = static_cast<int>(parts_of(s, step));
    if (count == 1) {
      steps.push_back(step);
      of_steps.push_back(ordinals[k]);
      continue;
    }
    for (int i = 0; i < count; ++i) {
      Step one = step;
      if (one.dst.count) one.dst = {step.dst.first + i, 1};
      if (one.src.count) one.src = {step.src.first + i, 1};
      steps.push_back(one);
      of_steps.push_back(ordinals[k]);
    }
  }
  s.steps = std::move(steps);
  ordinals = std::move(of_steps);
}

std::vector<int32_t> ordinals_of(const Schedule& schedule, int segment_count) {
  std::vector<int32_t> ordinals;
  ordinals.reserve(schedule.steps.size() * static_cast<size_t>(segment_count));
  int32_t next = 0;
  for (const Step& step : schedule.steps) {
    const bool adds = step.kind == StepKind::recv_reduce || step.kind == StepKind::reduce;
    ordinals.insert(ordinals.end(), segment_count, adds ? next : -1);
    next += adds;
  }
  return ordinals;
}

// The plan's queues by peer: of many peers a search for each step would take long.
class Queues {
 public:
  explicit Queues(Plan& plan) : plan_(plan), of_peer_(static_cast<size_t>(plan.schedule.n), -1) {}
  PeerQueue& operator[](int peer) {
    int32_t& queue = of_peer_[static_cast<size_t>(peer)];
    if (queue < 0) {
      queue = static_cast<int32_t>(plan_.peers.size());
      plan_.peers.push_back({peer, 0, 0, {}, {}, {}});
    }
    return plan_.peers[static_cast<size_t>(queue)];
  }

 private:
  Plan& plan_;
  std::vector<int32_t> of_peer_;  // -1: none
};

// Sets bytes, places and queues of step `index` of the plan's schedule.
void bind_step(const Layout& layout, size_t index, int32_t reduction, Plan& plan, Queues& queues) {
  const Step& step = plan.schedule.steps[index];
  BoundStep& bound = plan.steps.emplace_back();
  bound.kind = step.kind;
  bound.peer = step.peer;
  bound.reduction = reduction;
  bound.bytes = layout.bytes(step.dst.count ? step.dst : step.src);
  bound.message_bytes = bound.bytes;
  if (step.dst.count) bound.dst = layout.place(step.dst);
  if (step.src.count) bound.src = layout.place(step.src);
  if (step.peer < 0 || bound.bytes == 0) return;
  PeerQueue& queue = queues[step.peer];
  (step.kind == StepKind::send ? queue.sends : queue.receives)
      .push_back(static_cast<int32_t>(index));
}

bool writes_own_block(const Plan& plan) {
  return sends_from_input(plan.key.args.collective) &&
         std::ranges::any_of(plan.steps, [&](const BoundStep& step) {
           return step.kind != StepKind::send && step.bytes > 0 &&
                  step.dst.buffer == plan.schedule.rank;
         });
}

}  // namespace

size_t bound_steps(const Schedule& schedule, Collective collective) {
  if (cut_from_one_buffer(collective)) return schedule.steps.size();
  size_t count = 0;
  for (const Step& step : schedule.steps) count += parts_of(schedule, step);
  return count;
}

Piece piece(size_t count, int parts, int index, size_t unit) {
  return Cut(count, parts, unit)[static_cast<size_t>(index)];
}

Schedule after_agreement(Schedule schedule, Collective collective) {
  if (!moves_data(collective)) {
    schedule.steps.clear();
    schedule.scratch.clear();
  }
  return schedule;
}

const PeerQueue* queue_to(const Plan& plan, int peer) {
  const auto known = std::ranges::find(plan.peers, peer, &PeerQueue::peer);
  return known == plan.peers.end() ? nullptr : &*known;
}

size_t queue_of(Plan& plan, int peer) {
  if (const PeerQueue* const known = queue_to(plan, peer))
    return static_cast<size_t>(known - plan.peers.data());
  plan.peers.push_back({peer, 0, 0, {}, {}, {}});
  return plan.peers.size() - 1;
}

uint64_t bytes_of_call(const CollectiveArgs& args, int n) {
  const uint64_t element = size_of(args.type);
  const auto ranks = static_cast<size_t>(n);
  if (!in_blocks(args.collective)) return args.count * element;
  if (args.blocks.empty()) return args.count * element * ranks;
  const std::span<const size_t> blocks = args.blocks;
  const auto sum = [&](std::span<const size_t> of) {
    return std::accumulate(of.begin(), of.end(), uint64_t{0}) * element;
  };
  // Blocks of the input come first; those of the output follow where pairs know the sizes.
  const size_t first = std::min(ranks, blocks.size());
  return std::max(sum(blocks.first(first)), sum(blocks.subspan(first)));
}

Plan bind(const Schedule& schedule, const CollectiveArgs& args, const std::string& algorithm,
          int segment_count) {
  Plan plan;
  plan.key.args = args;
  plan.form.algorithm = algorithm;
  plan.form.segments = segment_count;
  plan.element = size_of(args.type);
  plan.fingerprint = fingerprint_of(args, algorithm, segment_count, 0);
  plan.schedule = after_agreement(schedule, args.collective);
  std::vector<int32_t> ordinals = ordinals_of(plan.schedule, segment_count);
  if (segment_count != 1) plan.schedule = segments(plan.schedule, segment_count);
  split_spans(plan.schedule, ordinals, bound_steps(plan.schedule, args.collective));
  const Layout layout(schedule, plan.schedule, args, segment_count);
  plan.memory.scratch_bytes = layout.scratch_bytes();
  plan.steps.reserve(plan.schedule.steps.size());
  Queues queues(plan);
  for (size_t i = 0; i < plan.schedule.steps.size(); ++i)
    bind_step(layout, i, ordinals[i], plan, queues);
  plan.memory.writes_own = writes_own_block(plan);
  plan.graph = derive(plan.schedule);
  return plan;
}

}  // namespace ringwood
