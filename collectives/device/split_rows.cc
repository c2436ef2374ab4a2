#include "collectives/device/split_rows.h"

#include <map>
#include <vector>

namespace ringwood::device {
namespace {

// The first source is what the passes before have left, the destination what the next ones take.
void hand_on(const std::vector<Instruction*>& passes, int row) {
  for (size_t i = 0; i < passes.size(); ++i) {
    if (i > 0) passes[i]->src[0].row = row;
    if (i + 1 < passes.size()) passes[i]->dst[0].row = row;
  }
}

}  // namespace

bool split_rows(Lowered& lowered) {
  bool some = false;
  for (Program& program : lowered.programs) {
    std::map<int, std::vector<Instruction*>> rows;
    for (Instruction& one : program)
      if (one.verb == Verb::pass && one.row >= 0) rows[one.row].push_back(&one);
    for (const auto& [row, passes] : rows) {
      if (passes.size() < 2) continue;
      hand_on(passes, row);
      some = true;
    }
  }
  return some;
}

}  // namespace ringwood::device
