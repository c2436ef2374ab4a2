#include "collectives/tuner/cost/link_queues.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace ringwood {
namespace {

// Ends that differ by less than this, relative to the time since the beginning, are one event, so
// that rounding errors do not disturb the symmetry of a schedule.
constexpr double kSameTime = 1e-9;

}  // namespace

double LinkQueues::Link::speed() const {
  return rate / static_cast<double>(std::max<size_t>(jobs.size(), static_cast<size_t>(width)));
}

int32_t LinkQueues::add_link(double rate, int width) {
  Link link;
  link.rate = rate;
  link.width = width;
  links_.push_back(std::move(link));
  return static_cast<int32_t>(links_.size()) - 1;
}

void LinkQueues::advance(Link& link, double now) {
  // Small numbers are exact ones, so an idle link begins anew.
  link.had = link.jobs.empty() ? 0 : link.had + std::max(0.0, now - link.since) * link.speed();
  link.since = now;
}

void LinkQueues::enter(int32_t index, double now, double amount, int32_t job) {
  Link& link = links_[index];
  advance(link, now);
  link.amount += amount;
  link.jobs.push_back({link.had + amount, job, entered_++});
  std::push_heap(link.jobs.begin(), link.jobs.end(), std::greater<>());
  order(index);
}

double LinkQueues::next() const {
  return order_.empty() ? std::numeric_limits<double>::infinity() : links_[order_[0]].end;
}

void LinkQueues::leave(std::vector<Left>& left) {
  const double now = next(), until = now * (1 + kSameTime);
  const auto first = static_cast<std::ptrdiff_t>(left.size());
  while (!order_.empty() && links_[order_[0]].end <= until) {
    const int32_t index = order_[0];
    Link& link = links_[index];
    const double speed = link.speed();
    advance(link, now);
    link.had = std::max(link.had, link.jobs.front().until);
    const double enough = link.had + (until - now) * speed;
    while (!link.jobs.empty() && link.jobs.front().until <= enough) {
      left.push_back({index, link.jobs.front().job, link.jobs.front().order});
      std::pop_heap(link.jobs.begin(), link.jobs.end(), std::greater<>());
      link.jobs.pop_back();
    }
    order(index);
  }
  std::sort(left.begin() + first, left.end(), [](auto& a, auto& b) { return a.order < b.order; });
}

void LinkQueues::order(int32_t index) {
  Link& link = links_[index];
  if (link.jobs.empty()) {
    const auto hole = static_cast<size_t>(link.place);
    link.place = -1;
    const int32_t last = order_.back();
    order_.pop_back();
    if (last == index) return;
    put(hole, last);
    return sift(hole);
  }
  link.end = link.since + (link.jobs.front().until - link.had) / link.speed();
  if (link.place < 0) {
    order_.push_back(index);
    link.place = static_cast<int32_t>(order_.size()) - 1;
  }
  sift(static_cast<size_t>(link.place));
}

bool LinkQueues::before(int32_t a, int32_t b) const {
  return links_[a].end != links_[b].end ? links_[a].end < links_[b].end : a < b;
}

void LinkQueues::put(size_t place, int32_t link) {
  order_[place] = link;
  links_[link].place = static_cast<int32_t>(place);
}

void LinkQueues::sift(size_t place) {
  const int32_t link = order_[place];
  for (; place > 0 && before(link, order_[(place - 1) / 2]); place = (place - 1) / 2)
    put(place, order_[(place - 1) / 2]);
  while (true) {
    size_t child = 2 * place + 1;
    if (child >= order_.size()) break;
    if (child + 1 < order_.size() && before(order_[child + 1], order_[child])) ++child;
    if (!before(order_[child], link)) break;
    put(place, order_[child]);
    place = child;
  }
  put(place, link);
}

}  // namespace ringwood
