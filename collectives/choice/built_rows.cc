#include "collectives/choice/built_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "collectives/cost/cost_sketch.h"
#include "collectives/plan/protocol.h"
#include "collectives/plan/wire_schedule.h"
#include "collectives/schedule/compose.h"

namespace ringwood {
namespace {

// Smaller pieces consist mostly of overhead.
constexpr size_t kMinSegmentBytes = 16 << 10;

}  // namespace

Load load_of(const CandidateQuery& query, const BuiltRow& built, size_t bytes, bool one_round,
             bool zero_copy) {
  Load load{query.collective, bytes, query.element};
  load.wire = built.wire;
  load.agreement = true;
  load.one_round = one_round;
  load.zero_copy = zero_copy;
  load.out_of_place = true;
  load.of_bytes = query.bytes;
  load.most_work = kMaxWorkEach;
  return load;
}

bool RowBuilder::may_encode() const {
  const auto& hosts = machine_.hosts;
  return query_.tolerance > 0 && query_.bytes >= machine_.limits.least_encoded &&
         std::find_if(hosts.begin(), hosts.end(), [](int h) { return h != 0; }) != hosts.end();
}

// The schedule as a plan runs it.
Schedule RowBuilder::schedule(const AlgorithmRow& row, int rank) const {
  return after_agreement(row.build(where(rank)), query_.collective);
}

// Why the row's schedules may not be encoded, or an empty text.
std::string RowBuilder::objection(const std::vector<Schedule>& schedules, WireFormat wire) const {
  // Where only some links are encoded, the number of roundings of an operand depends on the root,
  // so all links are assumed to be encoded there.
  std::vector<int> host = machine_.hosts;
  if (has_root(query_.collective)) std::iota(host.begin(), host.end(), 0);
  const WireProof proof = prove_wire(query_.collective, schedules, host);
  if (!proof.equal_bits) return "encoded, its ranks would not end with the same bits";
  const double needed = needed_tolerance(wire, proof.roundings);
  if (needed <= query_.tolerance) return "";
  return fmt::format("rounds {} times, which needs a tolerance of {:.2g}", proof.roundings, needed);
}

std::optional<BuiltRow> RowBuilder::build(const AlgorithmRow& row, WireFormat wire) const {
  const int n = query_.n;
  BuiltRow built;
  built.row = &row;
  built.wire = wire;
  if (!row.accepts(where(0))) {
    if (wire != WireFormat::exact) return {};
    built.why_not =
        fmt::format("not for {} ranks{}", n, machine_.hosts.empty() ? "" : " placed like these");
    return built;
  }
  const Schedule first = schedule(row, 0);
  built.segments = segment_counts(first);
  // The ranks' lists are about equally long, so a large row need not be built to be counted.
  const size_t about = first.steps.size() * static_cast<size_t>(n);
  if (about > query_.most_steps || n > kMaxSimulated) {
    if (wire != WireFormat::exact) return {};
    sketch(built);
    return built;
  }
  built.schedules.push_back(first);
  for (int r = 1; r < n; ++r) built.schedules.push_back(schedule(row, r));
  if (wire != WireFormat::exact) {
    built.why_not = objection(built.schedules, wire);
    if (!built.why_not.empty()) return built;
    for (Schedule& s : built.schedules) s = with_roundings(s, query_.collective, machine_.hosts);
    // Among equals a pipeline first: on a network slower than its parameters say, it
    // hides the codecs.
    if (built.segments.size() > 1) std::swap(built.segments[0], built.segments[1]);
  }
  bound(built);
  return built;
}

void RowBuilder::bound(BuiltRow& built) const {
  for (const Schedule& s : built.schedules) built.steps += s.steps.size();
  built.one_round = built.wire == WireFormat::exact && in_one_round(built.schedules);
  const Load load = load_of(query_, built, query_.bytes, built.one_round, false);
  built.bounds =
      bounds_of(model_of(plans_of(built.schedules, 1, load, machine_), load, machine_), machine_);
}

void RowBuilder::sketch(BuiltRow& built) const {
  const BuildRank build_rank = [&](int rank) { return schedule(*built.row, rank); };
  const Load load = load_of(query_, built, query_.bytes, false, false);
  built.bounds = sketch_of(build_rank, query_.n, load, machine_);
}

bool RowBuilder::in_one_round(const std::vector<Schedule>& schedules) const {
  const bool apart = all_apart(machine_.hosts, query_.n, machine_.loopback);
  return small_for_one_round(machine_.limits, query_.collective, query_.bytes, query_.n, apart) &&
         std::all_of(schedules.begin(), schedules.end(), fits_one_round);
}

std::vector<int> RowBuilder::segment_counts(const Schedule& schedule) const {
  if (query_.segments > 0) return {std::min(query_.segments, kMaxSegments)};
  if (!moves_data(query_.collective) || query_.n == 1) return {1};
  const int chunks = in_blocks(query_.collective) ? 1 : std::max(1, schedule.chunks);
  const size_t message = query_.bytes / static_cast<size_t>(chunks);
  std::vector<int> counts = {1};
  for (size_t grain = query_.segment_bytes, i = 0; i < 3; ++i, grain /= 4) {
    if (i > 0 && grain < kMinSegmentBytes) break;
    const size_t count = std::min<size_t>(message / grain, kMaxSegments);
    if (count > static_cast<size_t>(counts.back())) counts.push_back(static_cast<int>(count));
  }
  return counts;
}

}  // namespace ringwood
