#include "tests/device/device_ranks.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <tuple>

#include <fmt/format.h>

#include "tests/support/places.h"
#include "tests/support/special_numbers.h"
#include "tests/support/values.h"

namespace ringwood::testing {
namespace {

constexpr size_t kUnit = 256;
size_t rounded(size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

bool in_place(Collective collective) { return !in_blocks(collective); }

// Small whole numbers and halves, of which sums of 16-bit floats are rounded.
double value(DataType type, uint64_t random) {
  const auto whole = static_cast<double>(random % 61) - 30;
  if (traits_of(type).kind == NumberKind::boolean) return static_cast<double>(random % 2);
  if (is_integer(type)) return traits_of(type).is_signed ? whole : whole + 30;
  return whole / 8 + static_cast<double>(random >> 8 & 3) / 64;
}

}  // namespace

// Proofs are made once: they take longer than to carry out a small operation.
const device::ProvedProgram& proved_of(const DeviceCase& of) {
  static std::map<std::tuple<const AlgorithmRow*, int, int, bool>, device::ProvedProgram> known;
  const auto key = std::tuple(of.row, of.n, of.root, of.packets);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  const auto places = places_for(*of.row, of.n);
  std::string why;
  auto proved = device::lower_proved(
      of.row->collective, build_all(*of.row, places->where(0, of.n, of.root)), of.packets, &why);
  if (!proved) throw std::runtime_error(why);
  return known.emplace(key, std::move(*proved)).first->second;
}

std::string describe(const DeviceCase& of) {
  return fmt::format("{} {} n={} root={} {} {} count={} segments={}{}{}",
                     to_string(of.row->collective), of.row->name, of.n, of.root, to_string(of.type),
                     to_string(of.op), of.count, of.segments, of.packets ? " packets" : "",
                     of.staged ? " staged" : "");
}

bool is_possible(const DeviceCase& of) {
  return moves_data(of.row->collective) && places_for(*of.row, of.n) &&
         (!reduces(of.row->collective) || supports(of.type, of.op));
}

DeviceRanks::DeviceRanks(const DeviceCase& of, int rounds, uint64_t seed,
                         const device::ProvedProgram* program)
    : case_(of), abort_(std::make_unique<uint32_t>(0)) {
  const device::ProvedProgram& proved = program ? *program : proved_of(of);
  schedules_ = proved.schedules;
  whole_ = proved.lowered.whole;
  if (reduces(of.row->collective)) fold_ = device::fold_of(of.type, of.op, of.n, whole_);
  args_.collective = of.row->collective;
  args_.type = of.type;
  args_.op = of.op;
  args_.root = of.root;
  args_.count = of.count;
  uint64_t packets = 0;
  for (int rank = 0; rank < of.n; ++rank) {
    bound_.push_back(device::bind_words(proved, rank, args_, of.segments, {of.staged, false}));
    const device::BoundWords& words = bound_.back();
    packets = std::max(packets, words.packet_bytes);
    input_room_ = std::max<size_t>(input_room_, words.input_bytes);
    output_room_ = std::max<size_t>(output_room_, words.output_bytes);
    scratch_room_ = std::max<size_t>(scratch_room_, words.scratch_bytes);
  }
  too_large_ = packets > 64 << 10;
  window_ = {static_cast<uint32_t>(of.n), static_cast<uint32_t>(of.segments),
             static_cast<uint32_t>(packets)};
  make_arenas();
  for (int round = 0; round < rounds; ++round) {
    make_data(seed * 1000 + static_cast<uint64_t>(round));
    launches_.emplace_back(of.n);
    for (int rank = 0; rank < of.n; ++rank) make_launch(rank, round);
  }
}

DeviceRanks::Aligned DeviceRanks::zeroed(size_t bytes) {
  Aligned made{std::make_unique<std::byte[]>(bytes + kUnit), nullptr, bytes};
  made.base = reinterpret_cast<std::byte*>(rounded(reinterpret_cast<uintptr_t>(made.memory.get())));
  return made;
}

void DeviceRanks::make_arenas() {
  for (int rank = 0; rank < case_.n; ++rank) {
    arenas_.push_back(zeroed(window_.bytes() + rounded(input_room_ + kUnit) +
                             rounded(output_room_ + kUnit) + rounded(scratch_room_)));
    user_.push_back(zeroed(rounded(input_room_ + kUnit) + rounded(output_room_ + kUnit)));
    reports_.emplace_back(case_.segments);
    for (int range = 0; range < device::kMappedPerRank; ++range)
      mapped_.push_back(range > 0
                            ? device::MappedMemory{}
                            : device::MappedMemory{reinterpret_cast<char*>(arenas_[rank].base),
                                                   arenas_[rank].bytes});
  }
}

void DeviceRanks::make_data(uint64_t seed) {
  RankBytes& inputs = inputs_.emplace_back(case_.n);
  RankBytes& before = before_.emplace_back(case_.n);
  shift_.emplace_back();
  ReferenceCall call{args_, case_.segments, whole_, {}};
  for (int rank = 0; rank < case_.n; ++rank) {
    inputs[rank].resize(bound_[rank].input_bytes);
    const size_t count = inputs[rank].size() / size_of(case_.type);
    const uint64_t own = mixed(seed * 64 + static_cast<uint64_t>(rank) + 1);
    if (case_.specials)
      fill_special(inputs[rank].data(), count, case_.type, own);
    else
      for (size_t i = 0; i < count; ++i)
        put_value(inputs[rank].data(), i, case_.type,
                  value(case_.type, mixed(own + i * 0x9e3779b97f4a7c15u)));
    before[rank] = in_place(args_.collective)
                       ? inputs[rank]
                       : std::vector<std::byte>(bound_[rank].output_bytes, std::byte{0x5a});
    // Odd now and then, and on every rank differently.
    const uint64_t draw = mixed(seed + static_cast<uint64_t>(rank));
    shift_.back().push_back(draw % 3 == 0 ? size_of(case_.type) * (1 + draw / 3 % 3) : 0);
    call.factors.push_back(0.5 + rank);
  }
  after_.push_back(reference(schedules_, call, inputs, before));
}

void DeviceRanks::make_launch(int rank, int round) {
  device::Launch& a = launches_[round][rank];
  const device::BoundWords& words = bound_[rank];
  a.rank = rank;
  a.n = case_.n;
  a.digest = 77 + static_cast<uint32_t>(round);
  a.window = window_;
  std::copy(words.first.begin(), words.first.end(), a.first);
  a.words = words.words.data();
  a.operands = words.operands.data();
  a.reach = words.reach.data();
  a.mapped = mapped_.data();
  const size_t input = window_.bytes(), output = input + rounded(input_room_ + kUnit);
  const size_t shift = shift_[round][rank];
  a.place[0] = input + (case_.staged ? 0 : shift);
  a.place[1] = output + (case_.staged ? 0 : shift);
  a.place[2] = output + rounded(output_room_ + kUnit);
  std::byte* const user = user_[rank].base;
  a.user_input = reinterpret_cast<char*>(user + shift);
  a.user_output = reinterpret_cast<char*>(
      in_place(args_.collective) ? user + shift : user + rounded(input_room_ + kUnit) + shift);
  a.scale = fold_.scale;
  a.divisor = fold_.divisor;
  a.tells_factor = fold_.tells_factor;
  a.factor = 0.5 + rank;
  a.abort = abort_.get();
  a.report = reports_[rank].data();
  a.limit_ns = 60'000'000'000;
  for (int peer = 0; peer < case_.n; ++peer)
    a.arena[peer] = reinterpret_cast<char*>(arenas_[peer].base);
}

std::vector<DeviceRanks::Range> DeviceRanks::user_memory(int rank, int round) const {
  const device::Launch& a = launches_[round][rank];
  const auto at = [&](int space) {
    if (case_.staged)
      return reinterpret_cast<std::byte*>(space == 0 ? a.user_input : a.user_output);
    return arenas_[rank].base + a.place[space];
  };
  std::vector<Range> ranges{{at(0), inputs_[round][rank].size()}};
  if (!in_place(args_.collective)) ranges.push_back({at(1), before_[round][rank].size()});
  return ranges;
}

std::vector<DeviceRanks::Range> DeviceRanks::all_memory() const {
  std::vector<Range> ranges;
  const auto add = [&](const auto* data, size_t count, const char* what, int rank) {
    if (count == 0) return;
    const auto* const bytes = reinterpret_cast<const std::byte*>(data);
    ranges.push_back({const_cast<std::byte*>(bytes), count * sizeof *data,
                      fmt::format("{} of rank {}", what, rank)});
  };
  for (int rank = 0; rank < case_.n; ++rank) {
    add(arenas_[rank].base, arenas_[rank].bytes, "arena", rank);
    add(user_[rank].base, user_[rank].bytes, "buffers", rank);
    add(bound_[rank].words.data(), bound_[rank].words.size(), "words", rank);
    add(bound_[rank].operands.data(), bound_[rank].operands.size(), "operands", rank);
    add(bound_[rank].reach.data(), bound_[rank].reach.size(), "reach", rank);
    add(reports_[rank].data(), reports_[rank].size(), "reports", rank);
  }
  add(mapped_.data(), mapped_.size(), "mappings", 0);
  add(abort_.get(), 1, "abort word", 0);
  return ranges;
}

void DeviceRanks::age(uint64_t operations, uint32_t stamp) {
  for (const Aligned& arena : arenas_)
    for (int segment = 0; segment < case_.segments; ++segment) {
      std::memcpy(arena.base + window_.sequence(segment), &operations, sizeof operations);
      for (const uint64_t parity : {0, 1})
        for (size_t at = 0; at < window_.packet_bytes; at += 8) {
          const uint64_t packet = uint64_t{stamp} << 32 | 0x41414141;
          std::memcpy(arena.base + window_.packets(parity, segment) + at, &packet, 8);
        }
    }
}

void DeviceRanks::write(int rank, int round) {
  const std::vector<Range> ranges = user_memory(rank, round);
  const RankBytes* const contents[] = {&inputs_[round], &before_[round]};
  for (size_t i = 0; i < ranges.size(); ++i)
    std::copy((*contents[i])[rank].begin(), (*contents[i])[rank].end(), ranges[i].base);
}

std::string DeviceRanks::check(int rank, int round) const {
  const std::vector<Range> ranges = user_memory(rank, round);
  const Range& result = ranges.back();
  const std::vector<std::byte>& expected = after_[round][rank];
  const auto wrong = std::mismatch(expected.begin(), expected.end(), result.base);
  if (wrong.first == expected.end()) return "";
  return fmt::format("{}: rank {} round {}: byte {} is {:#x}, not {:#x}", describe(case_), rank,
                     round, wrong.first - expected.begin(), static_cast<int>(*wrong.second),
                     static_cast<int>(*wrong.first));
}

std::string DeviceRanks::reported() const {
  for (int rank = 0; rank < case_.n; ++rank)
    for (const device::Report& one : reports_[rank])
      if (one.code != 0)
        return fmt::format("{}: rank {} segment {}: code {}, peer {}, number {}", describe(case_),
                           rank, one.segment, one.code, one.peer, one.number);
  return "";
}

}  // namespace ringwood::testing
