#include "transports/base/knobs/knobs.h"

#include <vector>

#include "transports/base/knobs/knob_rows.h"

namespace ringwood {

std::span<const Knob> knobs() {
  static const std::vector<Knob> table = [] {
    std::vector<Knob> rows(user_knobs().begin(), user_knobs().end());
    rows.insert(rows.end(), expert_knobs().begin(), expert_knobs().end());
    return rows;
  }();
  return table;
}

}  // namespace ringwood
