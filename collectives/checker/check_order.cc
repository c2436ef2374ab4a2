// The checker's third and fourth parts: places lie where they may, and accesses to the same bytes
// are ordered.
#include <algorithm>

#include <fmt/format.h>

#include "collectives/checker/checker_parts.h"

namespace ringwood {
namespace {

struct Access {
  int32_t step;
  int buffer;  // the user's, then the scratch, then the wide scratch
  size_t begin, end;
  bool write;
};

// Which steps have ended before a given step begins, by the graph.
class Ancestors {
 public:
  explicit Ancestors(const Graph& graph)
      : words_((graph.predecessors.size() + 63) / 64),
        bits_(words_ * graph.predecessors.size(), 0) {
    for (size_t i = 0; i < graph.predecessors.size(); ++i)
      for (int32_t k = graph.offset[i]; k < graph.offset[i + 1]; ++k) {
        const auto next = static_cast<size_t>(graph.successor[static_cast<size_t>(k)]);
        for (size_t w = 0; w <= i / 64; ++w) bits_[next * words_ + w] |= bits_[i * words_ + w];
        bits_[next * words_ + i / 64] |= uint64_t{1} << i % 64;
      }
  }
  bool before(int32_t a, int32_t b) const {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    return a < b && (bits_[j * words_ + i / 64] >> i % 64 & 1) != 0;
  }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

class RankOrder {
 public:
  RankOrder(const PlanSet& set, int rank)
      : set_(set), rank_(rank), plan_(set.of(rank)), scratch_(user_buffers(set)) {}

  PlanFlaw check_places() {
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      if (PlanFlaw flaw = check_step(i)) return flaw;
    for (const Access& a : accesses_) {
      const size_t room = bytes_of_buffer(a.buffer);
      if (a.end > room)
        return words(a.step) +
               fmt::format(" reaches byte {} of the {}'s {}", a.end, name(a.buffer), room);
      if (a.write && a.buffer < scratch_ && !user_may_be_written(set_, rank_, a.buffer))
        return words(a.step) + fmt::format(" writes the {}, which is read only", name(a.buffer));
    }
    return check_cuts();
  }

  PlanFlaw check_order() {
    collect();
    if (PlanFlaw flaw = check_output_in_place()) return flaw;
    if (in_one_round(plan_)) return check_early_sends();
    const Ancestors ancestors(plan_.graph);
    ancestors_ = &ancestors;
    for (int b = 0; b <= scratch_ + 1; ++b)
      if (PlanFlaw flaw = check_buffer(b)) return flaw;
    return std::nullopt;
  }

 private:
  std::string words(int32_t step) const {
    return plan_step_words(set_, rank_, static_cast<size_t>(step));
  }
  std::string name(int buffer) const {
    if (buffer == scratch_) return "scratch";
    return buffer > scratch_ ? "wide scratch" : fmt::format("user's buffer {}", buffer);
  }
  size_t bytes_of_buffer(int buffer) const {
    if (buffer == scratch_) return plan_.memory.scratch_bytes;
    return buffer > scratch_ ? plan_.wide.bytes : user_bytes(set_, rank_, buffer);
  }

  void add(size_t step, const Place& place, size_t bytes, bool write) {
    const int buffer = place.buffer == kScratch ? scratch_ : place.buffer;
    accesses_.push_back(
        {static_cast<int32_t>(step), buffer, place.offset, place.offset + bytes, write});
  }
  size_t wide_bytes(const BoundStep& step) const {
    return step.bytes / plan_.element * plan_.wide.element;
  }

  void add_step(size_t i) {
    const BoundStep& step = plan_.steps[i];
    if (step.bytes == 0) return;
    if (has_source(step)) add(i, step.src, step.bytes, false);
    if (!sends(step)) add(i, step.dst, step.bytes, true);
    if (sends(step) && step.wire != WireFormat::exact)
      add(i, step.staging, step.message_bytes, true);
    if (step.wide.on)
      accesses_.push_back({static_cast<int32_t>(i), scratch_ + 1, step.wide.offset,
                           step.wide.offset + wide_bytes(step), true});
  }
  void collect() {
    accesses_.clear();
    for (size_t i = 0; i < plan_.steps.size(); ++i) add_step(i);
  }

