#include "collectives/tuner/cost/cost_prices.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "collectives/plan/agreement.h"
#include "collectives/plan/plan.h"
#include "transports/eager_channel.h"

namespace ringwood {
namespace {

// The part of a set that is in a cache when the set is used repeatedly. Measured by copies of sets
// of half, once and twice the size of L3, of which about 0.95, 0.5 and 0.1 are found there.
double cached_part(double cache, double set) {
  const double times = set / cache;
  return 1 / (1 + times * times * times);
}

// L2 counts for more, since not all of a set is used repeatedly. Derived from the times of 2 ranks
// with 128 KiB to 2 MiB, on cores of one L3, on cores of two, and on the two threads of one core.
constexpr double kL2 = 1.7;
// From this many bytes on a message costs more than its first lines. With 2 ranks 8 bytes take
// 0.17, 0.16 and 0.33 us where a cache line takes 0.053, 0.023 and 0.24 us, and 512 bytes take
// 0.21, 0.18 and 0.58 us.
constexpr double kEagerSlot = 192;

// Of a post, at the receiver: data that does not fit into its preamble is read with it, but is a
// receive of its own. Over loopback, with a core for each of 2 ranks, 32 to 256 bytes take 0 to 0.5
// of a post more than 16, and 512 bytes 0.8 to 0.9; with shared cores, 512 bytes among 4 and 8
// hosts 0.4 to 0.8.
constexpr double kReadApart = 0.4;

// Of a message's post, where messages from all ranks arrive at once on hosts that share their
// cores: a rank looks for all of them each time that it wakes up. 12 messages of one round among 4
// such hosts take 1.2 to 1.3 times the time of 11 in four.
constexpr double kAtOnce = 1.2;

PerByte per_byte(const Rates& rates, const CostRank& rank, const MachineModel& machine) {
  const double elsewhere = 1 - rank.in_l2 - rank.in_l3;
  return {rank.in_l2 / rates.l2 + rank.in_l3 / rates.l3 + elsewhere / rates.dram,
          elsewhere / machine.memory};
}

// Of a message's bytes, those that travel.
double part_of(WireFormat wire) {
  constexpr size_t kMany = 1 << 20;
  return static_cast<double>(wire_bytes(wire, kMany)) / (kMany * sizeof(float));
}

// Data that is handed over lies in a cache; only the user's side may not. The share of a copy's
// cost that reading or writing a line there takes was derived from 2 ranks with 32 KiB to 64 MiB of
// private memory. `core`: seconds for a byte of which both sides are in L2.
constexpr double kRead = 2.0 / 3, kWritten = 1.0 / 2;
PerByte handing(double core, const PerByte& own, const Rates& rates, double part) {
  return {core + (own.core - 1 / rates.l2) * part, own.memory * part};
}

}  // namespace

bool eager_slots(const MachineModel& machine, const GroupSize& group) {
  return group.few() && machine.staged && !machine.loopback && !machine.has_devices();
}

std::vector<size_t> chunk_bytes(const Schedule& s, const Load& load) {
  std::vector<size_t> bytes(s.chunks + s.scratch.size(), 0);
  const size_t unit = std::max<size_t>(1, 64 / load.element), count = load.bytes / load.element;
  const int blocks = required_chunks(load.collective, s.n);
  const int segments = blocks ? std::max(1, s.chunks / blocks) : 1;
  for (int c = 0; c < s.chunks; ++c)
    bytes[c] = load.element * (cut_from_one_buffer(load.collective)
                                   ? piece(count, s.chunks, c, unit).count
                                   : piece(count, segments, c / std::max(1, blocks), unit).count);
  for (size_t i = 0; i < s.scratch.size(); ++i)
    bytes[s.chunks + i] = s.chunks ? bytes[s.scratch[i]] : 1;  // a barrier's token is one byte
  return bytes;
}

Prices::Prices(const Load& load, const MachineModel& machine, int n)
    : load_(load), machine_(machine), group_(group_of(load, machine, n)) {
  on_host_.assign(host_count(machine), 0);
  for (int r = 0; r < n; ++r) index_.push_back(on_host_[machine.host_of(r)]++);
  eager_slots_ = eager_slots(machine, group_);
}

double Prices::bind(const Plan& plan, CostRank& rank) const {
  const int number = plan.schedule.rank;
  std::vector<std::pair<int, double>> sent;  // by message its peer and bytes
  rank.sends = rank.receives = false;
  for (const BoundStep& step : plan.steps) {
    const auto bytes = static_cast<double>(step.bytes);
    const bool in_memory = step.peer >= 0 && same_host(number, step.peer) && !machine_.loopback;
    const bool large =
        in_memory ? mapped(bytes)
                  : machine_.net.carrier == PathClass::rdma && bytes >= machine_.net.zero_copy;
    const bool in_place = load_.zero_copy && large && step.src.buffer != kScratch;
    if (step.kind == StepKind::send && !in_place) sent.emplace_back(step.peer, bytes);
    if (step.peer < 0 || step.bytes == 0 || !same_host(number, step.peer)) continue;
    (step.kind == StepKind::send ? rank.sends : rank.receives) = true;
  }
  rank.own_block = own_block(number);
  return working_set(buffer_bytes(plan) + rank.own_block, std::move(sent));
}

double Prices::working_set(double buffers, std::vector<std::pair<int, double>> sent) const {
  const double whole = load_.of_bytes ? static_cast<double>(load_.of_bytes) / load_.bytes : 1;
  double bytes = buffers * whole;
  if (!machine_.staged) return bytes;
  std::stable_sort(sent.begin(), sent.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < sent.size();) {
    double total = 0;
    const int peer = sent[i].first;
    for (; i < sent.size() && sent[i].first == peer; ++i) total += sent[i].second * whole;
    bytes += std::min(total, machine_.eager);
  }
  return bytes;
}

double Prices::own_block(int rank) const {
  const bool keeps = traits_of(load_.collective).chunks == Chunks::outputs &&
                     has_result(load_.collective, {rank, 0, 0});
  return load_.out_of_place && keeps ? static_cast<double>(load_.bytes) : 0;
}

double Prices::turn(int on_host, int cores) const {
  const int in_turn = (on_host + cores - 1) / cores;
  return (in_turn - 1) * (machine_.yield + machine_.look);
}

// Until this work is done for as many ranks of each of the group's hosts, where they share cores.
double Prices::in_turns(double seconds, int of_host) const {
  return machine_.net.sharing > 1 ? seconds * of_host * machine_.net.sharing / group_.cores : 0;
}

void Prices::set_rates(CostRank& rank, int number, double own, double of_host) const {
  rank.on_cores = on_host(number) * machine_.net.sharing;
  const double of_core = own * std::max(1.0, rank.on_cores / static_cast<double>(machine_.cores));
  rank.turn = turn(on_host(number), machine_.cores);
  rank.in_l2 = cached_part(kL2 * machine_.l2_bytes, of_core);
  rank.in_l3 =
      std::max(0.0, cached_part(machine_.l3_bytes, of_host * machine_.net.sharing) - rank.in_l2);
  rank.copies = per_byte(machine_.copy, rank, machine_);
  rank.reduces = per_byte(machine_.reduce, rank, machine_);
  if (machine_.has_devices()) rank.copies = rank.reduces = {};
}

CostMessage Prices::message(int from, int to) const {
  CostMessage m;
  m.from = from;
  m.to = to;
  m.between_hosts = !same_host(from, to);
  m.between_nodes = !machine_.same_node(from, to);
  if (m.between_hosts || machine_.loopback) m.path = machine_.net.carrier;
  if (machine_.has_devices() && !m.between_hosts && !m.between_nodes) {
    m.path = PathClass::device;
    m.network = 1 / machine_.device.rate;
  }
  if (!m.between_hosts) return m;
  const PathParameters way = path(machine_, hosts(), host(from), host(to));
  // Every host both sends and receives, unless one rank is the source or the end of all data.
  const CollectiveTraits& traits = traits_of(load_.collective);
  const bool both_ways = traits.from == Who::all && traits.to == Who::all;
  const NetworkParameters& net = machine_.net;
  m.network = 1 / (net.nic * (both_ways ? net.both_ways : 1));
  if (way.rate < net.nic) m.middle = 1 / (way.rate * (both_ways ? way.both_ways : 1));
  m.port = port_of(net, from, index_[from], to, index_[to]);
  m.gap = net.gap;
  m.latency = way.latency;
  return m;
}

void Prices::set_far_parts(CostMessage& m, double of_latency, double of_bytes) const {
  const NetworkParameters& net = machine_.net;
  m.latency = net.latency + of_latency * (net.far->latency - net.latency);
  const CollectiveTraits& traits = traits_of(load_.collective);
  const bool both_ways = traits.from == Who::all && traits.to == Who::all;
  const double rate = net.far->rate * (both_ways ? net.far->both_ways : 1);
  m.middle = net.far->rate < net.nic ? of_bytes / rate : 0;
}

void Prices::set_costs(CostMessage& m, const CostRank& from, const CostRank& to) const {
  const PerByte& takes = m.reduces ? to.reduces : to.copies;
  // A rank without a core of its own looks only after the ranks before it have had their turns.
  m.latency = (m.between_hosts ? m.latency : inside(m.between_nodes)) + to.turn;
  m.posted = m.taken = machine_.post;
  if (m.path == PathClass::device) return set_by_device(m, to);
  if (m.path != PathClass::memory) return set_by_link(m, from, takes);
  if (machine_.has_devices()) return set_between_islands(m);
  m.puts = m.puts && machine_.staged && mapped(m.bytes);
  m.in_place = !m.puts && (!machine_.staged || (m.in_place && mapped(m.bytes)));
  if (load_.one_round && eager_slots_) m.posted = m.taken = 0;  // sent with the preamble
  if (!m.in_place) return set_written(m, from, takes, handed(m, from, to));
  m.in = takes;
  if (m.as_left) return;
  const Exchanged& anew = machine_.exchanged;
  m.in.core += to.in_l2 * std::max(0.0, 1 / anew.l2 - 1 / machine_.reduce.l2) +
               to.in_l3 * std::max(0.0, 1 / anew.l3 - 1 / machine_.reduce.l3);
}

void Prices::set_by_device(CostMessage& m, const CostRank& to) const {
  m.latency = machine_.device.latency + to.turn;
  m.eager = machine_.eager;
  m.in_place = m.puts = false;
}

// Through the host's memory: one end writes, the other one reads.
void Prices::set_between_islands(CostMessage& m) const {
  m.head = std::min(m.bytes, machine_.piece);
  m.eager = machine_.eager;
  m.in_place = m.puts = false;
  m.out = m.in = {1 / machine_.node_handed, 1 / machine_.memory};
}

void Prices::set_by_link(CostMessage& m, const CostRank& from, const PerByte& takes) const {
  const NetworkParameters& net = machine_.net;
  m.posted = m.taken = net.post * (m.behind ? net.behind : 1);
  m.eager = net.eager;
  m.puts = false;
  const bool in_place = std::exchange(m.in_place, false);
  if (load_.one_round) {
    m.posted = 0;  // sent with the preamble
    m.taken = m.bytes > kCarriedBytes ? net.post * kReadApart : 0;
    m.latency = 0;
  }
  const PerByte& copies = from.copies;
  const bool encoded = m.between_hosts && load_.wire != WireFormat::exact;
  if (encoded) encode(m, copies, takes);
  m.cut = m.bytes * (encoded ? part_of(load_.wire) : 1) > net.piece;
  if (machine_.has_devices()) {
    // Interfaces reach the memory of devices, which encode without a core.
    m.out = m.in = m.encode = {};
    return;
  }
  if (encoded) return;
  if (m.path == PathClass::socket) {
    m.out = {1 / net.copied + (copies.core - 1 / machine_.copy.l2) / 3, copies.memory / 3};
    m.in = {1 / net.copied + (m.reduces ? takes.core : takes.core - 1 / machine_.copy.l2),
            takes.memory};
    return;
  }
  const bool zero_copy = m.bytes >= net.zero_copy && (in_place || m.scratch);
  m.out = zero_copy ? PerByte{0, copies.memory / 3}
                    : handing(1 / net.copied, copies, machine_.copy, kRead);
  m.in = handing(1 / net.copied, takes, m.reduces ? machine_.reduce : machine_.copy, kWritten);
}

void Prices::set_written(CostMessage& m, const CostRank& from, const PerByte& takes,
                         double rate) const {
  constexpr double kPut = 1.0 / 8;
  const double small = std::max(0.0, 1 / machine_.exchanged.small - 1 / rate) *
                       std::min(1.0, Exchanged::kSmall / std::max(1.0, m.bytes));
  const PerByte& copies = from.copies;
  // The receiver sees the first line, and only then requests the others.
  m.latency += line(m.between_nodes) * std::min(1.0, m.bytes / kEagerSlot);
  m.head = std::min(m.bytes, machine_.piece);
  m.eager = machine_.eager;
  if (m.puts) {
    // The operand was just read there: the line is in this core's cache, and only has to go back.
    m.out = {copies.core * kPut, copies.memory / 3};
    m.head = m.bytes;
    return;
  }
  const double core = 1 / rate + small;
  m.out = handing(core, copies, machine_.copy, kRead);
  m.in = handing(core, takes, m.reduces ? machine_.reduce : machine_.copy, kWritten);
}

double Prices::handed(const CostMessage& m, const CostRank& from, const CostRank& to) const {
  const double rate = m.between_nodes ? machine_.node_handed : machine_.handed;
  return from.receives && to.sends ? rate * machine_.both_ways : rate;
}

// In costs for a byte before it is encoded.
void Prices::encode(CostMessage& m, const PerByte& copies, const PerByte& takes) const {
  const double part = part_of(load_.wire);
  const bool half = load_.wire == WireFormat::bf16;
  const double encoding = 1 / (half ? machine_.bf16.encode : machine_.int8.encode);
  const double decoding = 1 / (half ? machine_.bf16.decode : machine_.int8.decode);
  m.encode = {std::max(copies.core, encoding), copies.memory};
  m.out = {part / machine_.net.copied, 0};
  m.in = {part / machine_.net.copied + std::max(takes.core, decoding), takes.memory};
  m.network *= part;
  m.middle *= part;
  m.eager /= part;
}

double Prices::inside(bool between_nodes) const {
  if (machine_.loopback) return machine_.look;  // it has arrived when the sender's call returns
  return line(between_nodes) + machine_.look;
}

double Prices::line(bool between_nodes) const {
  return between_nodes ? machine_.node_latency : machine_.latency;
}

Prices::Agreement Prices::agreement() const {
  const bool once = load_.one_round || eager_slots_;
  const AgreementWay way = agreement_way(group_, machine_.loopback);
  if (!once && way.by_hosts) return agreement_by_hosts();
  std::vector<int> rounds;  // of so many ranks that exchange with each other
  if (once)
    rounds = {group_.ranks};
  else if (!way.factors.empty())
    rounds = way.factors;
  else
    rounds.assign(static_cast<size_t>(dissemination_rounds(group_.ranks)), 2);
  Agreement all{machine_.call, machine_.call};
  for (const int ranks : rounds) {
    const Agreement round = agreement_round(ranks - 1, once);
    all.agreed += round.agreed;
    all.agreeing += round.agreeing;
  }
  return all;
}

// So many messages to and from others at the same time.
Prices::Agreement Prices::agreement_round(int messages, bool once) const {
  Agreement round;
  for (const bool far : {false, true}) {
    if (far ? group_.hosts == 1 : group_.on_host == 1) continue;
    const bool sockets = far || machine_.loopback;
    const double posts = 2 * messages * (sockets ? machine_.net.post : machine_.post);
    round.agreeing = std::max(round.agreeing, posts);
    const double latency = far ? furthest() : inside(false);
    const double together = in_turns(once ? kAtOnce * posts : posts, group_.on_host);
    const double turns = turn(group_.on_host, group_.cores);
    round.agreed = std::max({round.agreed, posts + latency + turns, together});
  }
  return round;
}

// Up and down each level a rank has a message to or from each of those below it, in turn. What the
// host's ranks do for it is shared among them, as its cores are.
Prices::Agreement Prices::agreement_by_hosts() const {
  const int on_host = group_.on_host;
  const bool crowded = group_.crowded();
  const double turns = turn(on_host, group_.cores);
  const int below = crowded ? on_host - 1 : std::min(on_host - 1, kAgreementFanOut);
  const double level = (below + 1) * machine_.post + inside(false) + turns;
  const double across =
      std::max(2 * machine_.net.post + furthest() + turns, in_turns(2 * machine_.net.post, 1));
  const int levels = 2 * levels_below_leader(on_host, crowded),
            rounds = dissemination_rounds(group_.hosts);
  const double posts = 4 * (on_host - 1) * machine_.post + 2 * rounds * machine_.net.post;
  return {machine_.call + levels * level + rounds * across, machine_.call + posts / on_host};
}

// A dissemination passes far paths wherever there are some.
double Prices::furthest() const {
  return group_.hosts > 3 && machine_.net.far ? machine_.net.far->latency : machine_.net.latency;
}

}  // namespace ringwood
