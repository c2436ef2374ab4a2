// AVG and PREMUL_SUM: what each addition is scaled and divided by.
#include "collectives/kernels/accumulate.h"
#include "collectives/plan/passes.h"

namespace ringwood {

Plan add_scaling(Plan plan, const Sums& sums) {
  const CollectiveArgs& args = plan.key.args;
  if (!reduces(args.collective) || !scales_operands(args.type, args.op)) return plan;
  const int n = plan.schedule.n;
  plan.scaling = {true, sums.whole && sums.accumulations_agree, n, 1, 1};
  if (args.op == ReduceOp::avg) {
    plan.scaling.scale = average_scale(n);
    plan.scaling.divisor = n * plan.scaling.scale;
  }
  const std::vector<SumStep>& own = sums.steps[plan.schedule.rank];
  for (BoundStep& step : plan.steps)
    if (step.reduction >= 0) step.sum = own[step.reduction];
  return plan;
}

}  // namespace ringwood