  PlanFlaw check_step(size_t i) {
    const BoundStep& step = plan_.steps[i];
    const auto at = static_cast<int32_t>(i);
    if (step.bytes == 0) return std::nullopt;
    const auto known = [&](const Place& p) {
      return p.buffer == kScratch || (p.buffer >= 0 && p.buffer < scratch_);
    };
    if ((has_source(step) && !known(step.src)) || (!sends(step) && !known(step.dst)))
      return words(at) + " names a buffer that does not exist";
    const bool stages = sends(step) && step.wire != WireFormat::exact;
    if (stages && step.staging.buffer != kScratch) return words(at) + " has no staging place";
    const bool same = step.src.buffer == step.dst.buffer;
    const bool apart = !same || step.src.offset + step.bytes <= step.dst.offset ||
                       step.dst.offset + step.bytes <= step.src.offset;
    const bool onto_itself = same && step.src.offset == step.dst.offset;
    if (step.peer < 0 && !apart && !(onto_itself && rounds_in_place(step)))
      return words(at) + " works on places that overlap";
    if (step.wide.on &&
        (plan_.wide.element == 0 || !adds_up(step) || step.wide.offset % plan_.wide.element != 0))
      return words(at) + " keeps a sum beside its place, where no sum is kept";
    add_step(i);
    return std::nullopt;
  }

  // The room for a block that arrives in two pieces must overlap nothing else.
  PlanFlaw check_cuts() {
    const size_t bytes = block_of(set_.format()).bytes;
    std::vector<std::pair<size_t, int>> cuts;
    for (const PeerQueue& queue : plan_.peers) {
      const bool used = std::ranges::any_of(queue.receives, [&](int32_t s) {
        return plan_.steps[static_cast<size_t>(s)].wire != WireFormat::exact;
      });
      if (!used) continue;
      const size_t begin = queue.cut.offset;
      const auto cut = [&](const char* what) {
        return fmt::format("rank {}'s room for a part of a block of rank {}, scratch byte {}, {}",
                           rank_, queue.peer, begin, what);
      };
      if (queue.cut.buffer != kScratch || begin + bytes > plan_.memory.scratch_bytes)
        return cut("is not in the scratch");
      for (const Access& a : accesses_)
        if (a.buffer == scratch_ && a.begin < begin + bytes && begin < a.end)
          return cut("is used by ") + words(a.step);
      for (const auto& [other, peer] : cuts)
        if (other < begin + bytes && begin < other + bytes)
          return cut("is used by ") + fmt::format("rank {}'s", peer);
      cuts.emplace_back(begin, queue.peer);
    }
    return std::nullopt;
  }

  // The output of reduce_scatter may be the memory of the rank's own input block, which is
  // read before.
  PlanFlaw check_output_in_place() const {
    if (!may_overwrite_input(plan_.key.args.collective)) return std::nullopt;
    const Ancestors ancestors(plan_.graph);
    for (const Access& w : accesses_) {
      if (w.buffer != set_.n() || !w.write) continue;
      for (const Access& r : accesses_) {
        if (r.buffer != rank_ || r.step == w.step || r.end <= w.begin || w.end <= r.begin) continue;
        const bool sent = sends(plan_.steps[static_cast<size_t>(r.step)]);
        const size_t first = sent ? writable_from() : 0;
        const bool before = in_one_round(plan_)
                                ? r.step < w.step && static_cast<size_t>(w.step) >= first
                                : ancestors.before(r.step, w.step);
        if (!before) return words(w.step) + " writes what may be the memory of " + words(r.step);
      }
    }
    return std::nullopt;
  }

  // Eager slots contain copies of what is sent.
  size_t writable_from() const {
    return plan_.protocol == Protocol::one_round ? plan_.one_round.sends_until : 0;
  }

  // One round: sends leave at the start and may be read until the first step that waits for them.
  PlanFlaw check_early_sends() const {
    for (const Access& read : accesses_) {
      if (read.write || !sends(plan_.steps[static_cast<size_t>(read.step)])) continue;
      for (const Access& w : accesses_) {
        if (!w.write || w.buffer != read.buffer || w.end <= read.begin || read.end <= w.begin)
          continue;
        if (w.step < read.step)
          return words(read.step) + " leaves at the start, but sends what " + words(w.step) +
                 " writes";
        if (static_cast<size_t>(w.step) < writable_from())
          return words(w.step) + " writes what is still being sent by " + words(read.step);
      }
    }
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const BoundStep& step = plan_.steps[i];
      if (!step.folds) continue;
      const BoundStep* const next = i + 1 < plan_.steps.size() ? &plan_.steps[i + 1] : nullptr;
      if (step.kind != StepKind::recv || !next || next->kind != StepKind::reduce ||
          next->bytes != step.bytes || next->src.buffer != step.dst.buffer ||
          next->src.offset != step.dst.offset)
        return words(static_cast<int32_t>(i)) + " is folded into a step that does not add it";
    }
    return std::nullopt;
  }

  // ---- order by the graph ----------------------------------------------------------------------

  bool ordered(int32_t a, int32_t b) const {
    if (a == b || ancestors_->before(a, b)) return true;
    // A staged message waits for a fixed number of its queue's earlier messages.
    const BoundStep& x = plan_.steps[static_cast<size_t>(a)];
    const BoundStep& y = plan_.steps[static_cast<size_t>(b)];
    if (!sends(x) || !sends(y) || x.peer != y.peer || x.wire == WireFormat::exact ||
        y.wire == WireFormat::exact)
      return false;
    const auto& list = queue_to(plan_, x.peer)->sends;
    return std::find(list.begin(), list.end(), a) - list.begin() < y.staged_after;
  }

