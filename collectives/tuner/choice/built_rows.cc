#include "collectives/tuner/choice/built_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "collectives/plan/protocol.h"
#include "collectives/plan/wire_schedule.h"
#include "collectives/schedule/compose.h"

namespace ringwood {
namespace {

// Smaller pieces consist mostly of overhead.
constexpr size_t kMinSegmentBytes = 16 << 10;

constexpr double CostBounds::*kBounds[] = {&CostBounds::resource, &CostBounds::path,
                                           &CostBounds::latencies, &CostBounds::posts};

}  // namespace

Load load_of(const CandidateQuery& query, const BuiltRow& built, const RowSample& sample,
             size_t bytes, bool one_round, bool zero_copy) {
  // Whole elements; and where ranks stand for others, no chunk is empty, or sends and receives
  // would not meet.
  const auto scaled = [&](double whole, double times, size_t least) {
    const auto elements = static_cast<size_t>(whole * times / static_cast<double>(query.element));
    return std::max(elements, least) * query.element;
  };
  const bool stands_for_others = sample.symmetry || !built.profile->direct();
  const bool cut = cut_from_one_buffer(query.collective);
  const auto chunks = static_cast<size_t>(std::max(1, sample.schedules[0].chunks));
  Load load{query.collective, bytes, query.element};
  if (stands_for_others && moves_data(query.collective))
    load.bytes = scaled(static_cast<double>(bytes), sample.bytes, cut ? chunks : 1);
  load.wire = built.wire;
  load.agreement = true;
  load.one_round = one_round;
  load.zero_copy = zero_copy;
  load.out_of_place = true;
  load.of_bytes = static_cast<size_t>(static_cast<double>(query.bytes) * sample.of_bytes);
  load.of_group = built.profile->group;
  if (!built.profile->direct() && !cut) {
    load.of_blocks = static_cast<double>(query.n) / sample.placement->n;
    load.of_block_bytes = 1 / sample.bytes;
  }
  const size_t most = kMaxWorkEach * work_times(sample.placement->machine);
  load.most_work = most - std::min(built.work, most - 1);
  return load;
}

bool RowBuilder::may_encode() const {
  return query_.tolerance > 0 && query_.bytes >= machine_.limits.min_encoded &&
         host_count(machine_) > 1;
}

// Why the row's schedules may not be encoded, or an empty text.
std::string RowBuilder::objection(const AlgorithmRow& row, WireFormat wire) const {
  const WireProof proof = profiles_.wire_proof(row);
  if (!proof.equal_bits) return "encoded, its ranks would not end with the same bits";
  const double needed = needed_tolerance(wire, proof.roundings);
  if (needed <= query_.tolerance) return "";
  return fmt::format("rounds {} times, which needs a tolerance of {:.2g}", proof.roundings, needed);
}

std::optional<BuiltRow> RowBuilder::build(const AlgorithmRow& row, WireFormat wire) const {
  BuiltRow built;
  built.row = &row;
  built.wire = wire;
  built.profile = &profiles_.get(row);
  const bool exact = wire == WireFormat::exact;
  if (!built.profile->why_not.empty() || (!exact && built.profile->samples.empty())) {
    if (!exact) return {};
    built.why_not = built.profile->why_not;
    return built;
  }
  built.segments = segment_counts(*built.profile);
  if (!exact) {
    built.why_not = objection(row, wire);
    if (!built.why_not.empty()) return built;
    built.encoded = built.profile->samples;
    for (RowSample& sample : built.encoded)
      for (Schedule& s : sample.schedules)
        s = with_roundings(s, query_.collective, sample.placement->machine.hosts);
    // Among equals a pipeline first: on a network slower than its parameters say, it
    // hides the codecs.
    if (built.segments.size() > 1) std::swap(built.segments[0], built.segments[1]);
  }
  return built;
}

double RowBuilder::least(const BuiltRow& built) const {
  if (built.wire != WireFormat::exact) return 0;  // what is encoded is smaller
  // Chunks are of whole elements: none has less than this.
  const auto element = static_cast<double>(query_.element);
  const double smallest = std::floor(chunk(*built.profile) / element) * element;
  const double bytes = static_cast<double>(built.profile->far_chunks) * smallest;
  return std::max(0.0, bytes - machine_.net.burst) / machine_.net.nic;
}

void RowBuilder::bind(BuiltRow& built) const {
  built.bound = true;
  const std::vector<RowSample>& samples = built.samples();
  if (samples.empty()) {
    built.bounds = counted(*built.profile);
    return;
  }
  built.one_round = built.wire == WireFormat::exact && in_one_round(*built.profile);
  std::vector<CostBounds> of_samples;
  for (const RowSample& s : samples) {
    built.steps += s.steps;
    const Load load = load_of(query_, built, s, query_.bytes, built.one_round, false);
    built.padded |= built.profile->direct() && load.bytes > query_.bytes;
    built.models.push_back(model_of(s, 1, load));
    of_samples.push_back(bounds_of(built.models.back(), s.placement->machine));
    if (&s == &built.largest()) built.bounds_of_largest = of_samples.back();
  }
  built.bounds = extended(built, of_samples);
  built.bounds.arrival = built.bounds_of_largest.arrival;
}

double RowBuilder::chunk(const RowProfile& profile) const {
  const bool cut = cut_from_one_buffer(query_.collective);
  return static_cast<double>(query_.bytes) / (cut ? std::max(1, profile.chunks) : 1);
}

// What rank 0 does, with the costs of messages between hosts where there are several. Sends and
// receives have a port each: it takes at least as long as the larger part needs.
CostBounds RowBuilder::counted(const RowProfile& profile) const {
  const bool sockets = machine_.loopback || host_count(machine_) > 1;
  const bool devices = !sockets && machine_.has_devices(), one_host = host_count(machine_) == 1;
  const double post = sockets ? machine_.net.post : machine_.post;
  const double latency = sockets   ? machine_.net.latency
                         : devices ? machine_.device.latency
                                   : machine_.latency + machine_.look;
  const double rate = !one_host ? machine_.net.nic
                      : devices ? machine_.device.rate
                                : machine_.handed;
  const auto messages = static_cast<double>(profile.messages);
  // The ranks of a host share its interfaces.
  const size_t chunks = one_host ? profile.chunks_moved : profile.far_chunks;
  CostBounds b;
  b.posts = messages * post;
  b.latencies = messages * latency;
  b.resource = b.posts + static_cast<double>(chunks) * chunk(profile) / rate;
  b.path = b.latencies + b.resource;
  const Limit carrier = !one_host ? Limit::port_out : devices ? Limit::island : Limit::memory;
  b.busy[static_cast<size_t>(Limit::core)] = b.posts;
  b.busy[static_cast<size_t>(carrier)] = b.resource - b.posts;
  return b;
}

bool RowBuilder::in_one_round(const RowProfile& profile) const {
  const bool apart = all_apart(machine_.hosts, query_.n, machine_.loopback);
  if (!small_for_one_round(machine_.limits, query_.collective, query_.bytes, query_.n, apart))
    return false;
  // Samples of a barrier are empty (after_agreement()); the protocol is that of its whole schedule.
  if (!moves_data(query_.collective))
    return fits_one_round(profile.row->build(profile.samples[0].placement->where(0)));
  return std::ranges::all_of(profile.samples, [](const RowSample& s) {
    return std::all_of(s.schedules.begin(), s.schedules.end(), fits_one_round);
  });
}

CostBounds extended(const BuiltRow& built, const std::vector<CostBounds>& of_samples) {
  CostBounds all, most;
  for (size_t at = 0; at < of_samples.size(); ++at) {
    const CostBounds& b = of_samples[at];
    const double weight = built.samples()[at].weight;
    for (size_t i = 0; i < kLimits; ++i) {
      all.busy[i] += weight * b.busy[i];
      most.busy[i] = std::max(most.busy[i], b.busy[i]);
    }
    for (double CostBounds::*value : kBounds) {
      all.*value += weight * b.*value;
      most.*value = std::max(most.*value, b.*value);
    }
  }
  // In a larger group nothing has less to do, whatever two samples suggest.
  for (double CostBounds::*value : kBounds) all.*value = std::max(all.*value, most.*value);
  for (size_t i = 0; i < kLimits; ++i) all.busy[i] = std::max(all.busy[i], most.busy[i]);
  return all;
}

CostModel model_of(const RowSample& s, int segment_count, const Load& load) {
  const MachineModel& machine = s.placement->machine;
  return model_of(plans_of(s.schedules, segment_count, load, machine), load, machine,
                  s.symmetry ? &*s.symmetry : nullptr);
}

std::vector<int> RowBuilder::segment_counts(const RowProfile& profile) const {
  if (query_.segments > 0) return {std::min(query_.segments, kMaxSegments)};
  if (!moves_data(query_.collective) || query_.n == 1) return {1};
  const int chunks = in_blocks(query_.collective) ? 1 : std::max(1, profile.chunks);
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
