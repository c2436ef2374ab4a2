// Small PTX texts and how to run them, for the machine's own tests.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/ptx/stream.h"

namespace ringwood::ptx {

inline std::string header() { return ".version 9.0\n.target sm_80\n.address_size 64\n"; }
// A kernel with one parameter, whose value is in %x0; its body begins in line 14 of the text that
// has one kernel. Registers: %p predicates, %h 16 bits, %r 32,
// %d and %x 64, %f and %g floats.
inline std::string kernel(const std::string& name, const std::string& body,
                          const std::string& declarations = "") {
  return ".visible .entry " + name + "(.param .u64 " + name +
         "_p)\n{\n.reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<16>;\n.reg .b64 %d<16>;\n"
         ".reg .b64 %x<8>;\n.reg .f32 %f<8>;\n.reg .f64 %g<8>;\n" +
         declarations + "ld.param.u64 %x0, [" + name + "_p];\n" + body + "\nret;\n}\n";
}

// Whose threads run together: a body each, one thread each, on a device of its own unless told.
struct Litmus {
  std::vector<std::string> bodies;
  std::vector<int> devices = {};
  bool one_block = false;  // all of the bodies are threads of one block
  int seeds = 300;
};
// %x0 points to eight words that all share; thread i's results are the words 8 + 4i to 11 + 4i, and
// %x1 points to them. All begin as zero.
struct Outcomes {
  using Results = std::vector<uint64_t>;
  std::set<Results> seen;             // without trailing words that nobody has written
  std::map<Fault::Kind, int> faults;  // how many seeds
  std::string first;                  // fault

  bool right() const { return faults.empty(); }
  int count(Fault::Kind kind) const { return faults.contains(kind) ? faults.at(kind) : 0; }
};

inline std::string litmus_text(const Litmus& litmus) {
  std::string text = header(), together = "mov.u32 %r15, %tid.x;\n";
  for (size_t i = 0; i < litmus.bodies.size(); ++i) {
    const std::string results = "add.u64 %x1, %x0, " + std::to_string(64 + 32 * i) + ";\n";
    const std::string own = results + litmus.bodies[i];
    if (!litmus.one_block) text += kernel("k" + std::to_string(i), own);
    together += "setp.ne.u32 %p7, %r15, " + std::to_string(i) + ";\n@%p7 bra $after" +
                std::to_string(i) + ";\n" + own + "\n$after" + std::to_string(i) + ":\n";
  }
  return litmus.one_block ? text + kernel("k", together) : text;
}

inline void run_litmus(const Litmus& litmus, const Module& module, uint64_t seed,
                       std::vector<uint64_t>& words) {
  Options options;
  options.seed = seed;
  options.instructions = 200'000;
  Machine machine(module, options);
  machine.map("words", words.data(), words.size() * 8);
  const uint64_t* const base = words.data();
  const auto parameters = std::as_bytes(std::span(&base, 1));
  const auto threads = static_cast<int>(litmus.bodies.size());
  std::vector<Stream> streams;
  streams.reserve(litmus.bodies.size());
  for (int i = 0; i < (litmus.one_block ? 1 : threads); ++i) {
    const int device = litmus.devices.empty() ? i : litmus.devices[static_cast<size_t>(i)];
    streams.emplace_back(machine, "stream", device, litmus.one_block ? threads : 1);
    const std::string name = litmus.one_block ? "k" : "k" + std::to_string(i);
    streams.back().launch({name, parameters, 1, litmus.one_block ? threads : 1, 0});
  }
  run(machine, streams);
}

inline Outcomes outcomes(const Litmus& litmus) {
  const Module module(litmus_text(litmus));
  Outcomes all;
  for (int seed = 1; seed <= litmus.seeds; ++seed) {
    std::vector<uint64_t> words(8 + 4 * litmus.bodies.size());
    try {
      run_litmus(litmus, module, static_cast<uint64_t>(seed), words);
      all.seen.insert({words.begin() + 8, words.end()});
    } catch (const Fault& fault) {
      if (all.faults.empty()) all.first = fault.what();
      ++all.faults[fault.kind];
    }
  }
  return all;
}

// One kernel "k" of one text, with the words as its memory. Throws.
inline void run_kernel(const std::string& text, std::span<uint64_t> words, int threads = 1,
                       int blocks = 1, uint32_t dynamic_shared = 0, uint64_t seed = 1) {
  const Module module(text);
  Options options;
  options.seed = seed;
  options.instructions = 2'000'000;
  Machine machine(module, options);
  machine.map("words", words.data(), words.size_bytes());
  const uint64_t* const base = words.data();
  std::vector<Stream> streams;
  streams.reserve(1);
  streams.emplace_back(machine, "stream", 0, blocks * threads);
  streams[0].launch({"k", std::as_bytes(std::span(&base, 1)), blocks, threads, dynamic_shared});
  run(machine, streams);
}

struct Thrown {
  Fault::Kind kind = Fault::wrong;
  std::string text;
};
inline std::optional<Thrown> thrown(const std::string& text, std::span<uint64_t> words,
                                    int threads = 1, int blocks = 1) {
  try {
    run_kernel(text, words, threads, blocks);
  } catch (const Fault& fault) {
    return Thrown{fault.kind, fault.what()};
  }
  return std::nullopt;
}
inline ::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << text << " has no " << part;
}
// What the body of a kernel throws, with 64 words.
inline Thrown thrown_by(const std::string& body, const std::string& declarations = "",
                        int threads = 1) {
  std::array<uint64_t, 64> words{};
  const auto one = thrown(header() + kernel("k", body, declarations), words, threads);
  return one ? *one : Thrown{Fault::wrong, "nothing is thrown"};
}

}  // namespace ringwood::ptx