  PlanFlaw check_buffer(int buffer) {
    borders_.clear();
    for (const Access& a : accesses_)
      if (a.buffer == buffer) borders_.insert(borders_.end(), {a.begin, a.end});
    std::ranges::sort(borders_);
    borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
    if (borders_.empty()) return std::nullopt;
    at_.assign(borders_.size(), {});
    for (const Access& a : accesses_)
      if (a.buffer == buffer)
        for (size_t k = interval(a.begin); borders_[k] < a.end; ++k) at_[k].push_back(&a);
    for (const auto& list : at_)
      if (PlanFlaw flaw = check_interval(list)) return flaw;
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      if (PlanFlaw flaw = check_put(buffer, i)) return flaw;
    for (const Fusion& fusion : plan_.fusions.list)
      if (PlanFlaw flaw = check_fused(buffer, fusion)) return flaw;
    return std::nullopt;
  }
  size_t interval(size_t begin) const {
    return static_cast<size_t>(std::ranges::lower_bound(borders_, begin) - borders_.begin());
  }

  // A read follows the last write; a write follows the reads since.
  PlanFlaw check_interval(const std::vector<const Access*>& list) const {
    const Access* writer = nullptr;
    std::vector<const Access*> readers;
    for (const Access* a : list) {
      const auto races = [&](const Access* with) {
        return words(a->step) +
               fmt::format(" {} bytes of the {} that ", a->write ? "writes" : "reads",
                           name(a->buffer)) +
               words(with->step) + (with->write ? " writes" : " reads") + ", in no order";
      };
      if (writer && !ordered(writer->step, a->step)) return races(writer);
      if (!a->write) {
        readers.push_back(a);
        continue;
      }
      for (const Access* r : readers)
        if (!ordered(r->step, a->step)) return races(r);
      readers.clear();
      writer = a;
    }
    return std::nullopt;
  }

  // The peer may put into an exposed buffer at any time until the put is received.
  PlanFlaw check_put(int buffer, size_t i) const {
    const BoundStep& send = plan_.steps[i];
    if (send.put < 0 || send.src.buffer != buffer) return std::nullopt;
    const auto from = static_cast<int32_t>(i);
    const int32_t to = queue_to(plan_, send.peer)->receives[static_cast<size_t>(send.put)];
    const size_t end = send.src.offset + send.bytes;
    for (size_t k = interval(send.src.offset); borders_[k] < end; ++k)
      for (const Access* a : at_[k])
        if (a->step != from && a->step != to && !ancestors_->before(a->step, from) &&
            !ancestors_->before(to, a->step))
          return words(a->step) +
                 fmt::format(" uses bytes that rank {} may write in place once ", send.peer) +
                 words(from) + " is posted";
    return std::nullopt;
  }

  // In one pass over memory: everything is added at the first receive, and put back before the
  // first send.
  PlanFlaw check_fused(int buffer, const Fusion& fusion) const {
    const BoundStep& first = plan_.steps[static_cast<size_t>(fusion.receives[0])];
    if ((first.dst.buffer == kScratch ? scratch_ : first.dst.buffer) != buffer) return std::nullopt;
    const size_t end = first.dst.offset + first.bytes;
    for (size_t k = interval(first.dst.offset); borders_[k] < end; ++k)
      for (const Access* a : at_[k]) {
        const int32_t s = a->step;
        if (std::ranges::count(fusion.receives, s) || std::ranges::count(fusion.sends, s)) continue;
        const bool after =
            a->write ? std::ranges::all_of(
                           fusion.sends, [&](int32_t send) { return ancestors_->before(send, s); })
                     : ancestors_->before(fusion.receives.back(), s);
        if (!after && !ancestors_->before(s, fusion.receives[0]))
          return words(s) + " uses bytes during the sum that begins with " +
                 words(fusion.receives[0]);
      }
    return std::nullopt;
  }

  const PlanSet& set_;
  const int rank_;
  const Plan& plan_;
  const int scratch_;
  std::vector<Access> accesses_;
  const Ancestors* ancestors_ = nullptr;
  std::vector<size_t> borders_;  // of the current buffer
  // by border: accesses to the bytes up to the next border
  std::vector<std::vector<const Access*>> at_;
};

}  // namespace

PlanFlaw check_places(const PlanSet& set) {
  for (int r = 0; r < set.n(); ++r)
    if (PlanFlaw flaw = RankOrder(set, r).check_places()) return flaw;
  return std::nullopt;
}

PlanFlaw check_order(const PlanSet& set) {
  for (int r = 0; r < set.n(); ++r)
    if (PlanFlaw flaw = RankOrder(set, r).check_order()) return flaw;
  return std::nullopt;
}

}  // namespace ringwood
