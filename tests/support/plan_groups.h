// The plans of all ranks of a group, made as the plan cache makes them, for the checker's tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/checker/checker.h"
#include "collectives/kernels/accumulate.h"
#include "collectives/plan/passes.h"
#include "collectives/plan/plan.h"
#include "collectives/plan/wire_schedule.h"
#include "collectives/schedule/compose.h"
#include "tests/support/places.h"

namespace ringwood::testing {

struct PlanGroup {
  std::string name;
  Places places;
  std::vector<Schedule> proved;
  std::vector<std::shared_ptr<Plan>> plans;

  PlanCheck check(uint64_t seed = 1) const {
    const std::vector<std::shared_ptr<const Plan>> all(plans.begin(), plans.end());
    PlanFacts facts;
    facts.host = places.host;
    facts.seed = seed;
    return check_plans(all, proved, facts);
  }
};

// How a group is planned, beside its args.
struct PlanWay {
  int segments = 1;
  bool published = false;  // by the odd ranks: each as it likes
  Protocol protocol = Protocol::queued;
  WireFormat wire = WireFormat::exact;
  bool slots = false;    // all ranks have eager slots to all others
  bool apart = true;     // the ranks of a host share no memory
  bool crowded = false;  // they take turns on few cores
  bool traces = true;    // what its schedules add (sums.h); not of what ends with no sums of all
  ProtocolLimits limits = {};
  MemoryKind memory = MemoryKind::host;  // device: queued
};

inline PlanGroup plan_group(std::vector<Schedule> proved, const CollectiveArgs& args,
                            const std::string& algorithm, const PlanWay& way,
                            const Places& places = {}) {
  const Collective c = args.collective;
  const int n = static_cast<int>(proved.size());
  std::vector<Schedule> bound = proved;
  if (way.wire != WireFormat::exact)
    for (Schedule& s : bound) s = with_roundings(s, c, places.host);
  std::unique_ptr<Sums> sums;
  const bool matter = way.traces && reduces(c) && n > 1 &&
                      (scales_operands(args.type, args.op) || accumulates_wide(args.type, args.op));
  if (matter) sums = std::make_unique<Sums>(trace_sums(c, bound));
  if (sums && sums->apart && way.wire == WireFormat::exact)
    for (Schedule& s : bound) s = with_roundings(s, c, {});
  PlanGroup group{
      fmt::format("{} {} of {} ranks, {} {} x {}, {} segments{}{}{}{}, {}", to_string(c), algorithm,
                  n, to_string(args.type), to_string(args.op), args.count, way.segments,
                  way.published ? ", published" : "",
                  way.protocol == Protocol::one_round ? ", one round" : "",
                  way.slots ? ", slots" : "",
                  way.memory == MemoryKind::device ? ", of a device" : "", to_string(way.wire)),
      places,
      proved,
      {}};
  if (sums && sums->apart) group.proved = bound;
  const Wire wire{way.wire, places.host, way.apart,
                  group_size(places.host, n, way.crowded ? 1 : n)};
  for (int r = 0; r < n; ++r) {
    const Schedule& s = bound[static_cast<size_t>(r)];
    const bool published = way.published && r % 2 == 1;
    group.plans.push_back(make_plan(published ? publish(s, c) : s, args, algorithm, way.segments,
                                    way.protocol, wire, sums.get(), way.limits, way.memory));
    group.plans.back()->form.published = published;
    if (way.slots) *group.plans.back() = add_slots(std::move(*group.plans.back()));
  }
  return group;
}

inline CollectiveArgs plan_args(Collective collective, DataType type, ReduceOp op, size_t count,
                                int root) {
  CollectiveArgs args;
  args.collective = collective;
  args.type = type;
  args.op = op;
  args.count = count;
  args.root = root;
  return args;
}

// Of rank `rank` in a group of n: blocks of different sizes where the collective allows them.
inline void set_uneven_blocks(CollectiveArgs& args, int rank, int n) {
  const auto block = [](int from, int to) {
    return static_cast<size_t>((from * 7 + to * 5) % 4) * 1000 + static_cast<size_t>(from);
  };
  const Collective c = args.collective;
  if (!in_blocks(c)) return;
  args.count = 0;
  if (!has_sizes_of_pairs(c)) {
    for (int r = 0; r < n; ++r) args.blocks.push_back(block(r, r));
    for (const size_t b : args.blocks) args.count += b;
    return;
  }
  const GroupRank at{rank, n, args.root};
  args.blocks.assign(static_cast<size_t>(required_chunks(c, n)), 0);
  const auto set = [&](int chunk, size_t size) {
    if (has_memory(c, at, chunk)) args.blocks[static_cast<size_t>(chunk)] = size;
  };
  const auto pair = [&](int from, int to) {  // all ends of the root's name the other rank
    return block(traits_of(c).from == Who::root ? to : from,
                 traits_of(c).to == Who::root ? from : to);
  };
  for (int r = 0; r < n; ++r) {
    set(chunk_sent(c, at, r), pair(rank, r));
    set(chunk_received(c, at, r), pair(r, rank));
  }
}

}  // namespace ringwood::testing
