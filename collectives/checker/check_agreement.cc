// The checker's first part: what all ranks share is equal, and each hears from all
// before it writes.
#include <algorithm>

#include <fmt/format.h>

#include "collectives/checker/checker_parts.h"
#include "collectives/plan/proved_schedules.h"
#include "transports/eager_channel.h"

namespace ringwood {
namespace {

// The number of fingerprints that an execution has room for from one peer (MessageAgreement::Talk).
constexpr int kMaxHeardFromOne = 2;

PlanFlaw differs(int rank, const char* what) {
  return fmt::format("rank {} and rank 0 have planned different {}", rank, what);
}

bool same_args(const CollectiveArgs& a, const CollectiveArgs& b) {
  if (!has_blocks_of_pairs(a)) return a == b;
  return b.collective == a.collective && a.type == b.type && a.root == b.root &&
         a.blocks.size() == b.blocks.size();
}

bool same_scaling(const Scaling& a, const Scaling& b) {
  return a.on == b.on && a.whole == b.whole && a.n == b.n && a.scale == b.scale &&
         a.divisor == b.divisor;
}

bool same_fingerprint(Fingerprint a, Fingerprint b) {
  const auto c = static_cast<Collective>(a.collective);
  if (has_sizes_of_pairs(c) && !has_root(c)) a.even = b.even = 0;
  return a == b;
}

PlanFlaw check_equal(const Plan& mine, int rank, const Plan& first) {
  if (!same_args(mine.key.args, first.key.args)) return differs(rank, "arguments");
  if (mine.form.algorithm != first.form.algorithm) return differs(rank, "algorithms");
  if (mine.form.segments != first.form.segments) return differs(rank, "numbers of segments");
  if (!same_fingerprint(mine.fingerprint, first.fingerprint)) return differs(rank, "fingerprints");
  if (mine.protocol != first.protocol || mine.slots != first.slots)
    return differs(rank, "protocols");
  if (mine.element != first.element) return differs(rank, "sizes of an element");
  if (!same_scaling(mine.scaling, first.scaling)) return differs(rank, "scalings");
  if (mine.wide.rounds_each != first.wide.rounds_each)
    return differs(rank, "roundings of additions");
  if (mine.wide.element != first.wide.element)
    return differs(rank, "widths of an accumulation's sums");
  return std::nullopt;
}

// What one rank sends must be what the other receives.
PlanFlaw check_pairs(const PlanSet& set) {
  const Collective c = set.args().collective;
  if (!has_blocks_of_pairs(set.args())) return std::nullopt;
  const auto at = [&](int rank) { return GroupRank{rank, set.n(), set.args().root}; };
  for (int a = 0; a < set.n(); ++a)
    for (int b = 0; b < set.n(); ++b) {
      if (!is_source(c, at(a)) || !has_result(c, at(b))) continue;
      const size_t out = user_bytes(set, a, chunk_sent(c, at(a), b));
      const size_t in = user_bytes(set, b, chunk_received(c, at(b), a));
      if (out != in)
        return fmt::format("rank {} has {} bytes for rank {}, which expects {}", a, out, b, in);
    }
  return std::nullopt;
}

PlanFlaw check_own(const PlanSet& set, int rank) {
  const Plan& plan = set.of(rank);
  Fingerprint right = fingerprint_of(plan.key.args, plan.form.algorithm, plan.form.segments, 0);
  right.wire = plan.fingerprint.wire;
  right.memory = static_cast<uint8_t>(plan.key.request.memory);
  right.epoch = static_cast<uint8_t>(plan.epoch);
  if (plan.form.algorithm == kUserSchedules) right.blocks = plan.fingerprint.blocks;  // their hash
  if (plan.fingerprint != right)
    return fmt::format("rank {}'s fingerprint is not that of its plan", rank);
  if (plan.element != size_of(plan.key.args.type))
    return fmt::format("rank {} plans elements of {} bytes", rank, plan.element);
  if (set.format() != WireFormat::exact &&
      !may_encode(plan.key.args.collective, plan.key.args.type, plan.key.args.op))
    return fmt::format("rank {} encodes what may not be encoded", rank);
  bool adds = false;
  for (const BoundStep& step : plan.steps) adds = adds || (adds_up(step) && step.bytes > 0);
  const Scaling& s = plan.scaling;
  if (adds && s.on != scales_here(plan.key.args))
    return fmt::format("rank {} {} operands", rank, s.on ? "scales" : "does not scale");
  if (!s.on) return std::nullopt;
  double scale = 1;
  while (plan.key.args.op == ReduceOp::avg && scale * set.n() > 1) scale /= 2;
  const double divisor = plan.key.args.op == ReduceOp::avg ? set.n() * scale : 1;
  if (s.n != set.n() || s.scale != scale || s.divisor != divisor)
    return fmt::format("rank {} scales by {} and divides by {} for {} ranks, not by {} and {}",
                       rank, s.scale, s.divisor, s.n, scale, divisor);
  return std::nullopt;
}

// ---- before anything is written ----------------------------------------------------------------

PlanFlaw check_preambles(const PlanSet& set, int rank) {
  const Plan& plan = set.of(rank);
  std::vector<int> sent(plan.peers.size()), heard(plan.peers.size());
  int stage = 0;
  for (const Plan::Exchange& e : plan.agreement) {
    const auto peers = static_cast<int>(plan.peers.size());
    if (e.to < -1 || e.to >= peers || e.from < -1 || e.from >= peers || e.stage < stage ||
        (e.to < 0 && e.from < 0))
      return fmt::format("rank {}'s agreement names a peer or a stage that does not exist", rank);
    stage = e.stage;
    const bool out = e.to < 0 || e.nth_to == sent[static_cast<size_t>(e.to)]++;
    const bool in = e.from < 0 || e.nth_from == heard[static_cast<size_t>(e.from)]++;
    if (!out || !in)
      return fmt::format("rank {}'s agreement with rank {} is not in the order of its stages", rank,
                         plan.peers[static_cast<size_t>(out ? e.from : e.to)].peer);
  }
  for (size_t q = 0; q < plan.peers.size(); ++q) {
    const PeerQueue& queue = plan.peers[q];
    const PeerQueue* const theirs = queue_to(set.of(queue.peer), rank);
    if (!in_one_round(plan) && (queue.preambles_out != sent[q] || queue.preambles_in != heard[q]))
      return fmt::format("rank {} counts {} and {} fingerprints to and from rank {}, not {} and {}",
                         rank, queue.preambles_out, queue.preambles_in, queue.peer, sent[q],
                         heard[q]);
    if (queue.preambles_out != (theirs ? theirs->preambles_in : 0))
      return fmt::format("rank {} sends rank {} {} fingerprints, which expects {}", rank,
                         queue.peer, queue.preambles_out, theirs ? theirs->preambles_in : 0);
    if (queue.preambles_in > kMaxHeardFromOne)
      return fmt::format("rank {} receives {} fingerprints from rank {}", rank, queue.preambles_in,
                         queue.peer);
  }
  return std::nullopt;
}

// Carries out the exchanges. A fingerprint covers all ranks of which its sender had heard in
// the stages before. Where sizes belong to pairs, a rank counts only once its own fingerprint
// has arrived.
class Hearing {
 public:
  explicit Hearing(const PlanSet& set)
      : set_(set),
        n_(static_cast<size_t>(set.n())),
        pairs_(has_blocks_of_pairs(set.args()) && set.n() > 2) {
    for (size_t r = 0; r < n_; ++r) {
      known_.emplace_back(n_);
      known_[r][r] = !pairs_;
    }
    direct_.assign(n_, Known(n_));
    done_.assign(n_, 0);
    news_.assign(n_ * n_, {});
    posted_.assign(n_, 0);
  }

