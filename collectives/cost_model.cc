#include "collectives/cost_model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "collectives/plan.h"

namespace ringwood {
namespace {

bool in_place(Collective c) {
  return c == Collective::all_reduce || c == Collective::reduce || c == Collective::broadcast;
}
bool local(StepKind kind) { return kind == StepKind::reduce || kind == StepKind::copy; }

// Bytes of every chunk, cut as the plan cuts them.
std::vector<size_t> chunk_bytes(const Schedule& s, const Load& load) {
  std::vector<size_t> bytes(s.chunks + s.scratch.size(), 0);
  const size_t unit = std::max<size_t>(1, 64 / load.element), count = load.bytes / load.element;
  const int blocks = required_chunks(load.collective, s.n);
  const int lanes = blocks ? std::max(1, s.chunks / blocks) : 1;
  for (int c = 0; c < s.chunks; ++c)
    bytes[c] = load.element * (in_place(load.collective)
                                   ? piece(count, s.chunks, c, unit).count
                                   : piece(count, lanes, c / std::max(1, blocks), unit).count);
  for (size_t i = 0; i < s.scratch.size(); ++i)
    bytes[s.chunks + i] = s.chunks ? bytes[s.scratch[i]] : 1;  // a barrier's token is one byte
  return bytes;
}

// What a rank reads and writes again and again: its buffers, and the links that it fills.
double working_set(const CostRank& rank, const std::vector<size_t>& chunks, const Load& load,
                   const Fabric& fabric) {
  double bytes = 0;
  for (const size_t chunk : chunks) bytes += static_cast<double>(chunk);
  const double whole = load.of_bytes ? static_cast<double>(load.of_bytes) / load.bytes : 1;
  bytes *= whole;
  std::map<int, double> sent;
  for (size_t i = 0; i < rank.bytes.size(); ++i)
    if (rank.schedule->steps[i].kind == StepKind::send)
      sent[rank.schedule->steps[i].peer] += rank.bytes[i] * whole;
  if (fabric.staged && !load.lent)
    for (const auto& [peer, total] : sent) bytes += std::min(total, fabric.eager);
  return bytes;
}

// The part of a set that a cache holds, when it is gone through again and again: measured by copies
// of sets half, once and twice as large as L2 and L3, which find about 0.95, 0.5 and 0.1 of it.
double held(double cache, double set) {
  const double times = set / cache;
  return 1 / (1 + times * times * times);
}

PerByte per_byte(const Rates& rates, double of_core, double of_host, const Fabric& fabric) {
  const double in_l2 = held(fabric.l2_bytes, of_core);
  const double cached = std::max(in_l2, held(fabric.l3_bytes, of_host));
  return {in_l2 / rates.l2 + (cached - in_l2) / rates.l3 + (1 - cached) / rates.dram,
          (1 - cached) / fabric.memory};
}

class Binder {
 public:
  Binder(const std::vector<Schedule>& schedules, const Load& load, const Fabric& fabric)
      : schedules_(schedules),
        load_(load),
        fabric_(fabric),
        n_(static_cast<int>(schedules.size())),
        direction_of_(schedules.size() * schedules.size(), -1) {}

  CostModel run() {
    model_.ranks.resize(n_);
    std::vector<double> sets(n_);
    for (int r = 0; r < n_; ++r) sets[r] = bind_rank(r);
    set_rates(sets);
    for (int r = 0; r < n_; ++r) add_messages(r);
    for (size_t r = 0; r < fusions_.size(); ++r) add_fusions(r);
    for (CostMessage& m : model_.messages) set_costs(m);
    if (load_.agreement) set_agreement();
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
    if (load_.lent) fusions_.push_back(fusions_of(s, rank.graph, chunks_));
    return working_set(rank, chunks_, load_, fabric_);
  }

  void set_rates(const std::vector<double>& sets) {
    std::map<int, std::pair<int, double>> hosts;
    for (int r = 0; r < n_; ++r) {
      auto& [ranks, bytes] = hosts[fabric_.host_of(r)];
      ++ranks;
      bytes += sets[r];
    }
    model_.hosts = hosts.rbegin()->first + 1;
    letters_ = model_.hosts == 1 && fabric_.staged && !fabric_.loopback;
    for (int r = 0; r < n_; ++r) {
      const auto& [ranks, bytes] = hosts[fabric_.host_of(r)];
      const double of_core = sets[r] * std::max(1.0, ranks / static_cast<double>(fabric_.cores));
      const int in_turn = (ranks + fabric_.cores - 1) / fabric_.cores;
      model_.ranks[r].on_host = ranks;
      model_.ranks[r].turn = (in_turn - 1) * (fabric_.yield + fabric_.look);
      model_.ranks[r].copies = per_byte(fabric_.copy, of_core, bytes, fabric_);
      model_.ranks[r].reduces = per_byte(fabric_.reduce, of_core, bytes, fabric_);
    }
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
      m.parts = in_place(load_.collective) ? 1 : std::max(step.dst.count, step.src.count);
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
    int32_t& index = direction_of_[static_cast<size_t>(from) * n_ + to];
    if (index < 0) {
      index = static_cast<int32_t>(directions_.size());
      directions_.push_back({});
    }
    return directions_[index];
  }

  void append(Direction& d, int from, int to) {
    const auto index = static_cast<int32_t>(model_.messages.size());
    if (d.messages.empty())
      model_.heads.push_back(index);
    else
      model_.messages[d.messages.back()].next = index;
    d.messages.push_back(index);
    CostMessage m;
    m.from = from;
    m.to = to;
    m.between_hosts = fabric_.host_of(from) != fabric_.host_of(to);
    m.sockets = m.between_hosts || fabric_.loopback;
    model_.messages.push_back(m);
  }

