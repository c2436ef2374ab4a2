#include "collectives/cost_model.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "collectives/cost_prices.h"
#include "collectives/fusion.h"

namespace ringwood {
namespace {

bool local(StepKind kind) { return kind == StepKind::reduce || kind == StepKind::copy; }

class Binder {
 public:
  Binder(const std::vector<Schedule>& schedules, const Load& load, const Fabric& fabric)
      : schedules_(schedules),
        load_(load),
        fabric_(fabric),
        n_(static_cast<int>(schedules.size())),
        prices_(load, fabric, n_) {}

  CostModel run() {
    model_.ranks.resize(n_);
    std::vector<double> sets(n_);
    for (int r = 0; r < n_; ++r) sets[r] = bind_rank(r);
    set_rates(sets);
    for (int r = 0; r < n_; ++r) add_messages(r);
    for (size_t r = 0; r < fusions_.size(); ++r) add_fusions(r);
    for (CostMessage& m : model_.messages) set_costs(m);
    if (load_.agreement) {
      const Prices::Agreement agreement = prices_.agreement();
      model_.agreed = agreement.agreed;
      model_.agreeing = agreement.agreeing;
    }
    return std::move(model_);
  }

 private:
  double bind_rank(int r) {
    const Schedule& s = schedules_[r];
    if (s.rank != r || s.n != n_)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("cost: schedule {} is of rank {} of {}", r, s.rank, s.n));
    CostRank& rank = model_.ranks[r];
    rank.schedule = &s;
    rank.graph = derive(s);
    // Most algorithms cut all ranks' buffers alike.
    if (r == 0 || s.chunks != schedules_[r - 1].chunks || s.scratch != schedules_[r - 1].scratch)
      chunks_ = chunk_bytes(s, load_);
    for (const Step& step : s.steps) {
      const Span span = step.dst.count ? step.dst : step.src;
      double bytes = 0;
      for (int c = span.first; c < span.first + span.count; ++c)
        bytes += static_cast<double>(chunks_[c]);
      rank.bytes.push_back(bytes);
    }
    rank.message.assign(s.steps.size(), -1);
    if (load_.lent) fusions_.push_back(fusions_of(s, rank.graph, chunks_, fabric_.limits));
    return prices_.working_set(s, std::accumulate(chunks_.begin(), chunks_.end(), 0.0), rank.bytes);
  }

  void set_rates(const std::vector<double>& sets) {
    model_.hosts = prices_.hosts();
    std::vector<double> of_host(model_.hosts, 0);
    for (int r = 0; r < n_; ++r) of_host[fabric_.host_of(r)] += sets[r];
    for (int r = 0; r < n_; ++r)
      prices_.set_rates(model_.ranks[r], r, sets[r], of_host[fabric_.host_of(r)]);
  }

  // The k-th send of one end meets the k-th receive of the other.
  void add_messages(int r) {
    CostRank& rank = model_.ranks[r];
    for (size_t i = 0; i < rank.bytes.size(); ++i) {
      const Step& step = rank.schedule->steps[i];
      if (local(step.kind) || rank.bytes[i] == 0) continue;
      const bool sends = step.kind == StepKind::send;
      Direction& d = direction(sends ? r : step.peer, sends ? step.peer : r);
      size_t& at = sends ? d.sends : d.receives;
      if (at == d.messages.size()) append(d, sends ? r : step.peer, sends ? step.peer : r);
      const int32_t index = d.messages[at++];
      CostMessage& m = model_.messages[index];
      m.bytes = std::max(m.bytes, rank.bytes[i]);
      m.parts =
          cut_from_one_buffer(load_.collective) ? 1 : std::max(step.dst.count, step.src.count);
      m.reduces |= step.kind == StepKind::recv_reduce;
      (sends ? m.send_step : m.recv_step) = static_cast<int32_t>(i);
      rank.message[i] = index;
      if (sends && load_.lent) m.in_place = step.src.first < rank.schedule->chunks;
    }
  }

  // Those whose operands all lie where they can be answered (fusion.h).
  void add_fusions(size_t r) {
    const std::vector<int32_t>& message = model_.ranks[r].message;
    for (const Fusion& fusion : fusions_[r].fusions) {
      bool answered = true;
      for (size_t k = 0; k < fusion.receives.size() && answered; ++k) {
        const CostMessage& operand = model_.messages[message[fusion.receives[k]]];
        answered = operand.send_step >= 0 && !operand.sockets &&
                   fusions_[operand.from].answer[operand.send_step] == fusion.numbers[k];
      }
      for (const int32_t send : fusion.sends) model_.messages[message[send]].answers |= answered;
    }
  }

  struct Direction {
    std::vector<int32_t> messages;
    size_t sends = 0, receives = 0;
  };

  Direction& direction(int from, int to) {
    const auto [at, is_new] = direction_of_.try_emplace(
        uint64_t{static_cast<uint32_t>(from)} << 32 | static_cast<uint32_t>(to),
        static_cast<int32_t>(directions_.size()));
    if (is_new) directions_.push_back({});
    return directions_[at->second];
  }

  void append(Direction& d, int from, int to) {
    const auto index = static_cast<int32_t>(model_.messages.size());
    if (d.messages.empty())
      model_.heads.push_back(index);
    else
      model_.messages[d.messages.back()].next = index;
    d.messages.push_back(index);
    model_.messages.push_back(prices_.message(from, to));
  }

  void set_costs(CostMessage& m) const {
    if (m.send_step < 0 || m.recv_step < 0)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("cost: a message from rank {} to rank {} has only one end", m.from, m.to));
    prices_.set_costs(m, model_.ranks[m.from], model_.ranks[m.to]);
  }

  const std::vector<Schedule>& schedules_;
  const Load& load_;
  const Fabric& fabric_;
  const int n_;
  const Prices prices_;
  CostModel model_;
  std::vector<size_t> chunks_;    // bytes, of the rank bound last
  std::vector<Fusions> fusions_;  // by rank; empty unless lent
  std::vector<Direction> directions_;
  std::unordered_map<uint64_t, int32_t> direction_of_;  // by from << 32 | to
};

}  // namespace

CostModel model_of(const std::vector<Schedule>& schedules, const Load& load, const Fabric& fabric) {
  if (schedules.empty()) throw Error(ErrorCode::invalid_argument, "cost: no schedules");
  if (!fabric.hosts.empty() && fabric.hosts.size() != schedules.size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("cost: {} schedules, but the fabric has {} ranks", schedules.size(),
                            fabric.hosts.size()));
  return Binder(schedules, load, fabric).run();
}

}  // namespace ringwood