  PlanFlaw run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < n_; ++r) moved = advance(r) || moved;
    }
    for (size_t r = 0; r < n_; ++r) {
      if (done_[r] < set_.of(static_cast<int>(r)).agreement.size())
        return fmt::format("rank {}'s agreement never ends", r);
      for (size_t other = 0; other < n_; ++other)
        if (!known_[r][other])
          return fmt::format("rank {} writes before it has heard of rank {}", r, other);
    }
    return std::nullopt;
  }

 private:
  using Known = std::vector<bool>;

  // Makes what is possible of a stage of a rank. False: nothing new is sent, and not all of it has
  // arrived, or there is no further stage.
  bool advance(size_t r) {
    const Plan& plan = set_.of(static_cast<int>(r));
    const auto& list = plan.agreement;
    const size_t begin = done_[r];
    size_t end = begin;
    while (end < list.size() && list[end].stage == list[begin].stage) ++end;
    if (begin == end) return false;
    const bool posts = posted_[r] < end;
    for (size_t i = std::max(begin, posted_[r]); i < end; ++i)
      if (list[i].to >= 0) news_[r * n_ + peer(plan, list[i].to)].push_back(known_[r]);
    posted_[r] = end;
    Known all = known_[r];
    for (size_t i = begin; i < end; ++i) {
      if (list[i].from < 0) continue;
      const auto& from = news_[peer(plan, list[i].from) * n_ + r];
      const auto nth = static_cast<size_t>(list[i].nth_from);
      if (from.size() <= nth) return posts;
      for (size_t k = 0; k < n_; ++k) all[k] = all[k] || from[nth][k];
      direct_[r][peer(plan, list[i].from)] = true;
    }
    const auto others = std::ranges::count(direct_[r], true);
    all[r] = all[r] || static_cast<size_t>(others) + 1 == n_;
    known_[r] = std::move(all);
    done_[r] = end;
    return true;
  }
  static size_t peer(const Plan& plan, int index) {
    return static_cast<size_t>(plan.peers[static_cast<size_t>(index)].peer);
  }

  const PlanSet& set_;
  const size_t n_;
  const bool pairs_;
  std::vector<Known> known_, direct_;  // by rank
  std::vector<size_t> done_, posted_;
  std::vector<std::vector<Known>> news_;  // by sender and receiver
};

