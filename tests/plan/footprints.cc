// Which operations must follow each other, because they touch the same memory.
#include "collectives/plan/footprint.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <utility>

namespace ringwood {
namespace {

TEST(Footprints, ConflictWhereOneWritesWhatTheOtherTouches) {
  std::byte memory[100];
  const auto of = [&](std::initializer_list<std::pair<int, int>> read,
                      std::initializer_list<std::pair<int, int>> written) {
    Footprint f;
    for (const auto& [at, bytes] : read) f.read(memory + at, static_cast<size_t>(bytes));
    for (const auto& [at, bytes] : written) f.write(memory + at, static_cast<size_t>(bytes));
    f.sort();
    return f;
  };
  const Footprint some = of({{50, 10}, {0, 10}, {5, 10}}, {{80, 5}});
  EXPECT_FALSE(some.conflicts(of({{0, 80}, {85, 15}}, {})));
  EXPECT_FALSE(some.conflicts(of({}, {{15, 35}, {60, 20}, {85, 15}, {7, 0}})));
  EXPECT_TRUE(some.conflicts(of({{84, 1}}, {})));
  EXPECT_TRUE(some.conflicts(of({}, {{84, 1}})));
  EXPECT_TRUE(some.conflicts(of({}, {{14, 1}})));
  EXPECT_TRUE(some.conflicts(of({}, {{20, 10}, {59, 1}})));
  EXPECT_FALSE(some.conflicts(of({}, {})));
}

}  // namespace
}  // namespace ringwood
