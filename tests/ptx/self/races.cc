// Races of weak accesses, mixed accesses, atomics, ranges and spaces.
#include "tests/ptx/self/texts.h"

namespace ringwood::ptx {
namespace {

Outcomes together(std::vector<std::string> bodies) { return outcomes({std::move(bodies)}); }
Outcomes block(std::vector<std::string> bodies) {
  Litmus litmus{std::move(bodies)};
  litmus.one_block = true;
  return outcomes(litmus);
}

TEST(Races, AreUnorderedAccessesOfWhichOneWrites) {
  EXPECT_EQ(together({"st.u32 [%x0], 1;", "st.u32 [%x0], 2;"}).count(Fault::race), 300);
  EXPECT_EQ(together({"st.u32 [%x0], 1;", "ld.u32 %r1, [%x0];"}).count(Fault::race), 300);
  EXPECT_TRUE(together({"ld.u32 %r1, [%x0];", "ld.u32 %r1, [%x0];", "ld.u32 %r1, [%x0];"}).right());
  EXPECT_TRUE(together({"st.u32 [%x0], 1;", "st.u32 [%x0+4], 2;"}).right());
}

TEST(Races, AreOfBytes) {
  EXPECT_TRUE(together({"st.u8 [%x0], 1;", "st.u8 [%x0+1], 2;", "st.u16 [%x0+2], 3;"}).right());
  EXPECT_FALSE(together({"st.u8 [%x0+1], 1;", "st.u8 [%x0+1], 2;"}).right());
  EXPECT_FALSE(together({"st.u16 [%x0+2], 1;", "ld.u32 %r1, [%x0];"}).right());
  EXPECT_FALSE(together({"ld.v4.u32 {%r1, %r2, %r3, %r4}, [%x0];", "st.u8 [%x0+15], 2;"}).right());
  EXPECT_TRUE(together({"ld.v2.u32 {%r1, %r2}, [%x0];", "st.u8 [%x0+8], 2;"}).right());
}

TEST(Races, AreFoundWithAnyOfManyReaders) {
  const std::string read = "ld.u32 %r1, [%x0];\nred.release.sys.add.u64 [%x0+8], 1;";
  const auto writer = [](const std::string& readers) {
    return "$a: ld.acquire.sys.u64 %d1, [%x0+8];\nsetp.lt.u64 %p1, %d1, " + readers +
           ";\n@%p1 bra $a;\nst.u32 [%x0], 1;";
  };
  EXPECT_TRUE(together({read, read, read, writer("3")}).right());
  EXPECT_FALSE(together({read, read, read, writer("2")}).right());
}

// One after the other, in this order, but not ordered by what the model calls so.
Outcomes after(const std::string& first, const std::string& second,
               const std::string& signal = "relaxed", const std::string& wait = "relaxed") {
  return together({first + "\nst." + signal + ".sys.u64 [%x0+56], 1;",
                   "$a: ld." + wait +
                       ".sys.u64 %d7, [%x0+56];\nsetp.eq.u64 %p1, %d7, 0;\n"
                       "@%p1 bra $a;\n" +
                       second});
}

TEST(Races, AreFoundWhicheverComesFirst) {
  const std::string accesses[] = {"ld.u64 %d1, [%x0];", "st.u64 [%x0], 1;",
                                  "ld.relaxed.sys.u64 %d1, [%x0];", "st.relaxed.sys.u64 [%x0], 1;",
                                  "atom.relaxed.sys.add.u64 %d1, [%x0], 1;"};
  for (const std::string& first : accesses)
    for (const std::string& second : accesses) {
      const auto writes = [](const std::string& one) { return !one.starts_with("ld."); };
      const auto weak = [](const std::string& one) { return one[3] == 'u'; };
      const bool race = (writes(first) || writes(second)) && (weak(first) || weak(second));
      EXPECT_EQ(after(first, second).count(Fault::race), race ? 300 : 0) << first << second;
      EXPECT_TRUE(after(first, second, "release", "acquire").right()) << first << second;
    }
}

TEST(Races, OfAWriteAndTheOneReaderThatDidNotSignal) {
  const auto reader = [](const std::string& order) {
    return "ld.u32 %r1, [%x0];\nred." + order + ".sys.add.u64 [%x0+8], 1;";
  };
  const std::string writer =
      "$a: ld.acquire.sys.u64 %d1, [%x0+8];\nsetp.lt.u64 %p1, %d1, 3;\n"
      "@%p1 bra $a;\nst.u32 [%x0], 1;";
  EXPECT_EQ(together({reader("release"), reader("relaxed"), reader("release"), writer})
                .count(Fault::race),
            300);
}

TEST(Races, OfWeakAndStrongAccesses) {
  EXPECT_GT(together({"st.u64 [%x0], 1;", "ld.relaxed.sys.u64 %d1, [%x0];"}).count(Fault::race), 0);
  EXPECT_FALSE(together({"ld.u64 %d1, [%x0];", "st.relaxed.sys.u64 [%x0], 1;"}).right());
  EXPECT_FALSE(together({"st.u64 [%x0], 1;", "st.relaxed.sys.u64 [%x0], 1;"}).right());
  EXPECT_TRUE(together({"ld.u64 %d1, [%x0];", "ld.relaxed.sys.u64 %d1, [%x0];"}).right());
  EXPECT_FALSE(together({"ld.u8 %r1, [%x0+3];", "red.relaxed.sys.add.u64 [%x0], 1;"}).right());
}

TEST(Races, OfStrongAccessesOfDifferentSizes) {
  const std::string narrow = "st.relaxed.sys.u32 [%x0+4], 1;";
  EXPECT_GT(together({narrow, "ld.relaxed.sys.u64 %d1, [%x0];"}).count(Fault::race), 0);
  EXPECT_TRUE(together({narrow, "ld.relaxed.sys.u32 %r1, [%x0];"}).right());
  // Ordered ones are none, and see each other.
  const Outcomes all = together({narrow + "\nld.relaxed.sys.u64 %d1, [%x0];\nst.u64 [%x1], %d1;\n"
                                          "ld.u64 %d1, [%x0];\nst.u64 [%x1+8], %d1;\n"
                                          "st.u16 [%x0], 5;\nld.relaxed.sys.u64 %d1, [%x0];\n"
                                          "st.u64 [%x1+16], %d1;"});
  EXPECT_TRUE(all.right()) << all.first;
  EXPECT_EQ(all.seen, std::set{(Outcomes::Results{uint64_t{1} << 32, uint64_t{1} << 32,
                                                  (uint64_t{1} << 32) + 5, 0})});
}

TEST(Words, OfDifferentSizesShowEachOthersStores) {
  const Outcomes all =
      together({"ld.relaxed.sys.u64 %d1, [%x0];\nld.relaxed.sys.u32 %r1, [%x0];\n"
                "st.relaxed.sys.u32 [%x0], 7;\nld.relaxed.sys.u64 %d1, [%x0];\n"
                "st.relaxed.sys.u64 [%x0], 8;\nld.relaxed.sys.u32 %r1, [%x0];\n"
                "st.u64 [%x1], %d1;\nst.u32 [%x1+8], %r1;"});
  EXPECT_TRUE(all.right()) << all.first;
  EXPECT_EQ(all.seen, std::set{(Outcomes::Results{7, 8, 0, 0})});
}

TEST(Barriers, OrderABlocksThreads) {
  EXPECT_TRUE(block({"st.u32 [%x0], 1;\nbar.sync 0;", "bar.sync 0;\nld.u32 %r1, [%x0];"}).right());
  EXPECT_FALSE(block({"st.u32 [%x0], 1;", "ld.u32 %r1, [%x0];"}).right());
  EXPECT_FALSE(block({"bar.sync 0;\nst.u32 [%x0], 1;", "bar.sync 0;\nld.u32 %r1, [%x0];"}).right());
  EXPECT_FALSE(
      together({"st.u32 [%x0], 1;\nbar.sync 0;", "bar.sync 0;\nld.u32 %r1, [%x0];"}).right())
      << "of two blocks";
}

TEST(Barriers, OfSomeThreadsAndOfWarps) {
  EXPECT_TRUE(block({"st.u32 [%x0], 1;\nbar.sync 3, 2;", "barrier.sync 3, 2;\nld.u32 %r1, [%x0];",
                     "mov.u32 %r1, 1;"})
                  .right());
  EXPECT_TRUE(block({"st.u32 [%x0], 1;\nbar.warp.sync 3;", "bar.warp.sync 3;\nld.u32 %r1, [%x0];",
                     "mov.u32 %r1, 1;"})
                  .right());
  EXPECT_FALSE(
      block({"st.u32 [%x0], 1;\nbar.warp.sync 5;", "ld.u32 %r1, [%x0];", "bar.warp.sync 5;"})
          .right());
  EXPECT_TRUE(block({"exit;", "bar.sync 0;\nst.u32 [%x0], 1;", "bar.sync 0;"}).right())
      << "those that have ended are not waited for";
}

TEST(Barriers, ReduceAndOrder) {
  const auto vote = [](const std::string& op, const std::string& by) {
    return "setp.eq.u32 %p1, " + by + ", 1;\nbar.red." + op + " 0, %p1;\n";
  };
  const std::string counted = "st.u64 [%x1], %d1;";
  const std::string convert = "cvt.u64.u32 %d1, %r1;\n" + counted;
  const std::string select = "selp.u64 %d1, 1, 0, %p2;\n" + counted;
  const auto results = [](const Outcomes& all) { return *all.seen.begin(); };
  Outcomes all = block({vote("popc.u32 %r1,", "0") + convert, vote("popc.u32 %r1,", "1") + convert,
                        vote("popc.u32 %r1,", "1") + convert});
  EXPECT_EQ(results(all), (Outcomes::Results{2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0}));
  all = block({vote("or.pred %p2,", "0") + select, vote("or.pred %p2,", "1") + select});
  EXPECT_EQ(results(all), (Outcomes::Results{1, 0, 0, 0, 1, 0, 0, 0}));
  all = block({vote("and.pred %p2,", "0") + select, vote("and.pred %p2,", "1") + select});
  EXPECT_EQ(results(all), (Outcomes::Results{0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(block({"st.u32 [%x0], 1;\nsetp.eq.u32 %p1, 0, 1;\nbar.red.or.pred %p2, 0, !%p1;",
                     "setp.eq.u32 %p1, 0, 1;\nbar.red.or.pred %p2, 0, %p1;\nld.u32 %r1, [%x0];"})
                  .right());
}

TEST(Atomics, LoseNothing) {
  const std::string add = "atom.global.add.u32 %r1, [%x0], 3;\nred.global.sys.add.u64 [%x0+8], 1;";
  std::array<uint64_t, 64> words{};
  run_kernel(header() + kernel("k", add), words, 50, 4);
  EXPECT_EQ(words[0], 600u);
  EXPECT_EQ(words[1], 200u);
}

TEST(Atomics, OnlyOneSwaps) {
  const std::string swap =
      "mov.u32 %r1, %tid.x;\nadd.u32 %r1, %r1, 1;\natom.sys.cas.b32 %r2, [%x0], 0, %r1;\n"
      "setp.ne.u32 %p1, %r2, 0;\n@%p1 ret;\nred.add.u32 [%x0+8], 1;";
  for (uint64_t seed = 1; seed < 20; ++seed) {
    std::array<uint64_t, 64> words{};
    run_kernel(header() + kernel("k", swap), words, 40, 1, 0, seed);
    EXPECT_TRUE(words[0] >= 1 && words[0] <= 40);
    EXPECT_EQ(words[1], 1u);
  }
}

TEST(Atomics, DoWhatTheirNamesSay) {
  struct Row {
    const char* text;
    uint64_t before, after;
  };
  constexpr uint64_t kAll32 = 0xffffffff;
  for (const Row& row : {Row{"add.u32 %r1, [%x0], 5", kAll32, 4},
                         {"and.b32 %r1, [%x0], 12", 10, 8},
                         {"or.b32 %r1, [%x0], 12", 10, 14},
                         {"xor.b32 %r1, [%x0], 12", 10, 6},
                         {"exch.b32 %r1, [%x0], 9", 10, 9},
                         {"cas.b32 %r1, [%x0], 10, 3", 10, 3},
                         {"cas.b32 %r1, [%x0], 11, 3", 10, 10},
                         {"inc.u32 %r1, [%x0], 10", 10, 0},
                         {"inc.u32 %r1, [%x0], 11", 10, 11},
                         {"dec.u32 %r1, [%x0], 9", 10, 9},
                         {"dec.u32 %r1, [%x0], 10", 10, 9},
                         {"dec.u32 %r1, [%x0], 10", 0, 10},
                         {"min.s32 %r1, [%x0], -1", 10, kAll32},
                         {"min.u32 %r1, [%x0], -1", 10, 10},
                         {"max.s32 %r1, [%x0], -1", 10, 10},
                         {"max.u32 %r1, [%x0], -1", 10, kAll32},
                         {"add.f32 %f1, [%x0], 0f3F800000", 0x40000000, 0x40400000},
                         {"add.u64 %d1, [%x0], -1", 10, 9},
                         {"exch.b64 %d1, [%x0], -1", 10, ~uint64_t{0}},
                         {"cas.b64 %d1, [%x0], 10, 1", 10, 1},
                         {"min.s64 %d1, [%x0], -2", 10, ~uint64_t{0} - 1},
                         {"max.u64 %d1, [%x0], 11", 10, 11},
                         {"add.f64 %g1, [%x0], 0d3FF0000000000000", 0, 0x3ff0000000000000}}) {
    std::array<uint64_t, 64> words{row.before};
    std::string text = row.text;
    const std::string result = text.substr(text.find('%'), text.find(',') - text.find('%'));
    text = "atom.acq_rel.sys.global." + text + ";\nst.b" +
           (result[1] == 'r' || result[1] == 'f' ? "32" : "64") + " [%x0+8], " + result + ";";
    run_kernel(header() + kernel("k", text), words);
    EXPECT_EQ(words[0], row.after) << row.text;
    EXPECT_EQ(words[1], row.before) << row.text;
  }
}

TEST(Ranges, AreAllThatMayBeAccessed) {
  EXPECT_EQ(thrown_by("ld.u32 %r1, [%x0+508];").text, "nothing is thrown");
  const Thrown behind = thrown_by("st.global.u32 [%x0+512], 1;");
  EXPECT_EQ(behind.kind, Fault::outside);
  EXPECT_TRUE(has(behind.text, "line 14: st.global.u32 [%x0+512], 1: thread 0 of block 0"));
  EXPECT_TRUE(has(behind.text, "in no range, 0 bytes behind words"));
  EXPECT_EQ(thrown_by("ld.v4.u32 {%r1, %r2, %r3, %r4}, [%x0+504];").kind, Fault::outside);
  EXPECT_EQ(thrown_by("ld.u32 %r1, [%x0+-4];").kind, Fault::outside);
  EXPECT_EQ(thrown_by("mov.u64 %d1, 0;\nld.u32 %r1, [%d1];").kind, Fault::outside);
  EXPECT_EQ(thrown_by("atom.add.u32 %r1, [%x0+512], 1;").kind, Fault::outside);
}

TEST(Ranges, OfTestsMustNotOverlap) {
  const Module module(header());
  Machine machine(module);
  std::array<char, 64> bytes{};
  machine.map("one", bytes.data(), 32);
  machine.map("next", bytes.data() + 32, 32);
  EXPECT_THROW(machine.map("again", bytes.data() + 31, 2), std::invalid_argument);
  EXPECT_THROW(machine.map("again", bytes.data(), 64), std::invalid_argument);
}

TEST(Alignment, IsThatOfTheWholeVector) {
  EXPECT_EQ(thrown_by("ld.u32 %r1, [%x0+2];").kind, Fault::misaligned);
  EXPECT_EQ(thrown_by("ld.v2.u32 {%r1, %r2}, [%x0+4];").kind, Fault::misaligned);
  EXPECT_EQ(thrown_by("st.relaxed.sys.u64 [%x0+4], 1;").kind, Fault::misaligned);
  EXPECT_EQ(thrown_by("st.local.u64 [__local+4], 1;", ".local .align 8 .b8 __local[16];\n").kind,
            Fault::misaligned);
}

constexpr const char* kSpaces = ".shared .align 8 .b8 mine[64];\n.local .align 8 .b8 own[32];\n";

TEST(Spaces, AreThoseOfTheInstruction) {
  const auto kind = [](const std::string& body) { return thrown_by(body, kSpaces).kind; };
  EXPECT_EQ(kind("mov.u64 %d1, mine;\nst.global.u32 [%d1], 1;"), Fault::outside);
  EXPECT_EQ(kind("st.shared.u32 [%x0], 1;"), Fault::outside);
  EXPECT_EQ(kind("mov.u64 %d1, own;\nst.shared.u32 [%d1], 1;"), Fault::outside);
  EXPECT_EQ(kind("st.u64 [%x0], %d1;\nst.local.u64 [own+32], 1;"), Fault::outside);
  EXPECT_EQ(kind("st.param.u64 [k_p], 1;"), Fault::outside);
  EXPECT_EQ(kind("cvta.shared.u64 %d1, mine;\nst.u32 [%d1], 1;\nld.u32 %r1, [%d1];\n"
                 "mov.u64 %d2, own;\ncvta.local.u64 %d2, %d2;\nst.u32 [%d2], 1;\n"
                 "mov.u32 %r2, mine;\nld.shared.u32 %r1, [%r2];"),
            Fault::wrong);
}

TEST(Spaces, OfOthersAreNotReached) {
  std::array<uint64_t, 64> words{};
  // The second thread gets the address of the first one's local memory.
  const std::string body =
      "mov.u64 %d1, own;\ncvta.local.u64 %d1, %d1;\nst.local.u32 [own], 1;\nmov.u32 %r1, %tid.x;\n"
      "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.u64 [%x0], %d1;\nbar.sync 0;\nld.u64 %d2, [%x0];\n"
      "@!%p1 ld.u32 %r2, [%d2];";
  const auto one = thrown(header() + kernel("k", body, kSpaces), words, 2);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->kind, Fault::outside);
  EXPECT_TRUE(has(one->text, "not this thread's"));
}

TEST(Memory, ThatNobodyHasWrittenIsNotRead) {
  const auto kind = [](const std::string& body) { return thrown_by(body, kSpaces).kind; };
  EXPECT_EQ(kind("ld.shared.u32 %r1, [mine];"), Fault::uninitialised);
  EXPECT_EQ(kind("ld.local.u32 %r1, [own];"), Fault::uninitialised);
  EXPECT_EQ(kind("st.shared.u8 [mine], 1;\nld.shared.u16 %r1, [mine];"), Fault::uninitialised);
  EXPECT_EQ(kind("atom.shared.or.b32 %r1, [mine], 1;"), Fault::uninitialised);
  EXPECT_EQ(kind("ld.relaxed.cta.shared.u32 %r1, [mine];"), Fault::uninitialised);
  EXPECT_EQ(kind("st.relaxed.cta.shared.u32 [mine], 1;\nld.shared.u32 %r1, [mine];\n"
                 "atom.shared.or.b32 %r1, [mine], 1;\nst.local.u64 [own], 1;\n"
                 "ld.local.u32 %r1, [own+4];"),
            Fault::wrong);
}

}  // namespace
}  // namespace ringwood::ptx