// Where only pairs know sizes.
PlanFlaw check_all_pairs_exchange(const PlanSet& set) {
  for (int a = 0; a < set.n(); ++a)
    for (int b = 0; b < set.n(); ++b) {
      const PeerQueue* const queue = a == b ? nullptr : queue_to(set.of(a), b);
      if (a != b && (!queue || queue->preambles_in < 1))
        return fmt::format("rank {} never receives the fingerprint of rank {} itself", a, b);
    }
  return std::nullopt;
}

// Before it has heard of all, a rank writes only to scratch: what it receives from those whose
// fingerprints it has, and local steps. Nobody puts into the user's buffers meanwhile.
PlanFlaw check_early(const PlanSet& set, int rank) {
  const Plan& plan = set.of(rank);
  const bool early = is_early(plan);
  if (early && (plan.slots || in_one_round(plan)))
    return fmt::format("rank {} begins early by eager slots or in one round", rank);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const BoundStep& step = plan.steps[i];
    if (step.early && !early)
      return plan_step_words(set, rank, i) + " begins early in a plan that does not";
    if (!early || step.bytes == 0) continue;
    if (sends(step) && step.src.buffer != kScratch)
      return plan_step_words(set, rank, i) + " sends the user's buffer early";
    if (!sends(step) && step.early && step.dst.buffer != kScratch)
      return plan_step_words(set, rank, i) + " writes the user's buffer early";
    if (receives(step) && queue_to(plan, step.peer)->preambles_in == 0)
      return plan_step_words(set, rank, i) + " comes early without a fingerprint";
    if (receives(step) && !step.early)
      return plan_step_words(set, rank, i) + " is not early in a plan that is";
  }
  for (const PeerQueue& queue : plan.peers) {
    const PeerQueue* const theirs = early ? queue_to(set.of(queue.peer), rank) : nullptr;
    for (size_t k = 0; theirs && k < theirs->sends.size(); ++k)
      if (set.of(queue.peer).steps[static_cast<size_t>(theirs->sends[k])].put >= 0)
        return fmt::format("rank {} may put into the buffer of rank {} early", rank, queue.peer);
  }
  return std::nullopt;
}

