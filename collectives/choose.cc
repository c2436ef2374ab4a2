#include "collectives/choose.h"

#include <algorithm>

#include <fmt/format.h>

#include "collectives/algorithms.h"

namespace ringwood {
namespace {

// Up to here one more copy of the whole vector is cheaper than a second exchange.
constexpr size_t kOneShotBytes = 8 << 10;
// From here on every rank being busy all the time outweighs a logarithmic number of rounds.
constexpr size_t kRingBytes = 256 << 10;
constexpr int kMostLanes = 256;

const char* choose_all_reduce(const Question& q) {
  if (q.n <= 2 && q.bytes <= kOneShotBytes) return "one_shot";
  // A single owner adds up all operands of a 16- or 8-bit float in fp32 and rounds once.
  if (accumulates_wide(q.type, q.op)) return "direct";
  if (!q.several_hosts) return q.bytes <= kOneShotBytes && q.n <= 8 ? "one_shot" : "direct";
  if (q.n == 2) return "direct";
  if (q.bytes < kRingBytes) return "halving_doubling";
  return "ring";
}

const char* choose_row(const Question& q) {
  const bool large = q.bytes >= kRingBytes;
  switch (q.collective) {
    case Collective::all_reduce: return choose_all_reduce(q);
    case Collective::reduce: return large && q.n > 2 ? "chain" : "binomial";
    case Collective::broadcast: return large && q.n > 2 ? "chain" : "binomial";
    case Collective::all_gather: return q.several_hosts && q.n > 2 && !q.uneven ? "ring" : "direct";
    case Collective::reduce_scatter:
      return q.several_hosts && q.n > 2 && !q.uneven && !accumulates_wide(q.type, q.op) ? "ring"
                                                                                        : "direct";
    case Collective::gather: return "linear";
    case Collective::scatter: return "linear";
    case Collective::all_to_all: return "pairwise";
    case Collective::barrier: return "dissemination";
  }
  return "";
}

// "all_reduce:ring,broadcast:chain", or one name for every collective that has it.
std::string from_options(const std::string& text, Collective collective) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const size_t colon = item.find(':');
    if (colon == std::string::npos) {
      if (find_algorithm(collective, item)) return item;
    } else if (parse_collective(item.substr(0, colon)) == collective) {
      return item.substr(colon + 1);
    }
    begin = end + 1;
  }
  return "";
}

std::string names(Collective collective, int n) {
  std::string text;
  for (const AlgorithmRow& row : algorithm_table())
    if (row.collective == collective && row.accepts(n))
      text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

// Lanes pipeline a schedule: while one is reduced or forwarded, the next is on its way.
int choose_lanes(const Question& q, const AlgorithmRow& row, const Options& options) {
  if (q.collective == Collective::barrier || q.n == 1) return 1;
  const int chunks =
      required_chunks(q.collective, q.n) ? 1 : std::max(1, row.build({0, q.n, 0}).chunks);
  const size_t message = q.bytes / chunks;
  return std::clamp<int>(
      static_cast<int>(std::min<size_t>(message / options.lane_bytes, kMostLanes)), 1, kMostLanes);
}

}  // namespace

Answer choose(const Question& q, const Options& options, const std::string& algorithm, int lanes) {
  Answer answer;
  answer.algorithm = !algorithm.empty() ? algorithm : from_options(options.algorithm, q.collective);
  if (answer.algorithm.empty()) answer.algorithm = choose_row(q);
  const AlgorithmRow* row = find_algorithm(q.collective, answer.algorithm);
  if (!row || !row->accepts(q.n))
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("no algorithm '{}' for {} with {} ranks; there are: {}", answer.algorithm,
                    to_string(q.collective), q.n, names(q.collective, q.n)));
  answer.lanes = lanes > 0 ? std::min(lanes, kMostLanes) : choose_lanes(q, *row, options);
  return answer;
}

}  // namespace ringwood
