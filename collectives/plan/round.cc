// Where additions of 16- and 8-bit floats, and of averages, are rounded.
#include "collectives/kernels/row_sums.h"
#include "collectives/plan/passes.h"
#include "collectives/schedule/rows.h"

namespace ringwood {
namespace {

// A row of one addition needs no separate sum.
void place_rows(Plan& plan) {
  const std::vector<RowPlace> places = rows_of(plan.schedule);
  std::vector<size_t> offsets;  // by row
  for (size_t i = 0; i < places.size(); ++i) {
    const RowPlace& place = places[i];
    if (place.row < 0 || (place.first && place.last)) continue;
    if (place.first) {
      offsets.resize(place.row + 1);
      offsets[place.row] = plan.wide.bytes;
      plan.wide.bytes += aligned(plan.steps[i].bytes / plan.element * plan.wide.element);
    }
    plan.steps[i].wide = {true, place.first, place.last, offsets[place.row]};
  }
}

}  // namespace

Plan add_rounding(Plan plan, bool rows_agree) {
  const CollectiveArgs& args = plan.key.args;
  if (!reduces(args.collective)) return plan;
  plan.wide.element = bytes_beside(args.type, args.op, plan.scaling.whole);
  plan.wide.rounds_each = plan.wide.element > 0 && !rows_agree;
  if (plan.wide.element > 0 && !plan.wide.rounds_each) place_rows(plan);
  return plan;
}

}  // namespace ringwood
