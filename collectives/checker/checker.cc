#include "collectives/checker/checker.h"

#include <algorithm>

#include <fmt/format.h>

#include "collectives/checker/checker_parts.h"

namespace ringwood {
namespace {

const char* verb(const BoundStep& step) {
  switch (step.kind) {
    case StepKind::send: return "send";
    case StepKind::recv: return "recv";
    case StepKind::recv_reduce: return "recv_reduce";
    case StepKind::reduce: return "reduce";
    case StepKind::copy: return rounds_in_place(step) ? "rounding" : "copy";
  }
  return "?";
}

// Part `index` of `count` elements: in whole cache lines where each part has four of them or more.
// The first parts get the remainder.
std::pair<size_t, size_t> part_of(size_t count, size_t parts, size_t index, size_t element) {
  const size_t line = std::max<size_t>(1, 64 / element);
  const size_t unit = count < 4 * line * parts ? 1 : line;
  const size_t units = count / unit;
  size_t first = 0, size = 0;
  for (size_t i = 0; i <= index; ++i) {
    first += size;
    size = units / parts * unit + (i < units % parts ? unit : 0);
  }
  if (index + 1 == parts) size = count - first;
  return {first, size};
}

PlanFlaw check_all(const PlanSet& set) {
  for (const auto part : {check_agreement, check_links, check_fusions, check_places,
                          check_device_copies, check_order, check_values})
    if (PlanFlaw flaw = part(set)) return flaw;
  return std::nullopt;
}

}  // namespace

std::string plan_step_words(const PlanSet& set, int rank, size_t step) {
  const BoundStep& s = set.of(rank).steps[step];
  std::string text = fmt::format("rank {} step {} ({} {} bytes", rank, step, verb(s), s.bytes);
  if (s.peer >= 0) text += fmt::format(" {} rank {}", sends(s) ? "to" : "from", s.peer);
  return text + ")";
}

int user_buffers(const PlanSet& set) {
  return cut_from_one_buffer(set.args().collective)
             ? 1
             : required_chunks(set.args().collective, set.n());
}

size_t user_bytes(const PlanSet& set, int rank, int buffer) {
  const CollectiveArgs& args = set.of(rank).key.args;
  const GroupRank at{rank, set.n(), args.root};
  if (!has_memory(args.collective, at, buffer)) return 0;
  if (args.blocks.empty()) return args.count * size_of(args.type);
  const int block = block_of_chunk(args.collective, at, buffer);
  return args.blocks[static_cast<size_t>(block)] * size_of(args.type);
}

bool user_may_be_written(const PlanSet& set, int rank, int buffer) {
  const Plan& plan = set.of(rank);
  const Collective c = plan.key.args.collective;
  if (sends_from_input(c) && buffer == rank) return plan.memory.writes_own;
  return may_write(c, {rank, set.n(), plan.key.args.root}, buffer);
}

ChunkBytes chunk_bytes(const PlanSet& set, int rank, int chunks, int segment, int chunk) {
  const CollectiveArgs& args = set.of(rank).key.args;
  const size_t element = size_of(args.type);
  const auto segments = static_cast<size_t>(set.of(rank).form.segments);
  const auto of_segment = [&](size_t count) {
    return part_of(count, segments, static_cast<size_t>(segment), element);
  };
  if (cut_from_one_buffer(args.collective)) {
    const auto [outer, count] = of_segment(args.count);
    const auto [inner, size] =
        part_of(count, static_cast<size_t>(chunks), static_cast<size_t>(chunk), element);
    return {0, (outer + inner) * element, size * element};
  }
  const auto [first, size] = of_segment(user_bytes(set, rank, chunk) / element);
  return {chunk, first * element, size * element};
}

bool scales_here(const CollectiveArgs& args) {
  if (!reduces(args.collective) || traits_of(args.type).kind == NumberKind::boolean) return false;
  return args.op == ReduceOp::avg || (args.op == ReduceOp::premul_sum && is_small_float(args.type));
}

bool divides_whole_sums(const CollectiveArgs& args, bool whole) {
  return args.op == ReduceOp::avg &&
         (is_integer(args.type) || (whole && !is_small_float(args.type)));
}

PlanCheck check_plans(std::span<const std::shared_ptr<const Plan>> plans,
                      std::span<const Schedule> proved, const PlanFacts& facts) {
  using Result = PlanCheck::Result;
  if (plans.empty() || plans.size() != proved.size())
    return {Result::faulty, fmt::format("{} plans for {} schedules", plans.size(), proved.size())};
  size_t steps = 0;
  for (const auto& plan : plans) steps += plan->steps.size();
  if (steps > facts.budget)
    return {Result::too_large,
            fmt::format("{} steps of {} ranks, more than {}", steps, plans.size(), facts.budget)};
  if (PlanFlaw flaw = check_all({plans, proved, facts})) return {Result::faulty, *flaw};
  return {};
}

}  // namespace ringwood
