#include "collectives/machine/probe_results.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

namespace ringwood {
namespace {

// Below this difference a far path is the same as a near one.
constexpr double kSameRate = 0.9, kSameLatency = 1.5;

// The hosts in the order in which neighbours are near each other.
std::vector<int> by_leaf(size_t hosts, const std::vector<int>& leaves) {
  std::vector<int> order(hosts);
  std::iota(order.begin(), order.end(), 0);
  if (leaves.size() == hosts)
    std::ranges::stable_sort(order, {}, [&](int host) { return leaves[host]; });
  return order;
}

// Both paths out of a host, or both paths into it, are as slow as it is. Where only one path out
// was measured, the host that sends is taken, unless the other one is known to receive slowly.
std::vector<double> parts_of(const std::vector<ProbeReport>& near,
                             const std::vector<ProbeReport>& far, const std::vector<int>& order) {
  const size_t n = order.size(), half = n / 2;
  const double near_median = median_rate(near), far_median = median_rate(far);
  // 0: not measured.
  const auto part = [&](const std::vector<ProbeReport>& of, size_t at, double median) {
    const double rate = at < n && !of.empty() ? of[order[at]].rate : 0;
    return rate > 0 ? rate / median : 0;
  };
  std::vector<double> into(n, 1), parts(n, 1);
  for (size_t i = 0; i < n; ++i) {
    const double near_in = part(near, i ^ 1, near_median);
    const double far_in = part(far, (i + n - half) % n, far_median);
    if (near_in > 0 && far_in > 0) into[i] = std::min(1.0, std::max(near_in, far_in));
  }
  for (size_t i = 0; i < n; ++i) {
    const double near_out = part(near, i, near_median), far_out = part(far, i, far_median);
    double out = std::max(near_out, far_out);
    const bool other = near_out == 0 && into[(i + half) % n] < kException;
    if (out == 0 || other) out = 1;
    parts[order[i]] = std::min(into[i], out);
  }
  return parts;
}

double times(double both, double one) { return std::clamp(both / one, 1e-3, 1.0); }

// Of a host's rails the first has the number 0.
const std::vector<ProbeReport>& near_of(const ProbeResults& results, size_t rail) {
  return rail == 0 ? results.near : results.rails[rail - 1].near;
}
const std::vector<ProbeReport>& far_of(const ProbeResults& results, size_t rail) {
  return rail == 0 ? results.far : results.rails[rail - 1].far;
}

void find_exceptions(NetworkParameters& net, const ProbeResults& results,
                     const std::vector<int>& order, const std::vector<std::string>& names) {
  const auto rails = static_cast<size_t>(net.rails);
  std::vector<std::vector<double>> parts;  // of the mean rail
  for (size_t rail = 0; rail < rails; ++rail) {
    parts.push_back(
        parts_of(rail == 0 ? results.alone : near_of(results, rail), far_of(results, rail), order));
    const double rate = median_rate(near_of(results, rail)) / net.both_ways;
    for (double& part : parts.back())
      if (rails > 1) part = std::min(1.0, part * rate * net.rails / net.nic);
  }
  for (size_t h = 0; h < order.size(); ++h)
    for (size_t rail = 0; rail < rails; ++rail)
      if (const double part = parts[rail][h];
          part < kException && net.exceptions.size() < kMaxExceptions)
        net.exceptions.push_back({static_cast<int>(h), std::max(part, 1e-6), plain_name(names[h]),
                                  rails > 1 ? static_cast<int>(rail) : -1});
}

}  // namespace

std::string plain_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') c = '-';
  return name.substr(0, 64);
}

std::vector<ProbeStep> probe_steps(ProbeStage stage, const std::vector<int>& leaders,
                                   const std::vector<int>& leaves,
                                   const std::vector<ProbeReport>& alone) {
  const size_t n = leaders.size(), half = n / 2;
  const std::vector<int> order = by_leaf(n, leaves);
  std::vector<ProbeStep> steps(n);
  for (size_t i = 0; i < n; ++i) {
    ProbeStep& step = steps[order[i]];
    step.stage = stage;
    const size_t other = stage == ProbeStage::far ? (i + half) % n : i ^ 1;
    if (!alone.empty() && other < n)
      step.rate = std::max(alone[order[i]].rate, alone[order[other]].rate);
    const auto rank = [&](size_t at) { return at < n ? leaders[order[at]] : -1; };
    if (stage == ProbeStage::far) {
      step.to = rank((i + half) % n);
      step.from = rank((i + n - half) % n);
      step.first = i < half;
      // With an odd number the last one has no partner.
      step.pings = i < half ? rank(i + half) : i < 2 * half ? rank(i - half) : -1;
      continue;
    }
    step.first = i % 2 == 0;
    if (stage == ProbeStage::ping)
      step.pings = rank(i ^ 1);
    else
      step.to = step.from = rank(i ^ 1);
  }
  return steps;
}

double median_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !(value > 0); });
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double median_latency(const std::vector<ProbeReport>& reports) {
  std::vector<double> values;
  for (const ProbeReport& r : reports) values.push_back(r.latency);
  return median_of(std::move(values));
}

double median_rate(const std::vector<ProbeReport>& reports) {
  std::vector<double> values;
  for (const ProbeReport& r : reports) values.push_back(r.rate);
  return median_of(std::move(values));
}

double possible_rate(double rate, const MachineModel& machine) {
  const double most = std::max(2 * machine.memory, machine.copy.l2);
  return std::isfinite(rate) && rate > 0 && rate <= most ? rate : 0;
}

void use_results(MachineModel& machine, const ProbeResults& results,
                 const std::vector<std::string>& names) {
  const std::vector<int> order = by_leaf(names.size(), machine.net.leaves);
  NetworkParameters& net = machine.net;
  // Half of a round trip contains the posts of one message at both ends.
  const auto latency = [&](const std::vector<ProbeReport>& reports) {
    return std::max(median_latency(reports) - 2 * net.post, 0.0);
  };
  net.latency = latency(results.ping);
  net.far.reset();
  net.exceptions.clear();
  if (median_rate(results.alone) <= 0) return;
  const double alone = std::max(1.0, median_rate(results.alone));
  net.both_ways = times(median_rate(results.near), alone);
  net.rail_of_rank = !results.rails.empty();
  if (net.rail_of_rank) net.rails = static_cast<int>(results.rails.size()) + 1;
  double all_far = median_rate(results.far);
  net.nic = alone;
  for (const ProbeResults::Rail& rail : results.rails) {
    net.nic += std::max(1.0, median_rate(rail.near) / net.both_ways);
    all_far += median_rate(rail.far);
  }
  // Up to three hosts all are neighbours, and the far stage measured near paths again.
  if (results.far.size() > 3) {
    const double rate = all_far / net.both_ways;
    const PathParameters far{latency(results.far), std::clamp(rate, 1.0, net.nic), net.both_ways};
    const bool same = far.rate >= kSameRate * net.nic &&
                      far.latency + 2 * net.post <= kSameLatency * (net.latency + 2 * net.post);
    if (!same) net.far = far;
  }
  find_exceptions(net, results, order, names);
}

}  // namespace ringwood
