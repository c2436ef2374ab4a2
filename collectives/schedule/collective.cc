#include "collectives/schedule/collective.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "transports/base/error.h"
#include "transports/base/knobs/nearest.h"

namespace ringwood {
namespace {

constexpr bool rows_are_in_order() {
  for (int i = 0; i < kCollectives; ++i)
    if (static_cast<int>(kCollectiveTraits[i].collective) != i) return false;
  return true;
}
static_assert(rows_are_in_order());

// How much of an unknown name an error message repeats.
constexpr size_t kShownBytes = 40;

constexpr RankRange one(int rank) { return {rank, 1}; }

}  // namespace

const char* to_string(Collective collective) {
  const auto number = static_cast<size_t>(collective);
  return number < kCollectives ? kCollectiveTraits[number].name : "unknown";
}

Collective parse_collective(std::string_view name) {
  const auto plain = [](std::string_view text) {
    std::string kept;
    for (char c : text) {
      if (c != '_' && c != '-') kept += c;
    }
    return kept;
  };
  std::string all;
  std::vector<std::string_view> names;
  for (const CollectiveTraits& row : kCollectiveTraits) {
    if (plain(name) == plain(row.name)) return row.collective;
    names.emplace_back(row.name);
    all += all.empty() ? row.name : std::string(", ") + row.name;
  }
  name = name.substr(0, kShownBytes);
  const std::string near = did_you_mean(name, names);
  refuse(fmt::format("unknown collective '{}'{} names are {}", name,
                     near.empty() ? ", the" : near + " The", all));
}

int required_chunks(Collective collective, int n) {
  switch (traits_of(collective).chunks) {
    case Chunks::none:
    case Chunks::pieces: return 0;
    case Chunks::outputs: return n;
    case Chunks::inputs_and_output: return n + 1;
    case Chunks::inputs_and_outputs: return 2 * n;
  }
  return 0;
}

int input_blocks(Collective collective, const GroupRank& at) {
  const Chunks chunks = traits_of(collective).chunks;
  if (chunks == Chunks::none) return 0;
  if (!has_input_chunks(collective)) return 1;
  return is_source(collective, at) ? at.n : 0;
}

int output_blocks(Collective collective, const GroupRank& at) {
  const Chunks chunks = traits_of(collective).chunks;
  if (chunks == Chunks::none) return 0;
  if (chunks == Chunks::pieces || chunks == Chunks::inputs_and_output) return 1;
  return has_result(collective, at) ? at.n : 0;
}

int chunk_sent(Collective collective, const GroupRank& at, int to) {
  return has_input_chunks(collective) ? to : at.rank;
}

int chunk_received(Collective collective, const GroupRank& at, int from) {
  const Chunks chunks = traits_of(collective).chunks;
  if (!has_input_chunks(collective)) return from;
  return chunks == Chunks::inputs_and_output ? at.n : at.n + from;
}

int own_chunk(Collective collective, const GroupRank& at) {
  return traits_of(collective).chunks == Chunks::outputs ? at.rank : at.n;
}

int block_of_chunk(Collective collective, const GroupRank& at, int chunk) {
  return !has_sizes_of_pairs(collective) && chunk == at.n ? at.rank : chunk;
}

bool has_memory(Collective collective, const GroupRank& at, int chunk) {
  const bool apart = in_blocks(collective) && has_root(collective) && at.rank != at.root;
  return !apart || chunk == own_chunk(collective, at);
}

bool may_write(Collective collective, const GroupRank& at, int chunk) {
  if (has_input_chunks(collective)) return chunk >= at.n;
  return has_result(collective, at);
}

bool begins_with(Collective collective, const GroupRank& at, int chunk) {
  const Chunks chunks = traits_of(collective).chunks;
  if (chunks == Chunks::outputs) return chunk == at.rank;
  return is_source(collective, at) && (!has_input_chunks(collective) || chunk < at.n);
}

std::optional<Contents> ends_with(Collective collective, const GroupRank& at, int chunk) {
  const CollectiveTraits& row = traits_of(collective);
  const bool output = has_input_chunks(collective) ? chunk >= at.n : has_result(collective, at);
  if (!output && !begins_with(collective, at, chunk)) return std::nullopt;
  if (!output) return Contents{one(at.rank), chunk};
  const int source = has_input_chunks(collective) ? at.rank : chunk;
  if (row.adds) return Contents{row.adds(at.rank, at.n), source, true};
  switch (row.chunks) {
    case Chunks::none: return std::nullopt;
    case Chunks::outputs: return Contents{one(chunk), source};
    case Chunks::inputs_and_outputs: return Contents{one(chunk - at.n), source};
    default: return Contents{one(at.root), source};
  }
}

}  // namespace ringwood
