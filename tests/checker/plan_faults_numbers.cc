// Faults of numbers: rounding, scaling, division, operations and types.
#include "collectives/kernels/accumulate.h"
#include "tests/checker/plan_faults.h"

namespace ringwood::testing {
namespace {

using Group = const PlanGroup&;

bool adds(const BoundStep& s) {
  return s.kind == StepKind::recv_reduce || s.kind == StepKind::reduce;
}
bool is_small(const Plan& p) { return accumulates_wide(p.key.args.type, ReduceOp::sum); }
// Operands are multiplied as they are added.
bool scales(const Plan& p) {
  const bool integer = supports(p.key.args.type, ReduceOp::bor);
  return p.scaling.on && !integer && (!p.scaling.whole || is_small(p));
}
bool reads_dst(const BoundStep& s) { return adds(s) && (!s.wide.on || s.wide.first); }
bool divides(const Plan& p) {
  return p.key.args.op == ReduceOp::avg && p.scaling.on &&
         (p.scaling.divisor != 1 || supports(p.key.args.type, ReduceOp::bor));
}
// By Wide::last alone.
bool divides_accumulations(const Plan& p, size_t i) {
  return p.scaling.whole && (!is_small(p) || (p.steps[i].wide.on && !p.steps[i].wide.last));
}

std::vector<PlanEdit> split_accumulations(Group group) {
  return at_steps(
      group,
      [](const Plan& p, size_t i) {
        return p.steps[i].wide.on && !p.steps[i].wide.first && !p.steps[i].wide.last;
      },
      [](Plan& p, size_t i) {
        p.steps[i].wide.last = true;
        for (size_t j = i + 1; j < p.steps.size(); ++j)
          if (p.steps[j].wide.on && p.steps[j].wide.offset == p.steps[i].wide.offset) {
            p.steps[j].wide.first = true;
            return;
          }
      });
}

std::vector<PlanFault> rounding_faults() {
  return {
      {"rounding lost",
       [](Group g) {
         return at_steps(
             g, [](const Plan& p, size_t i) { return p.steps[i].wide.last; },
             [](Plan& p, size_t i) { p.steps[i].wide.last = false; });
       }},
      {"rounding in the middle of an accumulation", split_accumulations},
      {"an accumulation's operand rounded by itself",
       [](Group g) {
         return at_steps(
             g, [](const Plan& p, size_t i) { return p.steps[i].wide.on; },
             [](Plan& p, size_t i) { p.steps[i].wide = {}; });
       }},
      {"an accumulation that begins with what lies there",
       [](Group g) {
         return at_steps(
             g, [](const Plan& p, size_t i) { return p.steps[i].wide.first; },
             [](Plan& p, size_t i) { p.steps[i].wide.first = false; });
       }},
      {"an accumulation begun twice",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) { return p.steps[i].wide.on && !p.steps[i].wide.first; },
             [](Plan& p, size_t i) { p.steps[i].wide.first = true; });
       }},
      {"each addition rounded where the accumulations are alike",
       [](Group g) {
         return at_all(
             g, [](const Plan& p) { return p.wide.bytes > 0 && is_small(p); },
             [](Plan& p) {
               p.wide.rounds_each = true;
               for (BoundStep& s : p.steps) s.wide = {};
             });
       }},
      {"accumulations taken for alike that are not",
       [](Group g) {
         return at_all(
             g, [](const Plan& p) { return p.wide.rounds_each; },
             [](Plan& p) { p.wide.rounds_each = false; });
       }},
      {"accumulations on one rank only",
       [](Group g) {
         return at_ranks(
             g, [](const Plan& p) { return p.wide.bytes > 0; },
             [](Plan& p) {
               p.wide.rounds_each = true;
               for (BoundStep& s : p.steps) s.wide = {};
             });
       }},
      {"the wide scratch too small",
       [](Group g) {
         return at_steps(
             g, [](const Plan& p, size_t i) { return p.steps[i].wide.first; },
             [](Plan& p, size_t i) {
               const BoundStep& s = p.steps[i];
               p.wide.bytes = s.wide.offset + s.bytes / p.element * p.wide.element - 1;
             });
       }},
  };
}

