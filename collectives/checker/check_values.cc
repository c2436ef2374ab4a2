// The checker's last part: what the plans compute, in several orders.
#include <fmt/format.h>

#include "collectives/checker/expectation.h"
#include "collectives/checker/replay.h"

namespace ringwood {
namespace {

PlanFlaw compare(const PlanSet& set, const Expectation& expected,
                 const std::vector<ReplayMemory>& found, const Symbols& symbols) {
  for (int r = 0; r < set.n(); ++r)
    for (int b = 0; b < user_buffers(set); ++b) {
      const auto rank = static_cast<size_t>(r);
      const size_t bytes = user_bytes(set, r, b);
      const SymbolRun right = expected.memory[rank][static_cast<size_t>(b)].read(0, bytes);
      const SymbolRun end = found[rank].user(b).read(0, bytes);
      if (right == end) continue;
      size_t at = 0;
      PlanFlaw flaw;
      combined(right, end, [&](Symbol x, Symbol y) {
        if (x != y && !flaw)
          flaw = fmt::format("rank {}'s buffer {} ends with {}, not with {}", r, b,
                             symbols.print(y), symbols.print(x));
        ++at;
        return x;
      });
      return flaw;
    }
  return std::nullopt;
}

std::vector<ReplayOrder> orders(uint64_t seed) {
  return {{.late = true, .fuses = true, .random = 0},
          {.late = false, .fuses = false, .random = 0},
          {.late = true, .fuses = seed % 2 == 0, .random = seed}};
}

}  // namespace

PlanFlaw check_values(const PlanSet& set) {
  Symbols symbols;
  const Expectation expected = expect(set, symbols);
  if (expected.flaw) return expected.flaw;
  for (const ReplayOrder& order : orders(set.facts.seed)) {
    std::vector<ReplayMemory> memory;
    for (int r = 0; r < set.n(); ++r) memory.emplace_back(set, r, symbols);
    const auto replay = in_one_round(set.of(0)) ? replay_one_round : replay_queued;
    if (PlanFlaw flaw = replay(set, order, symbols, memory)) return flaw;
    if (PlanFlaw flaw = compare(set, expected, memory, symbols)) return flaw;
  }
  return std::nullopt;
}

}  // namespace ringwood
