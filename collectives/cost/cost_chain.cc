#include "collectives/cost/cost_chain.h"

#include <algorithm>

namespace ringwood {
namespace {

// The limit of the steps that are built; a schedule counts as this many in addition to its own; the
// first links of a chain are always followed.
constexpr size_t kFollowedSteps = 1 << 19, kStepsOfABuild = 8, kMinLinks = 8;

bool overlap(Span a, Span b) { return a.first < b.first + b.count && b.first < a.first + a.count; }

// Whether `step` has to wait for `before`, which precedes it on the list.
bool waits_for(const Step& step, const Step& before) {
  const bool reads = step.src.count > 0, writes = step.dst.count > 0;
  if (before.dst.count > 0 &&
      ((reads && overlap(step.src, before.dst)) || (writes && overlap(step.dst, before.dst))))
    return true;
  return before.src.count > 0 && writes && overlap(step.dst, before.src);
}

// Binomial trees are deepest there.
int last_of_a_power_of_two(int n) {
  int power = 1;
  while (2 * power < n) power *= 2;
  return power - 1;
}

}  // namespace

void Chains::Length::add(double latency, double seconds_of_bytes) {
  whole += latency + seconds_of_bytes;
  latencies += latency;
}
void Chains::Length::begin(double time) {
  whole = std::max(whole, time);
  latencies = std::max(latencies, time);
}
void Chains::Length::grow(double from, double times) {
  whole = from + (whole - from) * times;
  latencies = from + (latencies - from) * times;
}

void Chains::find(int n, CostBounds& bounds) {
  bounds.path = std::max(bounds.path, agreed_);
  bounds.latencies = std::max(bounds.latencies, agreed_);
  // Long chains, and long schedules, look alike everywhere.
  for (const int rank : {0, n - 1, last_of_a_power_of_two(n), n / 2, 2 * n / 3, 1 % n})
    for (const bool from_first : {false, true})
      if (!follow(rank, from_first, bounds) || followed_ > kFollowedSteps / 4) return;
}

const BuiltRank& Chains::built(int rank) {
  const auto known = built_.find(rank);
  if (known != built_.end()) return known->second;
  BuiltRank one = builder_(rank);
  prices_.set_rates(one.rates, rank, set_, set_ * prices_.on_host(rank));
  followed_ += one.schedule.steps.size() + kStepsOfABuild;
  return built_.emplace(rank, std::move(one)).first->second;
}

// Of consecutive receives that some step waits for, the chain continues from the last on the list,
// or from the first. False: only a part of the chain was followed.
bool Chains::follow(int rank, bool from_first, CostBounds& bounds) {
  const BuiltRank& last = built(rank);
  const std::vector<Step>& steps = last.schedule.steps;
  const auto comes = [&](size_t i) { return receives(steps[i]) && last.bytes(steps[i]) > 0; };
  size_t end = steps.size();
  while (end > 0 && !comes(end - 1)) --end;
  if (end == 0) return true;
  for (size_t i = end - 1; from_first && i-- > 0 && receives(steps[i]);)
    if (comes(i)) end = i + 1;
  std::vector<Link> chain = {{rank, end - 1, false}};  // backwards
  bool more = true;
  while (more && (followed_ <= kFollowedSteps || chain.size() < kMinLinks))
    more = go_back(chain, from_first);
  Length length = length_of(chain);
  const double from = position(chain.front()), to = position(chain.back());
  if (more && from > to) length.grow(agreed_, from / (from - to));
  bounds.path = std::max(bounds.path, length.whole);
  bounds.latencies = std::max(bounds.latencies, length.latencies);
  return !more;
}

// As a fraction of the list of steps.
double Chains::position(const Link& link) {
  return static_cast<double>(link.step + 1) /
         static_cast<double>(built(link.rank).schedule.steps.size());
}

// Appends what the last link waits for; false: it waits for nothing.
bool Chains::go_back(std::vector<Link>& chain, bool from_first) {
  const Link now = chain.back();
  const BuiltRank& here = built(now.rank);
  const std::vector<Step>& steps = here.schedule.steps;
  const Step& step = steps[now.step];
  if (receives(step)) return go_to_sender(chain);
  const auto precedes = [&](size_t i) {
    return waits_for(step, steps[i]) && here.bytes(steps[i]) > 0;
  };
  size_t found = now.step;
  while (found > 0 && !precedes(found - 1)) --found;
  if (found == 0) return false;
  for (size_t i = --found; from_first && receives(steps[found]) && i-- > 0 && receives(steps[i]);)
    if (precedes(i)) found = i;
  chain.push_back({now.rank, found, false});
  return true;
}

// The k-th send of one end meets the k-th receive of the other.
bool Chains::go_to_sender(std::vector<Link>& chain) {
  const Link now = chain.back();
  const BuiltRank& here = built(now.rank);
  const std::vector<Step>& steps = here.schedule.steps;
  const int from = steps[now.step].peer;
  const auto end = steps.begin() + static_cast<ptrdiff_t>(now.step);
  auto number = std::count_if(steps.begin(), end, [&](const Step& s) {
    return s.peer == from && receives(s) && here.bytes(s) > 0;
  });
  const BuiltRank& peer = built(from);
  const std::vector<Step>& sent = peer.schedule.steps;
  const auto send = std::find_if(sent.begin(), sent.end(), [&](const Step& s) {
    return s.peer == now.rank && sends(s) && peer.bytes(s) > 0 && number-- == 0;
  });
  if (send == sent.end()) return false;
  chain.push_back({from, static_cast<size_t>(send - sent.begin()), true});
  return true;
}

bool Chains::far(const BuiltRank& one, const Step& step) const {
  return machine_.host_of(one.schedule.rank) != machine_.host_of(step.peer);
}

// Consecutive sends are in flight at the same time and share the sender. A receive in a row shares
// the receiver with those after it, since those before it have arrived earlier.
Chains::Row Chains::row_of(const BuiltRank& one, size_t step) const {
  const std::vector<Step>& steps = one.schedule.steps;
  const bool sent = sends(steps[step]);
  const auto of_row = [&](const Step& s) { return s.peer >= 0 && sends(s) == sent; };
  size_t first = step;
  while (sent && first > 0 && of_row(steps[first - 1])) --first;
  Row row;
  for (size_t i = first; i < steps.size() && of_row(steps[i]); ++i) {
    if (far(one, steps[i]) != far(one, steps[step])) continue;
    row.posts += i <= step && one.bytes(steps[i]) > 0;
    row.bytes += one.bytes(steps[i]);
  }
  return row;
}

// The message of a link that sends or receives.
CostMessage Chains::message(const Link& link, bool reduces) {
  const BuiltRank& one = built(link.rank);
  const Step& step = one.schedule.steps[link.step];
  CostMessage m = prices_.message(link.rank, step.peer);
  m.parts = parts_of(step, load_.collective, one.schedule.chunks);
  m.bytes = one.bytes(step);
  m.reduces = reduces;
  prices_.set_costs(m, one.rates, link.by_message ? built(step.peer).rates : one.rates);
  return m;
}

Chains::Length Chains::length_of(const std::vector<Link>& chain) {
  Length length;
  for (size_t i = chain.size(); i-- > 0;) {
    const BuiltRank& one = built(chain[i].rank);
    const Step& step = one.schedule.steps[chain[i].step];
    if (!sends(step)) length.begin(agreed_);
    if (step.peer < 0) {
      const PerByte& cost = step.kind == StepKind::copy ? one.rates.copies : one.rates.reduces;
      length.add(0, one.bytes(step) * cost.core);
      continue;
    }
    const Row row = row_of(one, chain[i].step);
    if (!chain[i].by_message) {
      length.add(message(chain[i], false).post * row.posts, 0);
      continue;
    }
    const BuiltRank& other = built(step.peer);
    const size_t receive = chain[i - 1].step;
    const CostMessage m =
        message(chain[i], other.schedule.steps[receive].kind == StepKind::recv_reduce);
    length.add(m.post * row.posts + m.latency,
               std::max({row.bytes * std::max(m.out.core, m.wire),
                         row_of(other, receive).bytes * std::max(m.in.core, m.wire),
                         one.bytes(step) * std::max(m.out.core, m.in.core)}));
  }
  return length;
}

}  // namespace ringwood
