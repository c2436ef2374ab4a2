#include "collectives/plan.h"

#include <algorithm>
#include <utility>

#include "collectives/compose.h"
#include "collectives/row_sums.h"
#include "collectives/rows.h"
#include "collectives/wire_schedule.h"

namespace ringwood {
namespace {

bool in_place(Collective c) {
  return c == Collective::all_reduce || c == Collective::reduce || c == Collective::broadcast;
}

struct ChunkPlace {
  Place place;
  size_t bytes = 0;
};

// Where every chunk of the laned schedule lies.
class Layout {
 public:
  Layout(const Schedule& flat, const Schedule& laned, const Shape& shape, int lane_count)
      : shape_(shape), users_(flat.chunks), lanes_(lane_count), element_(size_of(shape.type)) {
    chunks_.reserve(laned.chunks + laned.scratch.size());
    for (int l = 0; l < lane_count; ++l)
      for (int c = 0; c < users_; ++c) chunks_.push_back(user_chunk(l, c));
    const size_t per_lane = flat.scratch.size();
    for (size_t s = 0; s < laned.scratch.size(); ++s) {
      // Scratch of one lane is contiguous, as spans demand; lanes begin on their own cache lines.
      if (per_lane && s % per_lane == 0) scratch_bytes_ = (scratch_bytes_ + 63) & ~size_t{63};
      const size_t bytes =
          laned.chunks ? chunks_[laned.scratch[s]].bytes : 1;  // a barrier's token is one byte
      chunks_.push_back({{kScratch, scratch_bytes_}, bytes});
      scratch_bytes_ += bytes;
    }
  }

  size_t scratch_bytes() const { return scratch_bytes_; }
  Place place(Span span) const { return chunks_[span.first].place; }
  size_t bytes(Span span) const {
    size_t sum = 0;
    for (int c = span.first; c < span.first + span.count; ++c) sum += chunks_[c].bytes;
    return sum;
  }

 private:
  ChunkPlace user_chunk(int lane, int chunk) const {
    const size_t unit = std::max<size_t>(1, 64 / element_);
    if (in_place(shape_.collective)) {
      const Piece outer = piece(shape_.count, lanes_, lane, unit);
      const Piece inner = piece(outer.count, users_, chunk, unit);
      return {{0, (outer.first + inner.first) * element_}, inner.count * element_};
    }
    const size_t block = shape_.blocks.empty() ? shape_.count : shape_.blocks[chunk];
    const Piece p = piece(block, lanes_, lane, unit);
    return {{chunk, p.first * element_}, p.count * element_};
  }

