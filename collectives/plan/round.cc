// Where additions of 16- and 8-bit floats, and of averages, are rounded.
#include "collectives/kernels/accumulate.h"
#include "collectives/plan/passes.h"
#include "collectives/schedule/accumulations.h"

namespace ringwood {
namespace {

// An accumulation of one addition needs no separate sum.
void place_accumulations(Plan& plan) {
  const std::vector<AccumulationPlace> places = accumulations_of(plan.schedule);
  std::vector<size_t> offsets;  // by accumulation
  for (size_t i = 0; i < places.size(); ++i) {
    const AccumulationPlace& place = places[i];
    if (place.accumulation < 0 || (place.first && place.last)) continue;
    if (place.first) {
      offsets.resize(place.accumulation + 1);
      offsets[place.accumulation] = plan.wide.bytes;
      plan.wide.bytes += aligned(plan.steps[i].bytes / plan.element * plan.wide.element);
    }
    plan.steps[i].wide = {true, place.first, place.last, offsets[place.accumulation]};
  }
}

}  // namespace

Plan add_rounding(Plan plan, bool accumulations_agree) {
  const CollectiveArgs& args = plan.key.args;
  if (!reduces(args.collective)) return plan;
  plan.wide.element = bytes_beside(args.type, args.op, plan.scaling.whole);
  plan.wide.rounds_each = plan.wide.element > 0 && !accumulations_agree;
  if (plan.wide.element > 0 && !plan.wide.rounds_each) place_accumulations(plan);
  return plan;
}

}  // namespace ringwood
