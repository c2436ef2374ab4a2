// The words of blame.h.
#include <algorithm>

#include <fmt/format.h>

#include "tools/trace/blame.h"

namespace ringwood::tools {
namespace {

constexpr size_t kMaxNamed = 3;

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string host_text(const TracedGroup& group, int rank) {
  const auto found = group.ranks.find(rank);
  return found == group.ranks.end() ? "" : fmt::format(" ({})", found->second.host);
}

std::string way_text(const std::string& way) { return way.empty() ? "" : ", " + way; }

}  // namespace

std::string RunBlame::verdict() const {
  constexpr int kFew = 4;
  double late = 0, slow = 0;  // of the worst of each
  for (const RankBlame& one : ranks)
    if (one.operations > kOnce || judged < kFew) late = std::max(late, one.steady);
  for (const LinkBlame& one : links) slow = std::max(slow, one.steady);
  if (late == 0 && slow == 0) return "nothing";
  return late > slow ? "late rank" : "slow link";
}

std::string sentence_of(const Blame& blame) {
  std::string text =
      fmt::format("{}, sequence {}: {}", blame.name, blame.sequence, time_text(blame.measured));
  if (blame.predicted > 0) text += fmt::format(", predicted {}", time_text(blame.predicted));
  std::string why;
  for (size_t i = 0; i < std::min(blame.slow.size(), kMaxNamed); ++i) {
    const SlowMessage& m = blame.slow[i];
    why += fmt::format("{}rank {} to {}{}, step {}: +{}", why.empty() ? "" : "; ", m.measured.from,
                       m.measured.to, way_text(m.way), m.measured.send_step, time_text(m.excess()));
  }
  for (size_t i = 0; i < std::min(blame.late.size(), kMaxNamed); ++i)
    why += fmt::format("{}rank {} entered {} late", why.empty() ? "" : "; ", blame.late[i].rank,
                       time_text(blame.late[i].seconds));
  return text + (why.empty() ? "" : ": " + why);
}

std::string summary_of(const TracedGroup& group, const RunBlame& run) {
  std::string text;
  for (size_t i = 0; i < std::min(run.ranks.size(), kMaxNamed); ++i) {
    const RankBlame& one = run.ranks[i];
    text +=
        fmt::format("late rank  rank {}{}: in {} of {} operations, {} in the middle, {} in all\n",
                    one.rank, host_text(group, one.rank), one.operations, run.judged,
                    time_text(one.middle), time_text(one.blamed));
  }
  if (run.ranks.empty()) text += "late rank  none\n";
  for (size_t i = 0; i < std::min(run.links.size(), kMaxNamed); ++i) {
    const LinkBlame& one = run.links[i];
    text += fmt::format(
        "slow link  rank {}{} to {}{}{}: {:.1f} times as long as predicted, {:.3g} GB/s; {} on "
        "critical paths\n",
        one.from, host_text(group, one.from), one.to, host_text(group, one.to), way_text(one.way),
        one.ratio, one.measured > 0 ? one.bytes / one.measured * 1e-9 : 0, time_text(one.blamed));
  }
  if (run.links.empty()) text += "slow link  none\n";
  if (run.usual_ratio >= 1.25)
    text += fmt::format("all links  messages take {:.1f} times as long as predicted\n",
                        run.usual_ratio);
  return text;
}

}  // namespace ringwood::tools
