#include "collectives/tuner/machine/probe_results.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <set>

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
  // Those that were measured apart; a file of the topology may know of more.
  const size_t rails = results.rails.size() + 1;
  std::vector<std::vector<double>> parts;  // of the mean rail
  for (size_t rail = 0; rail < rails; ++rail) {
    parts.push_back(
        parts_of(rail == 0 ? results.alone : near_of(results, rail), far_of(results, rail), order));
    const double rate = median_rate(near_of(results, rail)) / net.both_ways;
    for (double& part : parts.back())
      if (rails > 1) part = std::min(1.0, part * rate * static_cast<double>(rails) / net.nic);
  }
  for (size_t h = 0; h < order.size(); ++h)
    for (size_t rail = 0; rail < rails; ++rail)
      if (const double part = parts[rail][h];
          part < kException && net.exceptions.size() < kMaxExceptions)
        net.exceptions.push_back({static_cast<int>(h), std::max(part, 1e-6), plain_name(names[h]),
                                  rails > 1 ? static_cast<int>(rail) : -1});
}

// In an operation a message takes so many times what it takes in the probe, with the plan, the
// other links, and the thread that called: of 1,000 operations of 8 bytes on 8 hosts that shared 2
// cores each end took 13.5 to 14.5 us of a core, against 8 to 9 us in the probe.
constexpr double kOfOperation = 1.6;

// Over sockets a core that does not sleep takes what calibrate.h has measured on loopback.
bool posts_are_measured(const MachineModel& machine, bool sleeps) {
  return sleeps || machine.net.sharing > 1 || machine.net.carrier == PathClass::rdma;
}

double posts_of_a_ping(const MachineModel& machine, bool sleeps) {
  return 2 * machine.net.post / (posts_are_measured(machine, sleeps) ? kOfOperation : 1);
}

// Messages that follow each other without a pause, against those for which a rank is woken up. Over
// sockets `awake` is what calibrate.h has measured, over RDMA the links' own stream.
double part_behind(const ProbeResults& results, PathClass carrier, double awake, double asleep) {
  if (carrier == PathClass::rdma) {
    std::vector<double> streamed;
    for (const ProbeReport& r : results.busy) streamed.push_back(r.streamed);
    awake = median_of(std::move(streamed));
  }
  return awake > 0 ? std::min(1.0, awake / asleep) : 1;
}

// The part of a message's time that a core needs.
void use_cores(MachineModel& machine, const ProbeResults& results, bool sleeps) {
  const bool waits_asleep = sleeps || machine.net.sharing > 1;
  std::vector<double> posts, bytes;
  for (const ProbeReport& r : results.busy) {
    posts.push_back(waits_asleep ? r.post : r.streamed);
    bytes.push_back(r.byte);
  }
  const double post = median_of(std::move(posts)), byte = median_of(std::move(bytes));
  if (post > 0 && waits_asleep)
    machine.net.behind = part_behind(results, machine.net.carrier, machine.net.post, post);
  if (post > 0 && posts_are_measured(machine, sleeps)) machine.net.post = kOfOperation * post;
  if (byte > 0) machine.net.copied = std::max(1.0, 1 / byte);
  // Its waits were asleep, and over RDMA are not in operations, which so do not take the time of an
  // event for each piece. No end takes longer for a byte than the fastest transfer took.
  if (machine.net.carrier == PathClass::rdma && !waits_asleep)
    machine.net.copied = std::max(machine.net.copied, median_rate(results.alone));
}

// Most hosts' ports pass something at once, or none is said to.
void use_bursts(NetworkParameters& net, const ProbeResults& results) {
  std::vector<double> bursts;
  for (const ProbeReport& r : results.alone) bursts.push_back(r.rate > 0 ? r.burst : 0);
  const size_t with = bursts.size() - static_cast<size_t>(std::ranges::count(bursts, 0));
  net.burst = 2 * with > bursts.size() ? median_of(std::move(bursts)) : 0;
}

// Of two directions of the measured path the faster one: a transfer too long costs time, one too
// short its accuracy. Of a path not measured yet, what the slower of both hosts can do, if known.
double expected(ProbeStage stage, const ProbeReport& one, const ProbeReport& other) {
  const double faster = std::max(one.rate, other.rate), slower = std::min(one.rate, other.rate);
  return stage == ProbeStage::far && slower > 0 ? slower : faster;
}

}  // namespace

int hosts_sharing(const std::vector<std::string>& cores) {
  const std::set<std::string> sets(cores.begin(), cores.end());
  if (sets.empty()) return 1;
  return static_cast<int>((cores.size() + sets.size() / 2) / sets.size());
}

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
      step.rate = expected(stage, alone[order[i]], alone[order[other]]);
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

double ping_of(const MachineModel& machine, bool sleeps) {
  return machine.net.latency + posts_of_a_ping(machine, sleeps);
}

void use_results(MachineModel& machine, const ProbeResults& results,
                 const std::vector<std::string>& names, bool sleeps) {
  const std::vector<int> order = by_leaf(names.size(), machine.net.leaves);
  NetworkParameters& net = machine.net;
  use_cores(machine, results, sleeps);
  use_bursts(net, results);
  // Half of a round trip contains the posts of one message at both ends.
  const double posts = posts_of_a_ping(machine, sleeps);
  const auto latency = [&](const std::vector<ProbeReport>& reports) {
    return std::max(median_latency(reports) - posts, 0.0);
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
                      far.latency + posts <= kSameLatency * (net.latency + posts);
    if (!same) net.far = far;
  }
  find_exceptions(net, results, order, names);
}

}  // namespace ringwood
