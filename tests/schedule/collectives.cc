// The rows of facts (collective.h), against what MPI says of each collective, written out for three
// ranks with root 1.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/schedule/collective.h"

namespace ringwood {
namespace {

constexpr int kRanks = 3, kRoot = 1;

// By rank. Chunks: x it begins with its own data, w may be written, m has memory. What each must
// contain at the end: 0.2 rank 0's chunk 2, +012.2 the sum of all ranks' chunk 2, - anything.
struct Facts {
  Collective collective;
  const char* begins[kRanks];
  const char* writable[kRanks];
  const char* memory[kRanks];
  const char* ends[kRanks];
  int inputs[kRanks], outputs[kRanks];  // blocks
};

const Facts kFacts[] = {
    {Collective::all_reduce,
     {"xx", "xx", "xx"},
     {"ww", "ww", "ww"},
     {"mm", "mm", "mm"},
     {"+012.0 +012.1", "+012.0 +012.1", "+012.0 +012.1"},
     {1, 1, 1},
     {1, 1, 1}},
    {Collective::reduce,
     {"xx", "xx", "xx"},
     {"..", "ww", ".."},
     {"mm", "mm", "mm"},
     {"0.0 0.1", "+012.0 +012.1", "2.0 2.1"},
     {1, 1, 1},
     {1, 1, 1}},
    {Collective::broadcast,
     {"..", "xx", ".."},
     {"ww", "ww", "ww"},
     {"mm", "mm", "mm"},
     {"1.0 1.1", "1.0 1.1", "1.0 1.1"},
     {1, 1, 1},
     {1, 1, 1}},
    {Collective::all_gather,
     {"x..", ".x.", "..x"},
     {"www", "www", "www"},
     {"mmm", "mmm", "mmm"},
     {"0.0 1.1 2.2", "0.0 1.1 2.2", "0.0 1.1 2.2"},
     {1, 1, 1},
     {3, 3, 3}},
    {Collective::gather,
     {"x..", ".x.", "..x"},
     {"...", "www", "..."},
     {"m..", "mmm", "..m"},
     {"0.0 - -", "0.0 1.1 2.2", "- - 2.2"},
     {1, 1, 1},
     {0, 3, 0}},
    {Collective::reduce_scatter,
     {"xxx.", "xxx.", "xxx."},
     {"...w", "...w", "...w"},
     {"mmmm", "mmmm", "mmmm"},
     {"0.0 0.1 0.2 +012.0", "1.0 1.1 1.2 +012.1", "2.0 2.1 2.2 +012.2"},
     {3, 3, 3},
     {1, 1, 1}},
    {Collective::scatter,
     {"....", "xxx.", "...."},
     {"...w", "...w", "...w"},
     {"...m", "mmmm", "...m"},
     {"- - - 1.0", "1.0 1.1 1.2 1.1", "- - - 1.2"},
     {0, 3, 0},
     {1, 1, 1}},
    {Collective::all_to_all,
     {"xxx...", "xxx...", "xxx..."},
     {"...www", "...www", "...www"},
     {"mmmmmm", "mmmmmm", "mmmmmm"},
     {"0.0 0.1 0.2 0.0 1.0 2.0", "1.0 1.1 1.2 0.1 1.1 2.1", "2.0 2.1 2.2 0.2 1.2 2.2"},
     {3, 3, 3},
     {3, 3, 3}},
    {Collective::barrier, {"", "", ""}, {"", "", ""}, {"", "", ""}, {"", "", ""}, {}, {}},
};

std::string words(const std::optional<Contents>& contents) {
  if (!contents) return "-";
  const auto [ranks, chunk, reduced] = *contents;
  std::string whose = reduced ? "+" : "";
  for (int i = 0; i < ranks.count; ++i) whose += std::to_string(ranks.first + i);
  return fmt::format("{}.{}", whose, chunk);
}

TEST(CollectiveTraits, AreWhatEveryRankBeginsAndEndsWith) {
  ASSERT_EQ(std::size(kFacts), static_cast<size_t>(kCollectives));
  for (const Facts& facts : kFacts) {
    const Collective c = facts.collective;
    for (int rank = 0; rank < kRanks; ++rank) {
      SCOPED_TRACE(fmt::format("{} rank {}", to_string(c), rank));
      const GroupRank at{rank, kRanks, has_root(c) ? kRoot : 0};
      const int chunks = cut_from_one_buffer(c) ? 2 : required_chunks(c, kRanks);
      std::string begins, writable, memory, ends;
      for (int chunk = 0; chunk < chunks; ++chunk) {
        begins += begins_with(c, at, chunk) ? 'x' : '.';
        memory += has_memory(c, at, chunk) ? 'm' : '.';
        writable += may_write(c, at, chunk) ? 'w' : '.';
        ends += (chunk ? " " : "") + words(ends_with(c, at, chunk));
      }
      EXPECT_EQ(begins, facts.begins[rank]);
      EXPECT_EQ(writable, facts.writable[rank]);
      EXPECT_EQ(memory, facts.memory[rank]);
      EXPECT_EQ(ends, facts.ends[rank]);
      EXPECT_EQ(input_blocks(c, at), facts.inputs[rank]);
      EXPECT_EQ(output_blocks(c, at), facts.outputs[rank]);
    }
  }
}

// What one rank's chunk sends is what the other's receives: its data end there.
TEST(CollectiveTraits, PairChunksThatMeet) {
  for (const CollectiveTraits& row : kCollectiveTraits) {
    const Collective c = row.collective;
    if (!in_blocks(c) || reduces(c)) continue;
    for (int from = 0; from < kRanks; ++from)
      for (int to = 0; to < kRanks; ++to) {
        const GroupRank sender{from, kRanks, kRoot}, receiver{to, kRanks, kRoot};
        if (!is_source(c, sender) || !has_result(c, receiver)) continue;
        const Contents sent{{from, 1}, chunk_sent(c, sender, to)};
        EXPECT_EQ(ends_with(c, receiver, chunk_received(c, receiver, from)), sent) << row.name;
        EXPECT_TRUE(begins_with(c, sender, sent.chunk)) << row.name;
      }
  }
}

}  // namespace
}  // namespace ringwood
