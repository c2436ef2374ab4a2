#include "tools/simulation/flow_delays.h"

#include <algorithm>

namespace ringwood {
namespace {

// Differences below are rounding errors.
constexpr double kSame = 1e-4;

}  // namespace

FlowDelays::FlowDelays(const Traffic& traffic, const HostSymmetry& symmetry, const Network& network)
    : traffic_(traffic), network_(network), moves_(symmetry) {
  bool dead = false;
  for (int h = 0; h < network.hosts(); ++h) {
    if (!broken(h)) continue;
    broken_.push_back(h);
    for (int rail = 0; rail < rails(); ++rail)
      dead |= network.rate(network.port(h, rail, false)) <= 0;
  }
  others_carry_ = dead && by_rank();
  if (network.shape().uplinks > 0 || others_carry_)
    counts_.emplace(traffic, symmetry, network, !others_carry_);
  known_.assign(rails(), 0);
  busy_.assign(broken_.size(), {known_, known_});
  for (auto* values : {&out_, &in_, &moved_}) values->assign(network.hosts(), 0);
  sent_.assign(rails(), 0);
}

bool FlowDelays::broken(int host) const {
  for (int rail = 0; rail < rails(); ++rail)
    if (network_.rate(network_.port(host, rail, false)) != 1.0 / rails()) return true;
  return false;
}

double FlowDelays::rate_of(int host, bool in, int own) const {
  if (by_rank()) return network_.rate(network_.port(host, own, in));
  double rate = 0;
  for (int rail = 0; rail < rails(); ++rail) rate += network_.rate(network_.port(host, rail, in));
  return rate;
}

// 0 where messages are striped.
int FlowDelays::rail_of(const JobRecord& flow, int from, int to) const {
  const TrafficMessage& m = traffic_.messages[flow.index];
  return by_rank() ? (from < to ? m.from : m.to) % rails() : 0;
}

// ---- ports alone

// How many times longer the ports of two hosts make a flow.
double FlowDelays::port_stretch(const JobRecord& flow, double seconds, int from, int to) const {
  const double healthy = 1.0 / rails();
  const auto rate = [&](int rail) {
    return std::min(network_.rate(network_.port(from, rail, false)),
                    network_.rate(network_.port(to, rail, true)));
  };
  if (by_rank()) return healthy / rate(rail_of(flow, from, to));
  double all = 0, most = 0;
  for (int rail = 0; rail < rails(); ++rail) {
    all += rate(rail);
    most = std::max(most, rate(rail));
  }
  if (cut(flow)) return 1 / all;
  // Flows on each rail in the known course, as long as this one: of few, none takes a slow rail.
  const double flows = flow.network * healthy / seconds;
  return flows < 1 + kSame ? healthy / most : 1 / all;
}

bool FlowDelays::delays(const JobRecord& flow) const {
  return !others_carry_ && !broken_.empty() && traffic_.far_hosts[flow.index] != 0;
}

void FlowDelays::end(const JobRecord& flow, double seconds, HostDelays& delays) {
  const int far = traffic_.far_hosts[flow.index];
  const int own = by_rank() ? traffic_.rail_owner(flow.index) % rails() : 0;
  known_[own] = std::max(known_[own], flow.began) + seconds * (by_rank() ? rails() : 1);
  const double lasted = flow.ended - flow.began;
  for (size_t i = 0; i < broken_.size(); ++i)
    for (const bool in : {false, true}) {
      const int from = in ? moves_.sender(broken_[i], far) : broken_[i];
      const int to = in ? broken_[i] : moves_.receiver(broken_[i], far);
      const int rail = rail_of(flow, from, to);
      const double known = std::max(known_[rail], flow.ended);
      float& delay = delays.of[from];
      double& busy = busy_[i][in][rail];
      busy = std::max(busy, flow.began + static_cast<double>(delay)) +
             seconds / rate_of(broken_[i], in, rail);
      const double stretch = port_stretch(flow, seconds, from, to);
      const double longer = std::max(0.0, static_cast<double>(flow.network) * stretch - lasted);
      // Not before what the ports have sent in the meantime, which may have had gaps before.
      delay = std::max(delay + static_cast<float>(longer), static_cast<float>(busy - known));
    }
}

void FlowDelays::enter(const JobRecord& flow, double seconds) {
  sent_[by_rank() ? traffic_.rail_owner(flow.index) % rails() : 0] += seconds;
  if (counts_) counts_->count(flow, 1);
}

void FlowDelays::measure(const JobRecord& flow, double seconds, HostDelays& delays) {
  counts_->measure(flow, seconds, delays);
}

void FlowDelays::leave(const JobRecord& flow) {
  if (counts_) counts_->count(flow, -1);
}

bool FlowDelays::cut(const JobRecord& flow) const {
  const CostMessage& price = traffic_.prices[traffic_.messages[flow.index].price];
  return spread_of(price, network_.shape().use, rails()).pieces;
}

// ---- what others do

Delay FlowDelays::catch_up(const JobRecord& flow, double seconds, const Delay& delay) {
  constexpr float kFew = 1.5F;
  const int far = traffic_.far_hosts[flow.index];
  const bool one_rail = by_rank() || !cut(flow);
  const auto alone = static_cast<float>(seconds * (one_rail ? rails() : 1));
  const float sharing = flow.network / alone;
  const auto lasted = static_cast<float>(flow.ended - flow.began);
  const float least = std::max({alone, flow.thread, flow.receiver});
  if (delay.gone(flow.began) || sharing < kFew || least * kFew > lasted) return delay;
  auto delays = changeable(delay, flow.began, out_.size());
  moves_.to_senders(in_, far, moved_);
  for (size_t h = 0; h < out_.size(); ++h) {
    const float own = delays->of[h], others = std::max(out_[h], moved_[h]);
    out_[h] += (own - out_[h]) / sharing;
    moved_[h] += (own - moved_[h]) / sharing;
    delays->of[h] -= std::clamp(own - others, 0.0F, lasted) * (1 - least / lasted);
  }
  moves_.to_receivers(moved_, far, in_);
  return seal(std::move(delays), flow.began);
}

Delay FlowDelays::add_latency(int far, double seconds, const Delay& delay, double now) const {
  const int leaf = network_.shape().leaf;
  if (seconds <= 0 || far == 0 || leaf == 0) return delay;
  auto delays = changeable(delay, now, static_cast<size_t>(network_.hosts()));
  for (int h = 0; h < network_.hosts(); ++h)
    if (h / leaf != moves_.receiver(h, far) / leaf) delays->of[h] += static_cast<float>(seconds);
  return seal(std::move(delays), now);
}

// ---- the links

std::vector<LinkUse> FlowDelays::busiest() const {
  std::vector<LinkUse> links;
  const int ports = 2 * network_.hosts() * rails();
  for (int32_t link = 0; link < (counts_ ? network_.links() : ports); ++link) {
    const double rate = network_.rate(link);
    if (rate <= 0) continue;
    const int host = link / rails() / 2;
    const bool in = link / rails() % 2 == 1;
    double busy = 0;
    if (counts_ && (link >= ports || others_carry_))
      busy = counts_->busy(link);
    else
      busy = by_rank() ? sent_[link % rails()] / rate : sent_[0] / rate_of(host, in, 0);
    if (busy > 0) links.push_back({link, busy});
  }
  const auto more = [](const LinkUse& a, const LinkUse& b) {
    return a.busy != b.busy ? a.busy > b.busy : a.link < b.link;
  };
  const size_t count = std::min(links.size(), kBusiestLinks);
  std::partial_sort(links.begin(), links.begin() + static_cast<ptrdiff_t>(count), links.end(),
                    more);
  links.resize(count);
  return links;
}

}  // namespace ringwood
