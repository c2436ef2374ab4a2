// Threads, calls, streams, hangs, seeds, and what is not known.
#include <cstring>

#include "tests/ptx/self/texts.h"

namespace ringwood::ptx {
namespace {

std::array<uint64_t, 64> words_after(const std::string& text, int threads = 1, int blocks = 1,
                                     uint32_t dynamic = 0) {
  std::array<uint64_t, 64> words{};
  run_kernel(text, words, threads, blocks, dynamic);
  return words;
}

TEST(Threads, KnowWhereTheyAre) {
  const auto words = words_after(
      header() +
          kernel(
              "k",
              "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"
              "mad.lo.u32 %r4, %r1, %r2, %r3;\nmov.u32 %r5, %nctaid.x;\nmul.lo.u32 %r6, %r5, %r2;\n"
              "shl.b32 %r6, %r6, 8;\nmov.u32 %r7, %tid.y;\nadd.u32 %r6, %r6, %r7;\n"
              "mov.u32 %r8, %laneid;\nadd.u32 %r6, %r6, %r8;\nmul.wide.u32 %d1, %r4, 8;\n"
              "add.u64 %d1, %d1, %x0;\nst.u32 [%d1], %r6;"),
      4, 3);
  for (uint64_t i = 0; i < 12; ++i) EXPECT_EQ(words[i], (12 << 8) + i % 4);
}

TEST(Calls, PassBytesBothWaysAndRecurse) {
  // Sums n + ... + 1, through a frame with local memory each; and a structure by value.
  const std::string text =
      header() +
      ".func (.param .b64 result) sum (.param .b64 n, .param .align 8 .b8 pair[16])\n{\n"
      ".local .align 8 .b8 kept[8];\n.reg .b64 %d<8>;\n.reg .pred %p<2>;\n"
      "ld.param.u64 %d0, [n];\nst.local.u64 [kept], %d0;\nld.param.u64 %d5, [pair+8];\n"
      "setp.eq.u64 %p1, %d0, 0;\n@%p1 bra $zero;\nsub.u64 %d1, %d0, 1;\n"
      "{\n.param .b64 param0;\n.param .align 8 .b8 param1[16];\n.param .b64 retval0;\n"
      "st.param.b64 [param0+0], %d1;\nst.param.b64 [param1], %d0;\nst.param.b64 [param1+8], %d5;\n"
      "call.uni (retval0), sum, (param0, param1);\nld.param.b64 %d2, [retval0+0];\n}\n"
      "ld.local.u64 %d3, [kept];\nadd.u64 %d2, %d2, %d3;\nst.param.b64 [result+0], %d2;\nret;\n"
      "$zero: st.param.b64 [result+0], %d5;\nret;\n}\n" +
      kernel("k",
             "{ .param .b64 a; .param .align 8 .b8 b[16]; .param .b64 r;\n"
             "st.param.v2.b64 [b], {0, 1000}; st.param.b64 [a], 10;\n"
             "call (r), sum, (a, b);\nld.param.b64 %d1, [r]; }\nst.u64 [%x0], %d1;");
  EXPECT_EQ(words_after(text)[0], 1055u);
}

TEST(Calls, MayComeBeforeTheirFunction) {
  const std::string text = header() + ".func twice (.param .b64 at)\n;\n" +
                           kernel("k",
                                  "{ .param .b64 param0; st.param.b64 [param0], %x0;\n"
                                  "call.uni twice, (param0); }") +
                           ".func twice (.param .b64 at)\n{\n.reg .b64 %d<4>;\n"
                           "ld.param.u64 %d0, [at];\nst.u64 [%d0], 5;\nret;\n}\n";
  EXPECT_EQ(words_after(text)[0], 5u);
}

TEST(Branches, GoByTable) {
  const auto words = words_after(
      header() + kernel("k",
                        "mov.u32 %r1, %tid.x;\n$table: .branchtargets $a, $b, $c;\n"
                        "brx.idx %r1, $table;\n$a: mov.u64 %d2, 7; bra.uni $end;\n"
                        "$b: mov.u64 %d2, 8; bra $end;\n$c: mov.u64 %d2, 9;\n$end:\n"
                        "mul.wide.u32 %d1, %r1, 8;\nadd.u64 %d1, %d1, %x0;\nst.u64 [%d1], %d2;"),
      3);
  EXPECT_EQ(words[0], 7u);
  EXPECT_EQ(words[1], 8u);
  EXPECT_EQ(words[2], 9u);
  EXPECT_EQ(thrown_by("$t: .branchtargets $a;\nmov.u32 %r1, 1;\nbrx.idx %r1, $t;\n$a:").kind,
            Fault::outside);
}

TEST(Guards, HoldBackOrNot) {
  const auto words = words_after(header() + kernel("k",
                                                   "setp.eq.u32 %p1, 1, 1;\n@%p1 st.u64 [%x0], 1;\n"
                                                   "@!%p1 st.u64 [%x0], 2;\n@!%p1 trap;\n"
                                                   "@%p1 bra $e;\nst.u64 [%x0], 3;\n$e:"));
  EXPECT_EQ(words[0], 1u);
}

TEST(Variables, OfModulesAreThereAndInitialised) {
  const auto words = words_after(
      header() +
          ".const .align 4 .u32 table[3] = {5, 6, 0x7};\n.global .align 4 .u32 counter = 40;\n"
          ".extern .shared .align 16 .b8 more[];\n.shared .align 4 .b8 some[12];\n" +
          kernel(
              "k",
              "mov.u64 %d1, table;\nld.const.u32 %r1, [%d1+8];\nld.const.u32 %r2, [table+4];\n"
              "atom.global.add.u32 %r3, [counter], 2;\nld.global.u32 %r4, [counter];\n"
              "st.v4.u32 [%x0], {%r1, %r2, %r3, %r4};\nst.shared.u32 [some+8], 1;\n"
              "st.shared.u32 [more+12], 3;\nld.shared.u32 %r5, [more+12];\nst.u32 [%x0+16], %r5;"),
      1, 1, 16);
  EXPECT_EQ(words[0], 7u | uint64_t{6} << 32);
  EXPECT_EQ(words[1], 40u | uint64_t{42} << 32);
  EXPECT_EQ(words[2], 3u);
  std::array<uint64_t, 64> none{};
  const std::string written = header() + ".const .align 4 .u32 table[3] = {5, 6, 7};\n";
  EXPECT_EQ(thrown(written + kernel("k", "mov.u64 %d1, table;\nst.u32 [%d1], 1;"), none)->kind,
            Fault::outside);
}

TEST(Time, GoesOn) {
  const auto words = words_after(
      header() +
      kernel("k",
             "mov.u64 %d1, %globaltimer;\nnanosleep.u32 20;\nmov.u64 %d2, %globaltimer;\n"
             "mov.u64 %d3, %clock64;\nsub.u64 %d4, %d2, %d1;\nst.u64 [%x0], %d4;"));
  EXPECT_EQ(words[0], 2u);
}

TEST(Addresses, SayTheirSpace) {
  const auto words = words_after(
      header() +
      kernel("k",
             "isspacep.shared %p1, mine;\nisspacep.global %p2, mine;\n"
             "isspacep.global %p3, %x0;\nselp.u64 %d1, 1, 0, %p1;\n"
             "selp.u64 %d2, 2, 0, %p2;\nselp.u64 %d3, 4, 0, %p3;\nor.b64 %d1, %d1, %d2;\n"
             "or.b64 %d1, %d1, %d3;\nst.u64 [%x0], %d1;",
             ".shared .align 4 .b8 mine[4];\n"));
  EXPECT_EQ(words[0], 5u);
}

// ---- hangs

TEST(Hangs, AreFoundAndSayWhereEveryoneIs) {
  const Thrown one = thrown_by(
      "$a: ld.relaxed.sys.u64 %d1, [%x0];\nsetp.eq.u64 %p1, %d1, 0;\n@%p1 bra $a;", "", 3);
  EXPECT_EQ(one.kind, Fault::hang);
  EXPECT_TRUE(has(one.text, "no end after 2000"));
  EXPECT_TRUE(has(one.text, " of block 0 of k on device 0)"));
  EXPECT_TRUE(one.text.find("line 14") != std::string::npos ||
              one.text.find("line 15") != std::string::npos ||
              one.text.find("line 16") != std::string::npos)
      << one.text;
}

TEST(Hangs, AtBarriersAreFoundAtOnce) {
  const Thrown one = thrown_by(
      "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bar.sync 1;\n@!%p1 bar.sync 2;", "", 3);
  EXPECT_EQ(one.kind, Fault::hang);
  EXPECT_TRUE(has(one.text, "nobody can go on"));
  EXPECT_TRUE(has(one.text, "1 at line 16: @%p1 bar.sync 1"));
  EXPECT_TRUE(has(one.text, "2 at line 17: @!%p1 bar.sync 2"));
}

TEST(Traps, AreErrors) {
  const Thrown one = thrown_by("trap;");
  EXPECT_EQ(one.kind, Fault::trap);
  EXPECT_TRUE(has(one.text, "line 14: trap: thread 0 of block 0 of k on device 0"));
}

// ---- streams

std::string incrementing() {
  return header() + kernel("k", "ld.u64 %d1, [%x0];\nadd.u64 %d1, %d1, 1;\nst.u64 [%x0], %d1;");
}

TEST(Streams, OrderTheirLaunchesAndTheirUser) {
  const Module module(incrementing());
  Machine machine(module);
  uint64_t word = 0;
  machine.map("word", &word, 8);
  const uint64_t* const at = &word;
  Stream stream(machine, "stream", 0, 1);
  for (int i = 0; i < 3; ++i) {
    stream.write(&word, 8);
    word *= 10;
    stream.launch({"k", std::as_bytes(std::span(&at, 1)), 1, 1, 0});
    run(machine, {&stream, 1});
    stream.read(&word, 8);
  }
  EXPECT_EQ(word, 111u);
}

TEST(Streams, AreNotOrderedWithEachOtherUnlessTold) {
  for (const bool told : {false, true}) {
    const Module module(incrementing());
    Machine machine(module);
    uint64_t word = 0;
    machine.map("word", &word, 8);
    const uint64_t* const at = &word;
    Stream one(machine, "one", 0, 1), other(machine, "other", 0, 1);
    const StreamLaunch launch{"k", std::as_bytes(std::span(&at, 1)), 1, 1, 0};
    one.launch(launch);
    run(machine, {&one, 1});
    if (told) other.wait_for(one);
    other.launch(launch);
    if (told)
      EXPECT_NO_THROW(run(machine, {&other, 1}));
    else
      EXPECT_THROW(run(machine, {&other, 1}), Fault);
  }
}

TEST(Streams, OfAUserWhoDoesNotWaitRace) {
  const Module module(incrementing());
  Machine machine(module);
  uint64_t word = 0;
  machine.map("word", &word, 8);
  const uint64_t* const at = &word;
  Stream stream(machine, "the user", 0, 1);
  stream.launch({"k", std::as_bytes(std::span(&at, 1)), 1, 1, 0});
  while (machine.running()) machine.step();
  try {
    stream.read(&word, 8);
    FAIL() << "nothing is thrown";
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind, Fault::race);
    EXPECT_TRUE(has(fault.what(),
                    "the user: word + 0 reads, unordered, what was written by "
                    "thread 0 of block 0 of k on device 0 in line 16"));
  }
}

TEST(Streams, OfAUserWhoWritesToWhatALaunchReadsRace) {
  const Module module(incrementing());
  Machine machine(module);
  uint64_t word = 0;
  machine.map("word", &word, 8);
  const uint64_t* const at = &word;
  Stream stream(machine, "the user", 0, 1);
  stream.launch({"k", std::as_bytes(std::span(&at, 1)), 1, 1, 0});
  stream.write(&word, 8);
  EXPECT_THROW(run(machine, {&stream, 1}), Fault);
}

TEST(Outside, WritesAreSeenByStrongLoads) {
  const Module module(header() +
                      kernel("k",
                             "$a: ld.relaxed.sys.u64 %d1, [%x0];\nsetp.eq.u64 %p1, %d1, 0;\n"
                             "@%p1 bra $a;\nst.u64 [%x0+8], %d1;"));
  Machine machine(module);
  std::array<uint64_t, 2> words{};
  machine.map("words", words.data(), 16);
  const uint64_t* const at = words.data();
  Stream stream(machine, "stream", 0, 1);
  stream.launch({"k", std::as_bytes(std::span(&at, 1)), 1, 1, 0});
  for (int i = 0; i < 100; ++i) machine.step();
  words[0] = 5;
  run(machine, {&stream, 1});
  EXPECT_EQ(words[1], 5u);
}

// ---- seeds

TEST(Seeds, SayEverything) {
  const Litmus litmus{
      {"st.relaxed.sys.u64 [%x0], 1;\nld.relaxed.sys.u64 %d1, [%x0+8];\n"
       "st.u64 [%x1], %d1;",
       "st.relaxed.sys.u64 [%x0+8], 1;\nld.relaxed.sys.u64 %d1, [%x0];\n"
       "st.u64 [%x1], %d1;"}};
  const Module module(litmus_text(litmus));
  std::set<std::vector<uint64_t>> seen;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    std::vector<uint64_t> once(16), again(16);
    run_litmus(litmus, module, seed, once);
    run_litmus(litmus, module, seed, again);
    EXPECT_EQ(once, again);
    seen.insert(once);
  }
  EXPECT_EQ(seen.size(), 4u);
}

