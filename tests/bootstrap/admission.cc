// Who gets in, is kept and is dropped: by hand, and with thousands at the door on a simulated
// clock.
#include "transports/bootstrap/admission/admission.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/bootstrap/admission_world.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;
using Kind = Dialler::Kind;
using Action = Admission::Action;

constexpr Admission::Time kStart = Admission::Time{} + seconds(1);
constexpr Duration kFar = milliseconds(150), kNear = microseconds(100);

// Of one who is accepted with his hello.
Admission::Id speaker(Admission& admission, const std::string& source,
                      Admission::Time now = kStart) {
  const auto id = admission.came(source, now);
  admission.spoke(id);
  return id;
}

std::vector<Admission::Id> challenged(Admission& admission, Admission::Time now = kStart) {
  std::vector<Admission::Id> ids;
  while (const auto action = admission.next(now)) {
    EXPECT_EQ(action->kind, Action::Kind::challenge) << action->why;
    if (action->kind != Action::Kind::challenge) break;
    ids.push_back(action->id);
  }
  return ids;
}

using Ids = std::vector<Admission::Id>;

TEST(Admission, OneSourceLeavesHalfAndEachGetsItsTurn) {
  Admission admission(16);  // 8 challenges
  Ids first;
  for (int i = 0; i < 10; ++i) first.push_back(speaker(admission, "a"));
  EXPECT_EQ(challenged(admission), Ids(first.begin(), first.begin() + 4));
  const auto b = speaker(admission, "b"), c = speaker(admission, "c");
  EXPECT_EQ(challenged(admission), (Ids{b, c}));
  admission.left(first[0]);
  EXPECT_EQ(challenged(admission), Ids{}) << "3 of theirs, 3 are left";
  admission.left(b);
  EXPECT_EQ(challenged(admission), Ids{first[4]}) << "the oldest that waits";
}

TEST(Admission, WhoseReplyMayBeOnItsWayIsKeptWhateverComes) {
  Admission admission(4);
  const auto a = speaker(admission, "a"), b = speaker(admission, "b");
  EXPECT_EQ(challenged(admission), (Ids{a, b}));
  const auto c = speaker(admission, "c");
  const auto silent = admission.came("d", kStart);
  ASSERT_TRUE(admission.full());
  EXPECT_EQ(admission.in_the_way(kStart)->id, silent);
  admission.left(silent);
  speaker(admission, "d");
  const auto late = kStart + Admission::kReplyTime, before = late - milliseconds(1);
  EXPECT_FALSE(admission.in_the_way(before)) << "nor a source's only one that waits";
  EXPECT_FALSE(admission.next(before));
  EXPECT_EQ(admission.next_change(before), late);
  EXPECT_EQ(admission.in_the_way(late)->id, a);
  const auto drop = admission.next(late);
  ASSERT_TRUE(drop);
  EXPECT_EQ(drop->kind, Action::Kind::drop);
  EXPECT_EQ(drop->id, a);
  admission.left(a);
  EXPECT_EQ(admission.next(late)->id, c);
}

TEST(Admission, SilentOnesGiveWayFirstThoseOfTheSourceThatHasMost) {
  Admission admission(6);
  admission.came("few", kStart);
  const auto oldest = admission.came("many", kStart), second = admission.came("many", kStart);
  admission.came("many", kStart);
  for (int i = 0; i < 2; ++i) speaker(admission, "few");
  EXPECT_EQ(admission.in_the_way(kStart)->id, oldest);
  admission.left(oldest);
  EXPECT_FALSE(admission.full());
  EXPECT_EQ(admission.in_the_way(kStart)->id, second);
}

TEST(Admission, OfThoseWhoWaitTheNewestOfTheSourceThatHasMostGivesWay) {
  Admission admission(8);
  for (int i = 0; i < 6; ++i) speaker(admission, "many");
  speaker(admission, "few");
  const auto newest = speaker(admission, "many");
  EXPECT_EQ(challenged(admission).size(), 3u);
  ASSERT_TRUE(admission.full());
  EXPECT_EQ(admission.in_the_way(kStart)->id, newest);
}

TEST(Admission, EachHasFiveSecondsInAStage) {
  Admission admission(8);
  const auto silent = admission.came("a", kStart);
  const auto after = kStart + seconds(4);
  const auto slow = admission.came("b", kStart);
  admission.spoke(slow);
  EXPECT_EQ(challenged(admission, after), Ids{slow});
  EXPECT_EQ(admission.next_change(after), kStart + seconds(5));
  EXPECT_EQ(admission.next(kStart + seconds(5))->id, silent);
  admission.left(silent);
  EXPECT_FALSE(admission.next(after + seconds(5) - milliseconds(1)));
  EXPECT_EQ(admission.next(after + seconds(5))->id, slow);
  admission.left(slow);
  EXPECT_EQ(admission.next_change(after + seconds(5)), Admission::Time::max());
}

// ---- thousands ---------------------------------------------------------------------------------

struct Scene {
  const char* name;
  Kind strangers;
  size_t stranger_hosts, honest_hosts;
  const char* honest_name = "host ";
};

class AdmissionScenes : public ::testing::TestWithParam<Scene> {};

// "stranger 0" as an honest host: one address for both, as behind a router.
INSTANTIATE_TEST_SUITE_P(
    All, AdmissionScenes,
    ::testing::Values(Scene{"SilentOnesOfOneHost", Kind::silent, 1, 250},
                      Scene{"SilentOnesOfManyHosts", Kind::silent, 200, 250},
                      Scene{"SilentOnesOfTheSameHost", Kind::silent, 1, 1, "stranger "},
                      Scene{"HalfSilentOnesOfOneHost", Kind::half_silent, 1, 250},
                      Scene{"HalfSilentOnesOfManyHosts", Kind::half_silent, 200, 250},
                      Scene{"EachOfAHostOfItsOwn", Kind::half_silent, 20, 2000}),
    [](const auto& info) { return info.param.name; });

auto from(const std::string& name, size_t hosts) {
  return [=](size_t i) { return name + std::to_string(i % hosts); };
}

TEST_P(AdmissionScenes, TwoThousandFarPeersGetInAmongTenThousandStrangers) {
  const Scene& scene = GetParam();
  AdmissionWorld world(1024);
  world.add(10'000, {scene.strangers, "", kNear}, from("stranger ", scene.stranger_hosts));
  world.add(2000, {Kind::honest, "", kFar}, from(scene.honest_name, scene.honest_hosts));
  world.run(seconds(10));
  EXPECT_EQ(world.outside(), 0u);
  RecordProperty("slowest_ms", static_cast<int>(world.slowest() / milliseconds(1)));
  RecordProperty("tries", static_cast<int>(world.tries_of_honest()));
}

TEST(Admission, FarPeersAmongThemselvesTryLessThanTwice) {
  AdmissionWorld world(1024);
  world.add(2000, {Kind::honest, "", kFar}, from("host ", 250));
  world.run(seconds(10));
  EXPECT_EQ(world.outside(), 0u);
  EXPECT_LT(world.tries_of_honest(), 4000u);
}

TEST(Admission, FewPlacesAreEnoughForAll) {
  AdmissionWorld world(16);
  world.add(500, {Kind::silent, "", kNear}, from("stranger ", 1));
  world.add(100, {Kind::honest, "", kFar}, from("host ", 20));
  world.run(seconds(30));
  EXPECT_EQ(world.outside(), 0u);
}

}  // namespace
}  // namespace ringwood