  const Shape& shape_;
  int users_, lanes_;
  size_t element_;
  std::vector<ChunkPlace> chunks_;
  size_t scratch_bytes_ = 0;
};

// Multi-chunk spans of block-wise collectives become one step a chunk.
void split_spans(Schedule& s, std::vector<int32_t>& ordinals) {
  std::vector<Step> steps;
  std::vector<int32_t> of_steps;
  for (size_t k = 0; k < s.steps.size(); ++k) {
    const Step& step = s.steps[k];
    const int count = std::max(step.dst.count, step.src.count);
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

size_t aligned(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

// Rows of one addition need nothing beside their place.
void place_rows(const Schedule& laned, Plan& plan) {
  const std::vector<RowPlace> places = rows_of(laned);
  std::vector<size_t> offsets;  // by row
  for (size_t i = 0; i < places.size(); ++i) {
    const RowPlace& place = places[i];
    if (place.row < 0 || (place.first && place.last)) continue;
    if (place.first) {
      offsets.resize(place.row + 1);
      offsets[place.row] = plan.wide_bytes;
      plan.wide_bytes += aligned(plan.steps[i].bytes / plan.element * plan.wide_element);
    }
    plan.steps[i].wide = {true, place.first, place.last, offsets[place.row]};
  }
}

// `ordinals`: of each step the number of its reduction in the schedule before lanes(), or -1.
void place_sums(const Sums& sums, int rank, const std::vector<int32_t>& ordinals, Plan& plan) {
  const Shape& shape = plan.shape;
  const int n = static_cast<int>(sums.steps.size());
  plan.scaling = {true, sums.whole && sums.rows_agree, n, 1, 1};
  if (shape.op == ReduceOp::avg) {
    plan.scaling.scale = average_scale(n);
    plan.scaling.divisor = n * plan.scaling.scale;
  }
  for (size_t i = 0; i < plan.steps.size(); ++i)
    if (ordinals[i] >= 0) plan.steps[i].sum = sums.steps[rank][ordinals[i]];
}

std::vector<int32_t> ordinals_of(const Schedule& schedule, int lane_count) {
  std::vector<int32_t> ordinals;
  int32_t next = 0;
  for (const Step& step : schedule.steps) {
    const bool adds = step.kind == StepKind::recv_reduce || step.kind == StepKind::reduce;
    ordinals.insert(ordinals.end(), lane_count, adds ? next : -1);
    next += adds;
  }
  return ordinals;
}

int queue_of(Plan& plan, int peer) {
  for (size_t i = 0; i < plan.peers.size(); ++i)
    if (plan.peers[i].peer == peer) return static_cast<int>(i);
  plan.peers.push_back({peer, 0, 0, {}, {}, {}});
  return static_cast<int>(plan.peers.size()) - 1;
}

void plan_exchange(Plan& plan, int stage, int rank, int n, int distance) {
  const int to = queue_of(plan, wrap(rank + distance, n));
  const int from = queue_of(plan, wrap(rank - distance, n));
  plan.agreement.push_back({stage, to, from, plan.peers[to].greets++, plan.peers[from].greeted++});
}

// Dissemination: after round k every rank has heard, transitively, from the 2^(k+1) - 1 ranks
// before it. The sizes of all_to_all belong to pairs, so there every pair greets first, and the
// rounds carry the news that all pairs agree.
void plan_agreement(Plan& plan, int rank, int n) {
  int stage = 0;
  if (plan.shape.collective == Collective::all_to_all && n > 2) {
    for (int distance = 1; distance < n; ++distance) plan_exchange(plan, stage, rank, n, distance);
    ++stage;
  }
  for (int distance = 1; distance < n; distance *= 2)
    plan_exchange(plan, stage++, rank, n, distance);
}

void plan_one_round(Plan& plan, int rank, int n) {
  for (int distance = 1; distance < n; ++distance) {
    PeerQueue& queue = plan.peers[queue_of(plan, wrap(rank + distance, n))];
    queue.greets = queue.greeted = 1;
  }
}

void enclose(Plan& plan, int n) {
  plan.letters_out.assign(n, -1);
  plan.letters_in.assign(n, -1);
  for (const PeerQueue& queue : plan.peers) {
    if (!queue.sends.empty()) plan.letters_out[queue.peer] = queue.sends[0];
    if (!queue.receives.empty()) plan.letters_in[queue.peer] = queue.receives[0];
  }
}

// A queue's encoded messages take turns in so much of the scratch, or in as much as the largest
// needs.
constexpr size_t kStagingBytes = 1 << 20;

// Waiting for earlier messages of the same direction is what a link without buffers does anyway.
void stage(Plan& plan, PeerQueue& queue) {
  size_t largest = 0, total = 0;
  for (const int32_t s : queue.sends) {
    if (plan.steps[s].wire == WireFormat::exact) continue;
    largest = std::max(largest, aligned(plan.steps[s].message_bytes));
    total += aligned(plan.steps[s].message_bytes);
  }
  const size_t room = std::max(largest, std::min(total, kStagingBytes));
  const size_t begin = aligned(plan.scratch_bytes);
  plan.scratch_bytes = begin + room;
  size_t at = 0;
  int32_t turn = 0, before = 0;  // the first message of this turn, and of the one before
  for (size_t k = 0; k < queue.sends.size(); ++k) {
    BoundStep& send = plan.steps[queue.sends[k]];
    if (send.wire == WireFormat::exact) continue;
    if (at + send.message_bytes > room) {
      at = 0;
      before = turn;
      turn = static_cast<int32_t>(k);
    }
    // Those of the turn before that reach into this place, and all that went before them.
    const auto overlaps = [&](int32_t j) {
      const BoundStep& old = plan.steps[queue.sends[j]];
      return old.wire != WireFormat::exact && old.staging.offset < begin + at + send.message_bytes;
    };
    for (int32_t j = before; turn > 0 && j < turn && overlaps(j); ++j) send.staged_after = j + 1;
    send.staging = {kScratch, begin + at};
    at += aligned(send.message_bytes);
  }
  queue.cut = {kScratch, plan.scratch_bytes};
  plan.scratch_bytes += aligned(block_of(WireFormat::int8).bytes);
}

size_t first_after_a_send(const Plan& plan) {
  size_t first = plan.steps.size();
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].kind != StepKind::send || plan.steps[i].bytes == 0) continue;
    for (int32_t k = plan.graph.offset[i]; k < plan.graph.offset[i + 1]; ++k)
      first = std::min<size_t>(first, plan.graph.successor[k]);
  }
  return first;
}

void find_folds(Plan& plan) {
  for (size_t i = 0; i + 1 < plan.steps.size(); ++i) {
    BoundStep& step = plan.steps[i];
    const BoundStep& next = plan.steps[i + 1];
    const int32_t first = plan.graph.offset[i], end = plan.graph.offset[i + 1];
    step.folds = step.kind == StepKind::recv && next.kind == StepKind::reduce &&
                 step.dst.buffer == kScratch && next.src.buffer == kScratch &&
                 next.src.offset == step.dst.offset && next.bytes == step.bytes &&
                 end - first == 1 && plan.graph.successor[first] == static_cast<int32_t>(i + 1);
  }
}

void find_carried(Plan& plan) {
  for (BoundStep& step : plan.steps) step.carried = step.peer >= 0 && step.bytes <= kCarriedBytes;
}

}  // namespace

void use_slots(Plan& plan) {
  plan.slots = true;
  plan.agreement.clear();
  for (PeerQueue& queue : plan.peers) queue.greets = queue.greeted = 0;
  if (plan.protocol != Protocol::one_round) return;
  plan.protocol = Protocol::eager_slots;
  for (size_t i = 0; i + 1 < plan.steps.size(); ++i) {
    BoundStep &step = plan.steps[i], &next = plan.steps[i + 1];
    if (!std::exchange(step.folds, false)) continue;
    step.kind = StepKind::recv_reduce;
    step.dst = next.dst;
    step.wide = next.wide;
    step.sum = next.sum;
    next.bytes = next.message_bytes = 0;
  }
}

bool fits_one_round(const Schedule& s) {
  const Graph graph = derive(s);
  std::vector<int> sends(s.n), receives(s.n);
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const Step& step = s.steps[i];
    if (step.peer < 0) continue;
    if (std::max(step.src.count, step.dst.count) != 1) return false;
    if (step.kind == StepKind::send && graph.predecessors[i] != 0) return false;
    if (++(step.kind == StepKind::send ? sends : receives)[step.peer] > 1) return false;
  }
  return true;
}