// ---- what is not known

TEST(Unknown, TextIsNamed) {
  for (const char* body : {"vadd4.u32.u32.u32 %r1, %r2, %r3, %r4;",
                           "add.f32.ftz %f1, %f2, %f3;",
                           "ld.global.b128 %d1, [%x0];",
                           "mul.u32 %r1, %r2, %r3;",
                           "add.s32 %r1, %r2;",
                           "add.s32 %r1, %r2, %r99;",
                           "ld.relaxed.u32 %r1, [%x0];",
                           "ld.sys.u32 %r1, [%x0];",
                           "st.acquire.sys.u32 [%x0], %r1;",
                           "cvt.f32.s32 %f1, %r1;",
                           "cvt.s32.f32 %r1, %f1;",
                           "setp.equal.s32 %p1, %r1, %r2;",
                           "bra $nowhere;",
                           "call nobody, ();",
                           "bar.arrive 0, 32;",
                           "shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;",
                           "div.approx.f32 %f1, %f2, %f3;",
                           "atom.add.u16 %h1, [%x0], 1;",
                           "fence.acq_rel;",
                           "mov.u32 %r1, %smid;",
                           ".reg .b33 %q<2>;",
                           "mov.b64 {%r1, %r2}, {%r3, %r4};",
                           "ld.v2.u32 %r1, [%x0];"}) {
    try {
      const Module module(header() + kernel("k", std::string(body)));
      FAIL() << body;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.kind, Fault::unknown) << body;
      EXPECT_TRUE(has(fault.what(), "line 14: ")) << body;
    }
  }
}

TEST(Texts, MayHaveCommentsDebugLinesAndHints) {
  const auto words = words_after(
      header() + ".file 1 \"a.cu\"\n" +
      kernel("k",
             "/* two\nlines */ .pragma \"nounroll\";\n.loc 1 2 3\n// st.u64 [%x0], 1;\n"
             "ld.global.nc.L1::no_allocate.L2::128B.u64 %d1, [%x0];\n{\nadd.u64 %d1, %d1, 5;\n}\n"
             "{ .reg .b64 %d1; mov.b64 %d1, 3; }\nst.global.cs.u64 [%x0], %d1;\nprefetch.global.L2 "
             "[%x0];"));
  EXPECT_EQ(words[0], 5u);
}

TEST(Launches, MustFitTheirKernel) {
  const Module module(incrementing());
  Machine machine(module);
  Stream stream(machine, "stream", 0, 4);
  const uint32_t half = 0;
  EXPECT_THROW(stream.launch({"k", std::as_bytes(std::span(&half, 1)), 1, 1, 0}),
               std::invalid_argument);
  EXPECT_THROW(stream.launch({"none", {}, 1, 1, 0}), std::out_of_range);
}

}  // namespace
}  // namespace ringwood::ptx
