// The memory model by litmus tests: what is allowed is seen, and what is forbidden is not.
#include "tests/ptx/self/texts.h"

namespace ringwood::ptx {
namespace {

using Results = Outcomes::Results;

// Of message passing: the data are word 0, the flag is word 1. The reader's results: flag, data.
Outcomes pass_message(const std::string& write, const std::string& signal, const std::string& wait,
                      const std::string& read, std::vector<int> devices = {0, 1}) {
  const std::string writer = write + " [%x0], 7;\n" + signal;
  const std::string reader = wait +
                             "\nst.u64 [%x1], %d1;\nsetp.eq.u64 %p1, %d1, 0;\n@%p1 bra $no;\n" +
                             read + " %d2, [%x0];\nst.u64 [%x1+8], %d2;\n$no:\n";
  return outcomes({{writer, reader}, std::move(devices)});
}
const Results kMissed = {0, 0, 0, 0, 0, 0, 0, 0}, kPassed = {0, 0, 0, 0, 1, 7, 0, 0},
              kStale = {0, 0, 0, 0, 1, 0, 0, 0};

constexpr const char* kRelease = "st.release.sys.u64 [%x0+8], 1;";
constexpr const char* kAcquire = "ld.acquire.sys.u64 %d1, [%x0+8];";
constexpr const char* kRelaxedStore = "st.relaxed.sys.u64 [%x0+8], 1;";
constexpr const char* kRelaxedLoad = "ld.relaxed.sys.u64 %d1, [%x0+8];";

TEST(MessagePassing, WithReleaseAndAcquireIsRight) {
  const Outcomes all = pass_message("st.u64", kRelease, kAcquire, "ld.u64");
  EXPECT_TRUE(all.right()) << all.first;
  EXPECT_EQ(all.seen, (std::set{kMissed, kPassed}));
}

TEST(MessagePassing, OfStrongDataIsRightTooWithReleaseAndAcquire) {
  const Outcomes all = pass_message("st.relaxed.sys.u64", kRelease, kAcquire, "ld.relaxed.sys.u64");
  EXPECT_EQ(all.seen, (std::set{kMissed, kPassed}));
}

TEST(MessagePassing, WithoutEitherSideIsARaceOfWeakData) {
  for (const auto& [signal, wait] : {std::pair{kRelaxedStore, kAcquire},
                                     {kRelease, kRelaxedLoad},
                                     {kRelaxedStore, kRelaxedLoad}}) {
    const Outcomes all = pass_message("st.u64", signal, wait, "ld.u64");
    EXPECT_GT(all.count(Fault::race), 20) << signal << wait;
    EXPECT_NE(all.first.find("words + 0 reads, unordered, what was written by thread 0 of block 0 "
                             "of k0 on device 0 in line 15"),
              std::string::npos)
        << all.first;
  }
}

TEST(MessagePassing, WithoutEitherSideLeavesStrongDataStale) {
  for (const auto& [signal, wait] :
       {std::pair{kRelaxedStore, kAcquire}, {kRelease, kRelaxedLoad}}) {
    const Outcomes all = pass_message("st.relaxed.sys.u64", signal, wait, "ld.relaxed.sys.u64");
    EXPECT_TRUE(all.right()) << all.first;
    EXPECT_EQ(all.seen, (std::set{kMissed, kPassed, kStale})) << signal << wait;
  }
}

TEST(MessagePassing, ByFencesIsRightAndNeedsBoth) {
  const std::string fence = "fence.acq_rel.sys;\n";
  const std::string wait = kRelaxedLoad + ("\n" + fence);
  EXPECT_TRUE(pass_message("st.u64", fence + kRelaxedStore, wait, "ld.u64").right());
  EXPECT_TRUE(pass_message("st.u64", fence + kRelaxedStore, kAcquire, "ld.u64").right());
  EXPECT_TRUE(pass_message("st.u64", kRelease, wait, "ld.u64").right());
  EXPECT_TRUE(
      pass_message("st.u64", "membar.sys;\n" + std::string(kRelaxedStore), wait, "ld.u64").right());
  EXPECT_FALSE(pass_message("st.u64", fence + kRelaxedStore, kRelaxedLoad, "ld.u64").right());
  EXPECT_FALSE(pass_message("st.u64", kRelaxedStore, wait, "ld.u64").right());
  EXPECT_FALSE(pass_message("st.u64", kRelaxedStore + ("\n" + fence), wait, "ld.u64").right())
      << "a fence behind the store";
  EXPECT_FALSE(pass_message("st.u64", fence + kRelaxedStore,
                            "fence.acq_rel.sys;\n" + std::string(kRelaxedLoad), "ld.u64")
                   .right())
      << "a fence before the load";
}

TEST(MessagePassing, ByNarrowFencesIsRightOnlyWithinTheirScope) {
  const auto by = [](const std::string& scope, std::vector<int> devices) {
    const std::string fence = "fence.acq_rel." + scope + ";\n";
    return pass_message("st.u64", fence + kRelaxedStore, kRelaxedLoad + ("\n" + fence), "ld.u64",
                        std::move(devices));
  };
  EXPECT_TRUE(by("gpu", {3, 3}).right());
  EXPECT_FALSE(by("gpu", {0, 1}).right());
  EXPECT_FALSE(by("cta", {3, 3}).right());
}

TEST(MessagePassing, NeedsTheScopeOnBothSides) {
  const std::string wait = kRelaxedLoad + std::string("\nfence.acq_rel.gpu;\n");
  const auto by = [&](const std::string& signal, const std::string& how) {
    return pass_message("st.u64", signal, how, "ld.u64");
  };
  const std::string narrow = "fence.acq_rel.gpu;\n" + std::string(kRelaxedStore);
  EXPECT_FALSE(by(narrow, kAcquire).right());
  EXPECT_FALSE(by(kRelease, wait).right());
  EXPECT_TRUE(by("fence.acq_rel.sys;\n" + narrow, kAcquire).right()) << "an earlier fence holds";
}

// What is done after it has been published is not.
TEST(MessagePassing, IsOfWhatCameBefore) {
  const std::string read = std::string(kAcquire) +
                           "\nsetp.eq.u64 %p1, %d1, 0;\n@%p1 bra $no;\nld.u64 %d2, [%x0];\n$no:\n";
  for (const std::string signal : {kRelease, "fence.acq_rel.sys;\nst.relaxed.sys.u64 [%x0+8], 1;"})
    EXPECT_GT(outcomes({{signal + "\nst.u64 [%x0], 7;", read}}).count(Fault::race), 20) << signal;
}

TEST(MessagePassing, InNarrowScopesIsAnErrorBeyondThem) {
  const auto by = [](const char* scope, std::vector<int> devices) {
    const std::string name = scope;
    return pass_message("st.u64", "st.release." + name + ".u64 [%x0+8], 1;",
                        "ld.acquire." + name + ".u64 %d1, [%x0+8];", "ld.u64", std::move(devices));
  };
  EXPECT_TRUE(by("gpu", {0, 0}).right());
  EXPECT_GT(by("gpu", {0, 1}).count(Fault::scope), 100);
  EXPECT_GT(by("cta", {0, 0}).count(Fault::scope), 100);
  Litmus block{{"st.u64 [%x0], 7;\nst.release.cta.u64 [%x0+8], 1;",
                "ld.acquire.cta.u64 %d1, [%x0+8];\nsetp.eq.u64 %p1, %d1, 0;\n@%p1 bra $no;\n"
                "ld.u64 %d2, [%x0];\n$no:"}};
  block.one_block = true;
  EXPECT_TRUE(outcomes(block).right());
}

TEST(MessagePassing, GoesOnThroughAThirdThread) {
  const auto chain = [](const std::string& order) {
    return outcomes(
        {{"st.u64 [%x0], 7;\nst.release.sys.u64 [%x0+8], 1;",
          "$a: ld.acquire.sys.u64 %d1, [%x0+8];\nsetp.eq.u64 %p1, %d1, 0;\n@%p1 bra $a;\n"
          "st." +
              order + ".sys.u64 [%x0+16], 1;",
          "$b: ld.acquire.sys.u64 %d1, [%x0+16];\nsetp.eq.u64 %p1, %d1, 0;\n"
          "@%p1 bra $b;\nld.u64 %d2, [%x0];\nst.u64 [%x1], %d2;"}});
  };
  EXPECT_TRUE(chain("release").right());
  EXPECT_EQ(chain("release").seen.size(), 1u);
  EXPECT_FALSE(chain("relaxed").right());
}

// A read-modify-write passes on what it has read; a plain store does not.
TEST(MessagePassing, GoesOnThroughReadModifyWrites) {
  const auto through = [](const std::string& middle) {
    return outcomes({{"st.u64 [%x0], 7;\nst.release.sys.u64 [%x0+8], 1;",
                      "$a: ld.relaxed.sys.u64 %d1, [%x0+8];\nsetp.eq.u64 %p1, %d1, 0;\n"
                      "@%p1 bra $a;\n" +
                          middle,
                      "$b: ld.acquire.sys.u64 %d1, [%x0+8];\nsetp.ne.u64 %p1, %d1, 2;\n"
                      "@%p1 bra $b;\nld.u64 %d2, [%x0];\nst.u64 [%x1], %d2;"}});
  };
  EXPECT_TRUE(through("atom.relaxed.sys.add.u64 %d2, [%x0+8], 1;").right());
  EXPECT_TRUE(through("red.relaxed.sys.add.u64 [%x0+8], 1;").right());
  EXPECT_FALSE(through("st.relaxed.sys.u64 [%x0+8], 2;").right());
}

Outcomes store_buffering(const std::string& store, const std::string& between,
                         const std::string& load, std::vector<int> devices = {0, 1}) {
  return outcomes({{store + " [%x0], 1;\n" + between + load + " %d1, [%x0+8];\nst.u64 [%x1], %d1;",
                    store + " [%x0+8], 1;\n" + between + load + " %d1, [%x0];\nst.u64 [%x1], %d1;"},
                   std::move(devices)});
}
const Results kNeither = {0, 0, 0, 0, 0, 0, 0, 0};

TEST(StoreBuffering, IsSeenUnlessFencesAreConsistent) {
  EXPECT_TRUE(
      store_buffering("st.relaxed.sys.u64", "", "ld.relaxed.sys.u64").seen.contains(kNeither));
  EXPECT_TRUE(
      store_buffering("st.release.sys.u64", "", "ld.acquire.sys.u64").seen.contains(kNeither));
  EXPECT_TRUE(store_buffering("st.relaxed.sys.u64", "fence.acq_rel.sys;\n", "ld.relaxed.sys.u64")
                  .seen.contains(kNeither));
  const Outcomes all =
      store_buffering("st.relaxed.sys.u64", "fence.sc.sys;\n", "ld.relaxed.sys.u64");
  EXPECT_TRUE(all.right());
  EXPECT_FALSE(all.seen.contains(kNeither));
  EXPECT_EQ(all.seen.size(), 3u);
}

TEST(StoreBuffering, IsSeenAcrossFencesOfTooNarrowAScope) {
  const auto by = [](const char* fence, std::vector<int> devices) {
    return store_buffering("st.relaxed.sys.u64", fence, "ld.relaxed.sys.u64", std::move(devices))
        .seen.contains(kNeither);
  };
  EXPECT_TRUE(by("fence.sc.gpu;\n", {0, 1}));
  EXPECT_FALSE(by("fence.sc.gpu;\n", {2, 2}));
  EXPECT_TRUE(by("membar.cta;\n", {2, 2}));
  EXPECT_FALSE(by("membar.gl;\n", {2, 2}));
}

// Two readers see two independent stores in different orders.
TEST(IndependentReads, DisagreeUnlessFencesAreConsistent) {
  const auto readers = [](const std::string& between) {
    const auto reader = [&](const char* first, const char* second) {
      return std::string("ld.acquire.sys.u64 %d1, [%x0+") + first + "];\n" + between +
             "ld.acquire.sys.u64 %d2, [%x0+" + second +
             "];\nst.u64 [%x1], %d1;\nst.u64 [%x1+8], %d2;";
    };
    return outcomes({{"st.relaxed.sys.u64 [%x0], 1;", "st.relaxed.sys.u64 [%x0+8], 1;",
                      reader("0", "8"), reader("8", "0")},
                     {},
                     false,
                     1500});
  };
  const Results disagree = {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
  EXPECT_TRUE(readers("").seen.contains(disagree));
  EXPECT_FALSE(readers("fence.sc.sys;\n").seen.contains(disagree));
}

TEST(Coherence, AThreadNeverGoesBack) {
  const Outcomes all = outcomes(
      {{"st.relaxed.sys.u64 [%x0], 1;\nst.relaxed.sys.u64 [%x0], 2;",
        "ld.relaxed.sys.u64 %d1, [%x0];\nld.relaxed.sys.u64 %d2, [%x0];\nst.u64 [%x1], %d1;\n"
        "st.u64 [%x1+8], %d2;"}});
  EXPECT_TRUE(all.right());
  for (const Results& one : all.seen) EXPECT_LE(one[4], one[5]);
  EXPECT_EQ(all.seen.size(), 6u) << "every pair that does not go back";
}

TEST(Coherence, NorDoesWhoeverKnowsWhatItHasRead) {
  const auto told = [](const std::string& release) {
    return outcomes(
        {{"st.relaxed.sys.u64 [%x0], 1;",
          "$a: ld.relaxed.sys.u64 %d1, [%x0];\nsetp.eq.u64 %p1, %d1, 0;\n@%p1 bra $a;\nst." +
              release + ".sys.u64 [%x0+8], 1;",
          "$b: ld.acquire.sys.u64 %d1, [%x0+8];\nsetp.eq.u64 %p1, %d1, 0;\n@%p1 bra $b;\n"
          "ld.relaxed.sys.u64 %d2, [%x0];\nst.u64 [%x1], %d2;"}});
  };
  EXPECT_EQ(told("release").seen.size(), 1u);
  EXPECT_EQ(told("relaxed").seen.size(), 2u);
}

// Where the machine is stronger than PTX: a load returns nothing that is stored later.
TEST(LoadBuffering, IsNotSeen) {
  const Outcomes all = outcomes(
      {{"ld.relaxed.sys.u64 %d1, [%x0];\nst.relaxed.sys.u64 [%x0+8], 1;\nst.u64 [%x1], %d1;",
        "ld.relaxed.sys.u64 %d1, [%x0+8];\nst.relaxed.sys.u64 [%x0], 1;\nst.u64 [%x1], %d1;"}});
  EXPECT_FALSE(all.seen.contains(Results{1, 0, 0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(all.seen.size(), 3u);
}

TEST(Vectors, HaveNoOrderAmongTheirElements) {
  const Outcomes all =
      outcomes({{"st.relaxed.sys.v2.u64 [%x0], {1, 1};",
                 "ld.relaxed.sys.v2.u64 {%d1, %d2}, [%x0];\nst.v2.u64 [%x1], {%d1, %d2};"}});
  EXPECT_TRUE(all.right()) << all.first;
  EXPECT_EQ(all.seen.size(), 4u);
}

// The flag is the first element.
TEST(Vectors, AcquireWithoutAnOrderToo) {
  const Outcomes all =
      outcomes({{"st.relaxed.sys.u64 [%x0+8], 1;\nst.release.sys.u64 [%x0], 1;",
                 "ld.acquire.sys.v2.u64 {%d1, %d2}, [%x0];\nst.v2.u64 [%x1], {%d1, %d2};"}});
  EXPECT_EQ(all.seen.size(), 4u);
}

TEST(Volatile, IsRelaxed) {
  EXPECT_TRUE(pass_message("st.volatile.u64", "st.volatile.u64 [%x0+8], 1;",
                           "ld.volatile.u64 %d1, [%x0+8];", "ld.volatile.u64")
                  .seen.contains(kStale));
}

}  // namespace
}  // namespace ringwood::ptx
