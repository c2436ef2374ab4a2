#include "collectives/plan/fingerprint.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/kernels/wire.h"
#include "collectives/plan/plan.h"
#include "collectives/plan/proved_schedules.h"
#include "transports/base/hash.h"

namespace ringwood {
namespace {

uint64_t expected_of(const Fingerprint& f) {
  return static_cast<uint64_t>(f.blocks) << 32 | static_cast<uint32_t>(f.root);
}

// Both ends of a pair agree except on its sizes. `mine` is what `theirs` should be.
std::optional<std::string> compare_pair(const Fingerprint& mine, int me, const Fingerprint& theirs,
                                        int peer) {
  const auto c = static_cast<Collective>(mine.collective);
  const auto differ = [](int from, uint64_t sent, int to, uint64_t expected) {
    return fmt::format("rank {} sends rank {} {} elements while rank {} expects {}", from, to, sent,
                       to, expected);
  };
  std::string text;
  if (theirs.count != mine.count) {
    const bool sends = has_root(c) && (traits_of(c).to == Who::root) == (peer == mine.root);
    text = sends ? differ(me, mine.count, peer, theirs.count)
                 : differ(peer, theirs.count, me, mine.count);
  }
  if (!has_root(c) && expected_of(theirs) != expected_of(mine))
    text +=
        (text.empty() ? "" : " and ") + differ(me, expected_of(mine), peer, expected_of(theirs));
  if (text.empty()) return std::nullopt;
  return fmt::format("in {} {} (#{}) {}", to_string(c), to_string(static_cast<DataType>(mine.type)),
                     mine.sequence, text);
}

constexpr int kUserRow = 254, kUnknownRow = 255;

int row_of(Collective collective, const std::string& algorithm) {
  if (algorithm == kUserSchedules) return kUserRow;
  int index = 0;
  for (const AlgorithmRow& row : algorithm_table()) {
    if (row.collective != collective) continue;
    if (algorithm == row.name) return index;
    ++index;
  }
  return kUnknownRow;
}

}  // namespace

std::string algorithm_of(const Fingerprint& fingerprint) {
  int index = fingerprint.algorithm;
  if (index == kUserRow) return "the user's schedules";
  for (const AlgorithmRow& row : algorithm_table())
    if (row.collective == static_cast<Collective>(fingerprint.collective) && index-- == 0)
      return row.name;
  return "unknown";
}

uint32_t hash_counts(const std::vector<size_t>& counts) {
  return fnv1a({reinterpret_cast<const char*>(counts.data()), counts.size() * sizeof(size_t)});
}

Fingerprint fingerprint_of(const CollectiveArgs& args, const std::string& algorithm, int segments,
                           uint64_t sequence) {
  Fingerprint f;
  f.sequence = sequence;
  f.count = args.count;
  const bool same =
      std::ranges::adjacent_find(args.blocks, std::not_equal_to{}) == args.blocks.end();
  if (has_sizes_of_pairs(args.collective))
    f.even = args.blocks.empty()                  ? Fingerprint::kOneSize
             : !has_root(args.collective) && same ? Fingerprint::kSameSizes
                                                  : Fingerprint::kAnySizes;
  else if (!args.blocks.empty())
    f.blocks = hash_counts(args.blocks);
  f.root = has_root(args.collective) ? args.root : 0;
  f.collective = static_cast<uint8_t>(args.collective);
  f.type = static_cast<uint8_t>(args.type);
  const bool of_factors = args.op == ReduceOp::premul_sum;  // gathered before their sum
  f.op = reduces(args.collective) || of_factors ? static_cast<uint8_t>(args.op) : 0;
  f.algorithm = static_cast<uint8_t>(row_of(args.collective, algorithm));
  f.segments = static_cast<uint16_t>(segments);
  return f;
}

void set_pair(Fingerprint& f, uint64_t sent, uint64_t expected) {
  f.count = sent;
  if (has_root(static_cast<Collective>(f.collective))) {
    f.count += expected;  // one of them is 0
    return;
  }
  f.blocks = static_cast<uint32_t>(expected >> 32);
  f.root = static_cast<int32_t>(expected);
}

std::string describe(const Fingerprint& f) {
  if (f.collective >= kCollectives || f.type >= kDataTypes || f.op >= kReduceOps)
    return "something unreadable";
  const auto collective = static_cast<Collective>(f.collective);
  std::string text = to_string(collective);
  const bool by_pairs =
      has_root(collective) && has_sizes_of_pairs(collective) && f.even == f.kAnySizes;
  if (by_pairs)
    text += fmt::format(" {}, blocks of any sizes", to_string(static_cast<DataType>(f.type)));
  else if (moves_data(collective))
    text += fmt::format(" {} x {}", to_string(static_cast<DataType>(f.type)), f.count);
  const auto op = static_cast<ReduceOp>(f.op);
  if (reduces(collective)) text += fmt::format(", {}", to_string(op));
  if (!reduces(collective) && op == ReduceOp::premul_sum) text += ", of premul_sum's factors";
  if (has_root(collective)) text += fmt::format(", root {}", f.root);
  if (f.even == f.kPacked) text += ", packed";
  if (f.priority != 0) text += ", high priority";
  if (f.memory != 0) text += ", in memory of a device";
  return text + fmt::format(" (#{})", f.sequence);
}

std::optional<std::string> compare(const Fingerprint& mine, int me, const Fingerprint& theirs,
                                   int peer) {
  if (mine == theirs) return std::nullopt;
  const auto collective = static_cast<Collective>(mine.collective);
  const bool pair = has_sizes_of_pairs(collective) && mine.collective == theirs.collective &&
                    mine.type == theirs.type && mine.sequence == theirs.sequence &&
                    (!has_root(collective) || mine.root == theirs.root);
  const bool one_size = mine.even == Fingerprint::kOneSize;
  if (pair && one_size != (theirs.even == Fingerprint::kOneSize))
    return fmt::format(
        "rank {} called {} (#{}) for blocks of one size while rank {} called it for blocks of any",
        one_size ? me : peer, to_string(collective), mine.sequence, one_size ? peer : me);
  if (pair && !one_size)
    if (auto difference = compare_pair(mine, me, theirs, peer)) return difference;
  const std::string a = describe(mine), b = describe(theirs);
  if (mine.epoch != theirs.epoch && a == b)
    return fmt::format(
        "rank {} plans {} by the parameters of epoch {} while rank {} plans it by those of epoch "
        "{}: one of them has missed a change",
        me, a, mine.epoch, peer, theirs.epoch);
  if (a != b) return fmt::format("rank {} called {} while rank {} called {}", me, a, peer, b);
  const bool own = mine.algorithm == kUserRow, theirs_own = theirs.algorithm == kUserRow;
  if (mine.blocks != theirs.blocks && own == theirs_own)
    return fmt::format("rank {} and rank {} called {} with different {}", me, peer, a,
                       own ? "schedules" : "block sizes");
  if (mine.wire != theirs.wire)
    return fmt::format(
        "rank {} sends {} as {} while rank {} sends it as {}: set RINGWOOD_TOLERANCE and the "
        "call's tolerance alike on all ranks",
        me, a, to_string(static_cast<WireFormat>(mine.wire)), peer,
        to_string(static_cast<WireFormat>(theirs.wire)));
  return fmt::format(
      "rank {} runs {} as {} with {} segments while rank {} runs it as {} with {}: set "
      "RINGWOOD_ALGORITHM, "
      "RINGWOOD_SEGMENT_BYTES and the call's options alike on all ranks",
      me, a, algorithm_of(mine), mine.segments, peer, algorithm_of(theirs), theirs.segments);
}

Status check_fingerprint(const Fingerprint& mine, int me, const Fingerprint& theirs, int peer) {
  auto difference = compare(mine, me, theirs, peer);
  if (!difference) return {};
  Error error(ErrorCode::mismatch, *difference);
  error.peer = peer;
  return error;
}

}  // namespace ringwood
