#include "tools/trace/lateness.h"

#include <algorithm>

#include "tools/trace/quantiles.h"

namespace ringwood::tools {
namespace {

double waited(const TracedPart& part) {
  return (part.agreed != kUnknown ? part.agreed : part.ended) - part.waiting;
}

bool has_waited_for_one(const TracedPart& part) {
  return part.waited_for >= 0 && part.waiting != kUnknown;
}

}  // namespace

bool is_comparable(const TracedGroup& group, int rank) {
  const auto found = group.ranks.find(rank);
  return found != group.ranks.end() && found->second.aligned;
}

double Lateness::middle() const {
  std::vector<double> calls;
  for (const auto& [rank, part] : operation_.parts)
    if (is_whole(part) && is_comparable(group_, rank)) calls.push_back(part.entered);
  return calls.size() < 2 ? kUnknown : middle_of(calls);
}

std::vector<LateRank> Lateness::late() const {
  const double middle = this->middle();
  std::vector<LateRank> all = middle == kUnknown ? by_waits() : by_calls(middle);
  if (middle != kUnknown && all.empty()) all = without_file();
  std::ranges::sort(all, std::greater(), &LateRank::seconds);
  return all;
}

std::vector<LateRank> Lateness::by_calls(double middle) const {
  std::map<int, double> gaps;  // since the end of the operation before
  std::vector<double> known;
  for (const auto& [rank, part] : operation_.parts) {
    if (!before_ || !is_whole(part)) continue;
    const auto last = before_->parts.find(rank);
    if (last == before_->parts.end()) continue;
    known.push_back(gaps[rank] = part.entered - last->second.ended);
  }
  const bool comparable = known.size() == operation_.parts.size();
  const double usual = comparable ? middle_of(known) : 0;
  std::vector<LateRank> all;
  for (const auto& [rank, part] : operation_.parts) {
    if (!is_whole(part) || !is_comparable(group_, rank)) continue;
    double seconds = part.entered - middle;
    if (comparable) seconds = std::min(seconds, gaps[rank] - usual);
    if (seconds > threshold(rank)) all.push_back({rank, seconds});
  }
  return all;
}

// A rank that is waited for and has waited itself is not the last: of those named, the one that
// began to wait last, or did not wait at all.
std::vector<LateRank> Lateness::by_waits() const {
  std::map<int, double> named;  // the longest wait for each
  for (const auto& [rank, part] : operation_.parts)
    if (has_waited_for_one(part)) {
      double& most = named[part.waited_for];
      most = std::max(most, waited(part));
    }
  std::vector<LateRank> all;
  for (const auto& [rank, seconds] : named) {
    const auto own = operation_.parts.find(rank);
    const bool has_waited = own != operation_.parts.end() && own->second.waiting != kUnknown;
    if (!has_waited && seconds > threshold(rank)) all.push_back({rank, seconds});
  }
  return all;
}

// A rank that has left no file is late where all others waited for it: then none of them was, and
// the last of them waited as long as it was late.
std::vector<LateRank> Lateness::without_file() const {
  int named = -1;
  double least = 0;
  for (const auto& [rank, part] : operation_.parts) {
    if (!has_waited_for_one(part) || group_.ranks.contains(part.waited_for)) return {};
    if (named >= 0 && named != part.waited_for) return {};
    least = named < 0 ? waited(part) : std::min(least, waited(part));
    named = part.waited_for;
  }
  if (named < 0 || least <= threshold(named)) return {};
  return {{named, least}};
}

double Lateness::threshold(int rank) const {
  const auto traced = group_.ranks.find(rank);
  const double uncertain = traced == group_.ranks.end() ? 0 : traced->second.uncertainty;
  return std::max({kNotable, 2 * uncertain, kNotableShare * operation_.predicted});
}

}  // namespace ringwood::tools