std::vector<PlanFault> scaling_faults() {
  return {
      {"the scale of an operand lost",
       [](Group g) {
         return at_steps(
             g, [](const Plan& p, size_t i) { return scales(p) && p.steps[i].sum.src >= 0; },
             [](Plan& p, size_t i) { p.steps[i].sum.src = -1; });
       }},
      {"the scale of the own operand lost",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return scales(p) && p.steps[i].sum.dst >= 0 && reads_dst(p.steps[i]);
             },
             [](Plan& p, size_t i) { p.steps[i].sum.dst = -1; });
       }},
      {"a sum scaled twice",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return scales(p) && adds(p.steps[i]) && p.steps[i].sum.src < 0;
             },
             [](Plan& p, size_t i) { p.steps[i].sum.src = 0; });
       }},
      {"an own sum scaled twice",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return scales(p) && p.steps[i].sum.dst < 0 && reads_dst(p.steps[i]);
             },
             [](Plan& p, size_t i) { p.steps[i].sum.dst = 0; });
       }},
      {"another rank's factor",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return p.scaling.on && p.key.args.op == ReduceOp::premul_sum &&
                      p.steps[i].sum.src >= 0;
             },
             [](Plan& p, size_t i) { p.steps[i].sum.src = (p.steps[i].sum.src + 1) % 2; });
       }},
      {"the divisor lost on one rank",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return divides(p) && p.steps[i].sum.completes && !(p.scaling.whole && !is_small(p));
             },
             [](Plan& p, size_t i) { p.steps[i].sum.completes = false; });
       }},
      {"divided twice",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return divides(p) && adds(p.steps[i]) && !p.steps[i].sum.completes &&
                      !divides_accumulations(p, i) && (!p.steps[i].wide.on || p.steps[i].wide.last);
             },
             [](Plan& p, size_t i) { p.steps[i].sum.completes = true; });
       }},
      {"whole on one rank only",
       [](Group g) {
         return at_ranks(
             g, [](const Plan& p) { return p.scaling.on; },
             [](Plan& p) { p.scaling.whole = !p.scaling.whole; });
       }},
      {"parts that are taken for whole, or whole sums for parts",
       [](Group g) {
         return at_all(
             g, [](const Plan& p) { return p.scaling.on; },
             [](Plan& p) { p.scaling.whole = !p.scaling.whole; });
       }},
      {"another divisor on one rank",
       [](Group g) {
         return at_ranks(
             g, [](const Plan& p) { return p.scaling.on; }, [](Plan& p) { ++p.scaling.divisor; });
       }},
      {"scaled by another factor than divided by",
       [](Group g) {
         return at_all(
             g, [](const Plan& p) { return p.scaling.on; }, [](Plan& p) { p.scaling.scale *= 2; });
       }},
      {"divided by another number of ranks",
       [](Group g) {
         return at_all(
             g, [](const Plan& p) { return p.scaling.on; }, [](Plan& p) { ++p.scaling.n; });
       }},
      {"no scaling at all",
       [](Group g) {
         return at_all(
             g, [](const Plan& p) { return p.scaling.on; }, [](Plan& p) { p.scaling.on = false; });
       }},
  };
}

}  // namespace

std::vector<PlanFault> number_faults() {
  std::vector<PlanFault> all = rounding_faults();
  for (PlanFault& fault : scaling_faults()) all.push_back(std::move(fault));
  const auto any = [](const Plan& p) { return reduces(p.key.args.collective); };
  all.push_back({"another operation on one rank", [=](Group g) {
                   return at_ranks(g, any, [](Plan& p) {
                     p.key.args.op = p.key.args.op == ReduceOp::max ? ReduceOp::min : ReduceOp::max;
                   });
                 }});
  all.push_back({"another type on one rank", [=](Group g) {
                   return at_ranks(g, any, [](Plan& p) {
                     const bool f = p.key.args.type == DataType::float32;
                     p.key.args.type = f ? DataType::int32 : DataType::float32;
                   });
                 }});
  all.push_back({"another size of an element",
                 [=](Group g) { return at_all(g, any, [](Plan& p) { p.element *= 2; }); }});
  return all;
}

}  // namespace ringwood::testing
