#include "collectives/tuner/cost/cost_quotient.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace ringwood {
namespace {

// The digits in which the algorithms of several factors count (mixed_radix.cc): by fours first.
std::vector<int> digits(int n, bool fours) {
  std::vector<int> result;
  for (; fours && n % 4 == 0; n /= 4) result.push_back(4);
  for (; n % 2 == 0; n /= 2) result.push_back(2);
  for (int f = 3; n > 1; f += 2)
    for (; n % f == 0; n /= f) result.push_back(f);
  return result;
}

// Of the digits of all ranks' numbers, those above the k ranks of a host. Empty: a digit spans the
// border and cannot be divided.
std::vector<int> digits_of_hosts(int n, int k) {
  std::vector<int> result;
  int product = 1;
  for (const int f : digits(n, true)) {
    if (product >= k)
      result.push_back(f);
    else if (product * f > k && product * f % k == 0)
      result.push_back(product * f / k);
    else if (product * f > k)
      return {};
    product *= f;
  }
  return result;
}

// Of a message, however many spans it is in, as where it goes round the end of a buffer, or of a
// local step.
int blocks(const std::vector<Step>& steps, size_t begin, size_t end) {
  int count = 0;
  for (size_t i = begin; i < end; ++i) count += std::max(steps[i].src.count, steps[i].dst.count);
  return count;
}

}  // namespace

int HostSymmetry::relation(int from, int to) const {
  int result = 0, stride = 1;
  for (const int f : factors_) {
    result += (to / stride % f - from / stride % f + f) % f * stride;
    stride *= f;
  }
  return result;
}

int HostSymmetry::host_from(int from, int relation) const {
  int result = 0, stride = 1;
  for (const int f : factors_) {
    result += (from / stride % f + relation / stride % f) % f * stride;
    stride *= f;
  }
  return result;
}

double HostSymmetry::far_part(int relation) const {
  constexpr int kEnough = 512;  // of hosts
  NetworkParameters net = {};
  net.leaves = placement_->machine.net.leaves;
  int count = hosts();
  const bool rotates = factors_.size() == 1;
  if (const auto& group = placement_->group_leaves; !group.empty() && rotates) {
    // A neighbour of a sibling's host is one in the group; the others are as far around it.
    const int all = static_cast<int>(group.size());
    const auto around = static_cast<int>(int64_t{relation} * all / count);
    relation = relation == 1 ? 1 : relation == count - 1 ? all - 1 : around;
    net.leaves = group;
    count = all;
  }
  const auto reached = [&](int h) {
    return rotates ? (h + relation) % count : host_from(h, relation);
  };
  const int tried = std::min(count, kEnough);
  int far = 0;
  for (int h = 0; h < tried; ++h) far += !is_near(net, count, h, reached(h));
  return static_cast<double>(far) / tried;
}

bool alike(const Schedule& a, const Schedule& b, const HostSymmetry& symmetry) {
  if (a.chunks != b.chunks || a.scratch.size() != b.scratch.size()) return false;
  const int here = symmetry.host_of(a.rank), there = symmetry.host_of(b.rank);
  size_t i = 0, j = 0;
  while (i < a.steps.size() && j < b.steps.size()) {
    const Step &x = a.steps[i], &y = b.steps[j];
    const size_t end_i = end_of_message(a.steps, i), end_j = end_of_message(b.steps, j);
    if (x.kind != y.kind || blocks(a.steps, i, end_i) != blocks(b.steps, j, end_j)) return false;
    i = end_i;
    j = end_j;
    if (x.peer < 0) continue;
    if (symmetry.index_of(x.peer) != symmetry.index_of(y.peer) ||
        symmetry.relation(here, symmetry.host_of(x.peer)) !=
            symmetry.relation(there, symmetry.host_of(y.peer)))
      return false;
  }
  return i == a.steps.size() && j == b.steps.size();
}

std::vector<HostSymmetry> symmetries_of(const SharedPlacement& placement) {
  const int hosts = placement->hosts.count();
  std::vector<std::vector<int>> all = {{hosts}};
  for (std::vector<int> factors : {digits(hosts, true), digits(hosts, false),
                                   digits_of_hosts(placement->n, placement->ranks_of_a_host)}) {
    const int product = std::accumulate(factors.begin(), factors.end(), 1, std::multiplies<>());
    if (product == hosts && std::find(all.begin(), all.end(), factors) == all.end())
      all.push_back(std::move(factors));
  }
  std::vector<HostSymmetry> result;
  for (std::vector<int>& factors : all) result.emplace_back(placement, std::move(factors));
  return result;
}

std::optional<HostSymmetry> symmetry_of(const SharedPlacement& placement,
                                        const std::vector<Schedule>& first,
                                        const BuildRank& build) {
  std::vector<HostSymmetry> left = symmetries_of(placement);
  const int hosts = placement->hosts.count();
  // The last host first: there what is no rotation wraps around.
  std::vector<int> samples = {hosts - 1};
  for (const int h : {1, hosts / 2})
    if (h < hosts - 1 && std::find(samples.begin(), samples.end(), h) == samples.end())
      samples.push_back(h);
  for (const int h : samples) {
    for (size_t j = 0; j < first.size() && !left.empty(); ++j) {
      const Schedule other = build(placement->hosts.ranks[h][j]);
      std::erase_if(left, [&](const auto& s) { return !alike(first[j], other, s); });
    }
  }
  if (left.empty()) return {};
  return std::move(left.front());
}

}  // namespace ringwood