PlanFlaw check_one_round(const PlanSet& set, int rank) {
  const Plan& plan = set.of(rank);
  if (!plan.agreement.empty())
    return fmt::format("rank {} has an agreement besides the one round", rank);
  if (has_blocks_of_pairs(plan.key.args) && set.n() > 2)
    return fmt::format("rank {} cannot know in one round that all pairs agree", rank);
  const auto n = static_cast<size_t>(set.n());
  if (plan.one_round.sends.size() != n || plan.one_round.receives.size() != n)
    return fmt::format("rank {} does not list the eager messages of {} ranks", rank, n);
  for (const PeerQueue& queue : plan.peers) {
    if (queue.preambles_out != (plan.slots ? 0 : 1))
      return fmt::format("rank {} sends rank {} {} preambles in one round", rank, queue.peer,
                         queue.preambles_out);
    if (queue.sends.size() > 1 || queue.receives.size() > 1)
      return fmt::format("rank {} has more than one message for rank {} in one round", rank,
                         queue.peer);
    const auto peer = static_cast<size_t>(queue.peer);
    const int32_t out = queue.sends.empty() ? -1 : queue.sends[0];
    const int32_t in = queue.receives.empty() ? -1 : queue.receives[0];
    if (plan.one_round.sends[peer] != out || plan.one_round.receives[peer] != in)
      return fmt::format("rank {} lists other eager messages with rank {} than its queue", rank,
                         queue.peer);
    const size_t bytes = out < 0 ? 0 : plan.steps[static_cast<size_t>(out)].bytes;
    if (plan.slots && bytes > kEagerSlotBytes)
      return fmt::format("rank {} sends rank {} {} bytes in one round, more than fits into a slot",
                         rank, queue.peer, bytes);
  }
  return std::nullopt;
}

}  // namespace

PlanFlaw check_agreement(const PlanSet& set) {
  for (int r = 0; r < set.n(); ++r) {
    if (PlanFlaw flaw = check_equal(set.of(r), r, set.of(0))) return flaw;
    if (PlanFlaw flaw = check_own(set, r)) return flaw;
    for (const PeerQueue& queue : set.of(r).peers)
      if (queue.peer < 0 || queue.peer >= set.n() || queue.peer == r ||
          queue_to(set.of(r), queue.peer) != &queue)
        return fmt::format("rank {} has a queue for rank {}", r, queue.peer);
  }
  if (PlanFlaw flaw = check_pairs(set)) return flaw;
  for (int r = 0; r < set.n(); ++r)
    if (PlanFlaw flaw = check_preambles(set, r)) return flaw;
  const Protocol protocol = set.of(0).protocol;
  const bool slots = set.of(0).slots;
  if (slots != (protocol == Protocol::eager_slots) && protocol != Protocol::queued)
    return "one round is planned over links and by eager slots";
  // By eager slots each rank tells all others, and then, where it matters, that its pairs agree.
  if (slots) return std::nullopt;
  if (protocol == Protocol::queued)
    if (PlanFlaw flaw = Hearing(set).run()) return flaw;
  if (protocol == Protocol::one_round || has_blocks_of_pairs(set.args()))
    if (PlanFlaw flaw = check_all_pairs_exchange(set)) return flaw;
  return std::nullopt;
}

PlanFlaw check_protocol(const PlanSet& set) {
  for (int r = 0; r < set.n(); ++r)
    if (PlanFlaw flaw = check_early(set, r)) return flaw;
  for (int r = 0; in_one_round(set.of(0)) && r < set.n(); ++r)
    if (PlanFlaw flaw = check_one_round(set, r)) return flaw;
  return std::nullopt;
}

}  // namespace ringwood