Piece piece(size_t count, int parts, int index, size_t unit) {
  if (count < unit * static_cast<size_t>(parts) * 4) unit = 1;
  const size_t units = count / unit, share = units / parts, extra = units % parts;
  const auto begin = [&](size_t i) {
    return i == static_cast<size_t>(parts) ? count : unit * (share * i + std::min(i, extra));
  };
  return {begin(index), begin(index + 1) - begin(index)};
}

Schedule after_agreement(Schedule schedule, Collective collective) {
  if (collective == Collective::barrier) {
    schedule.steps.clear();
    schedule.scratch.clear();
  }
  return schedule;
}

std::shared_ptr<Plan> make_plan(const Schedule& schedule, const Shape& shape,
                                const std::string& algorithm, int lane_count, Opener opener,
                                const Wire& wire, const Sums* sums) {
  auto plan = std::make_shared<Plan>();
  plan->shape = shape;
  plan->algorithm = algorithm;
  plan->lanes = lane_count;
  plan->element = size_of(shape.type);
  plan->fingerprint = fingerprint_of(shape, algorithm, lane_count, 0);
  plan->fingerprint.wire = static_cast<uint8_t>(wire.format);
  const Schedule flat = after_agreement(schedule, shape.collective);
  Schedule laned = lanes(flat, lane_count);
  std::vector<int32_t> ordinals = ordinals_of(flat, lane_count);
  if (!in_place(shape.collective)) split_spans(laned, ordinals);
  const Layout layout(schedule, laned, shape, lane_count);
  plan->scratch_bytes = layout.scratch_bytes();
  const bool one_round = opener == Opener::one_round;
  if (one_round) plan->protocol = Protocol::one_round;
  if (one_round)
    plan_one_round(*plan, schedule.rank, schedule.n);
  else
    plan_agreement(*plan, schedule.rank, schedule.n);
  for (size_t i = 0; i < laned.steps.size(); ++i) {
    const Step& step = laned.steps[i];
    BoundStep bound;
    bound.kind = step.kind;
    bound.peer = step.peer;
    bound.bytes = layout.bytes(step.dst.count ? step.dst : step.src);
    if (step.dst.count) bound.dst = layout.place(step.dst);
    if (step.src.count) bound.src = layout.place(step.src);
    const bool encoded = step.peer >= 0 && is_encoded(wire.host, schedule.rank, step.peer);
    if (encoded || is_rounding(step)) bound.wire = wire.format;
    bound.message_bytes = bound.wire == WireFormat::exact
                              ? bound.bytes
                              : wire_bytes(bound.wire, bound.bytes / sizeof(float));
    plan->steps.push_back(bound);
    if (step.peer < 0 || bound.bytes == 0) continue;
    PeerQueue& queue = plan->peers[queue_of(*plan, step.peer)];
    (step.kind == StepKind::send ? queue.sends : queue.receives).push_back(static_cast<int32_t>(i));
  }
  if (wire.format != WireFormat::exact)
    for (PeerQueue& queue : plan->peers)
      if (is_encoded(wire.host, schedule.rank, queue.peer)) stage(*plan, queue);
  plan->writes_own =
      shape.collective == Collective::all_gather &&
      std::ranges::any_of(plan->steps, [&](const BoundStep& step) {
        return step.kind != StepKind::send && step.bytes > 0 && step.dst.buffer == schedule.rank;
      });
  plan->graph = derive(laned);
  if (one_round) enclose(*plan, schedule.n);
  plan->sends_until = first_after_a_send(*plan);
  if (reduces(shape.collective)) {
    if (sums && scales_operands(shape.type, shape.op))
      place_sums(*sums, schedule.rank, ordinals, *plan);
    plan->wide_element = bytes_beside(shape.type, shape.op, plan->scaling.whole);
    plan->rounds_each = plan->wide_element > 0 && sums && !sums->rows_agree;
    if (plan->wide_element > 0 && !plan->rounds_each) place_rows(laned, *plan);
  }
  find_fusions(*plan);
  if (one_round) find_folds(*plan);
  if (one_round) find_carried(*plan);
  return plan;
}

}  // namespace ringwood
