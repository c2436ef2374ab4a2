#include "tools/simulation/delays.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ringwood {
namespace {

// Less is a rounding error.
constexpr float kNothing = 1e-12F;

float since(const Delay& delay, double at) { return static_cast<float>(at - delay.at); }

// The largest of all; in a form that compilers make vectors of.
float most_of(const std::vector<float>& values) {
  constexpr size_t kWidth = 16;
  std::array<float, kWidth> most{};
  const size_t whole = values.size() / kWidth * kWidth;
  for (size_t i = 0; i < whole; i += kWidth)
    for (size_t k = 0; k < kWidth; ++k) most[k] = std::max(most[k], values[i + k]);
  for (size_t i = whole; i < values.size(); ++i) most[0] = std::max(most[0], values[i]);
  return *std::max_element(most.begin(), most.end());
}

}  // namespace

bool Delay::gone(double time) const {
  return !by_host || by_host->most - since(*this, time) <= kNothing;
}

Delay later(const Delay& a, const Delay& b, double at) {
  const bool has_a = !a.gone(at), has_b = !b.gone(at);
  if (!has_b) return has_a ? a : Delay{};
  if (!has_a || (a.by_host == b.by_host && a.at <= b.at)) return b;
  if (a.by_host == b.by_host) return a;
  const size_t hosts = a.by_host->of.size();
  auto both = std::make_shared<HostDelays>(hosts);
  const float less_a = since(a, at), less_b = since(b, at);
  const float *x = a.by_host->of.data(), *y = b.by_host->of.data();
  float* const of = both->of.data();
  for (size_t h = 0; h < hosts; ++h) of[h] = std::max(0.0F, std::max(x[h] - less_a, y[h] - less_b));
  return seal(std::move(both), at);
}

std::shared_ptr<HostDelays> changeable(const Delay& delay, double at, size_t hosts) {
  auto copy = std::make_shared<HostDelays>(hosts);
  if (delay.gone(at)) return copy;
  const float less = since(delay, at);
  const float* const x = delay.by_host->of.data();
  float* const of = copy->of.data();
  for (size_t h = 0; h < hosts; ++h) of[h] = std::max(0.0F, x[h] - less);
  return copy;
}

Delay seal(std::shared_ptr<HostDelays> delays, double at) {
  delays->most = most_of(delays->of);
  if (delays->most <= kNothing) return {};
  return {at, std::move(delays)};
}

void HostMoves::to_receivers(const std::vector<float>& from, int far,
                             std::vector<float>& to) const {
  if (rotates_) {
    std::rotate_copy(from.begin(), from.end() - far, from.end(), to.begin());
  } else {
    for (size_t h = 0; h < from.size(); ++h) to[receiver(static_cast<int>(h), far)] = from[h];
  }
}

Delay HostMoves::to_receivers(const Delay& delay, int far) const {
  if (!delay.by_host || far == 0) return delay;
  auto moved = std::make_shared<HostDelays>(delay.by_host->of.size());
  to_receivers(delay.by_host->of, far, moved->of);
  moved->most = delay.by_host->most;
  return {delay.at, std::move(moved)};
}

Delay HostMoves::to_senders(const Delay& delay, int far) const {
  return to_receivers(delay, symmetry_.relation(far, 0));
}

}  // namespace ringwood