  void set_costs(CostMessage& m) const {
    if (m.send_step < 0 || m.recv_step < 0)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("cost: a message from rank {} to rank {} has only one end", m.from, m.to));
    const PerByte& takes = m.reduces ? model_.ranks[m.to].reduces : model_.ranks[m.to].copies;
    m.latency = latency_of(m.from, m.to);
    m.post = (m.sockets ? fabric_.net_post : fabric_.post) * m.parts;
    const bool mapped = !m.sockets && fabric_.staged && m.bytes >= fabric_.lent;
    m.answers = m.answers && mapped;
    m.in_place = !m.sockets && !m.answers && (!fabric_.staged || (m.in_place && mapped));
    if (load_.one_round && (m.sockets || letters_)) m.post = m.latency = 0;  // with the opening
    if (m.sockets) {
      const PerByte& copies = model_.ranks[m.from].copies;
      m.wire = m.between_hosts ? 1 / fabric_.nic : 0;
      m.holds = fabric_.net_eager;
      if (m.between_hosts && load_.wire != WireFormat::exact) return encode(m, copies, takes);
      m.out = {1 / fabric_.socket + (copies.core - 1 / fabric_.copy.l2) / 3, copies.memory / 3};
      m.in = {1 / fabric_.socket + (m.reduces ? takes.core : takes.core - 1 / fabric_.copy.l2),
              takes.memory};
    } else if (m.in_place) {
      m.in = {std::max(takes.core, 1 / handed(m) + takes.core - 1 / fabric_.copy.l2), takes.memory};
    } else {
      set_written(m, takes);
    }
  }

  // What is handed over lies in a cache; only the user's side may not. A line read is one of the
  // three transfers of a copy from memory to memory, a line written the other two.
  void set_written(CostMessage& m, const PerByte& takes) const {
    constexpr double kRead = 1.0 / 3, kWritten = 2.0 / 3;
    const PerByte& copies = model_.ranks[m.from].copies;
    m.head = std::min(m.bytes, fabric_.piece);
    m.holds = fabric_.eager;
    if (m.answers) {
      m.out = {copies.core * kWritten, copies.memory * kWritten};
      m.head = m.bytes;
      return;
    }
    m.out = handing(m, copies, fabric_.copy, kRead);
    m.in = handing(m, takes, m.reduces ? fabric_.reduce : fabric_.copy, kWritten);
  }

  double handed(const CostMessage& m) const {
    return fabric_.same_node(m.from, m.to) ? fabric_.handed : fabric_.node_handed;
  }

  PerByte handing(const CostMessage& m, const PerByte& own, const Rates& rates, double part) const {
    return {1 / handed(m) + (own.core - 1 / rates.l2) * part, own.memory * part};
  }

  // In figures for a byte before it is encoded.
  void encode(CostMessage& m, const PerByte& copies, const PerByte& takes) const {
    constexpr size_t kMany = 1 << 20;
    const double part =
        static_cast<double>(wire_bytes(load_.wire, kMany)) / (kMany * sizeof(float));
    const bool half = load_.wire == WireFormat::bf16;
    const double encoding = 1 / (half ? fabric_.bf16_encode : fabric_.int8_encode);
    const double decoding = 1 / (half ? fabric_.bf16_decode : fabric_.int8_decode);
    m.encode = {std::max(copies.core, encoding), copies.memory};
    m.out = {part / fabric_.socket, 0};
    m.in = {part / fabric_.socket + std::max(takes.core, decoding), takes.memory};
    m.wire *= part;
    m.holds /= part;
  }

  // A rank that has no core to itself comes to look after those before it have had their turns.
  double latency_of(int from, int to) const {
    return latency(fabric_.host_of(from) != fabric_.host_of(to), !fabric_.same_node(from, to)) +
           model_.ranks[to].turn;
  }
  double latency(bool between_hosts, bool between_nodes) const {
    if (between_hosts) return fabric_.net_latency;
    if (fabric_.loopback) return fabric_.look;  // it is there when the sender's call returns
    return (between_nodes ? fabric_.node_latency : fabric_.latency) + fabric_.look;
  }

  // As many rounds of one small message as a dissemination has; in one round, as always by letter
  // (transports/mailbox.h), a message to and from everybody.
  void set_agreement() {
    const bool once = load_.one_round || letters_;
    const int messages = once ? n_ - 1 : 1;
    double round = 0, post = 0;
    for (int r = 0; r < n_; ++r)
      for (const bool far : {false, true})
        if (far ? model_.hosts > 1 : model_.ranks[r].on_host > 1) {
          const bool sockets = far || fabric_.loopback;
          const double posts = 2 * messages * (sockets ? fabric_.net_post : fabric_.post);
          post = std::max(post, posts);
          round = std::max(round, posts + latency(far, false) + model_.ranks[r].turn);
        }
    const double rounds = once ? 1 : std::ceil(std::log2(n_));
    model_.agreed = fabric_.call + round * rounds;
    model_.agreeing = fabric_.call + post * rounds;
  }

  const std::vector<Schedule>& schedules_;
  const Load& load_;
  const Fabric& fabric_;
  const int n_;
  CostModel model_;
  bool letters_ = false;          // every rank maps every other's memory
  std::vector<size_t> chunks_;    // bytes, of the rank bound last
  std::vector<Fusions> fusions_;  // by rank; empty unless lent
  std::vector<Direction> directions_;
  std::vector<int32_t> direction_of_;  // by from * n + to; -1: no message yet
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
