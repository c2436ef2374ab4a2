// Texts of files and how they are read, for the table of decoders (decoders.cc).
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/tuner/machine/machine_model.h"
#include "collectives/tuner/tuning/tuning_file.h"
#include "tests/fuzz/random.h"

namespace ringwood::testing {

inline std::string a_machine(Random& r) {
  MachineModel machine;
  machine.cores = r.from(1, 64);
  machine.net.sharing = r.from(1, 8);
  machine.latency = double(r.below(1000)) * 1e-9;
  for (int h = r.from(1, 5), i = 0; i < h; ++i) machine.hosts.push_back(i / 2);
  machine.net.leaves = {0, 0, 1};
  if (r.below(2)) machine.net.far = PathParameters{1e-6, 1e9 / 3, 0.75};
  if (r.below(2)) machine.net.exceptions = {{0, 0.5, "node-1"}};
  return print(machine);
}

inline std::optional<std::string> read_machine(std::string_view bytes) try {
  return print(parse_machine_model(bytes));
} catch (const Error& error) {
  EXPECT_FALSE(error.cause.empty());
  return std::nullopt;
}

inline LinkSettings some_link_settings(Random& r) {
  LinkSettings settings;
  if (r.flag()) settings.push_back({"RINGWOOD_TCP_SOCKETS", std::to_string(r.from(0, 16))});
  if (r.flag())
    settings.push_back({"RINGWOOD_SHM_RING_BYTES", std::to_string(4096 << r.from(0, 8))});
  return settings;
}

inline std::optional<std::string> read_link_settings(std::string_view bytes) try {
  const LinkSettings settings = parse_link_settings(bytes);
  const Options options = with(Options(), settings);
  EXPECT_TRUE(options.tcp_sockets >= 0 && options.tcp_sockets <= 16);
  EXPECT_TRUE(options.verbs.queue_pairs >= 1 && options.verbs.queue_pairs <= 128);
  EXPECT_TRUE(std::has_single_bit(options.shm_ring_bytes));
  EXPECT_TRUE(std::has_single_bit(options.verbs.ring_bytes));
  return print(settings);
} catch (const Error& error) {
  EXPECT_FALSE(error.cause.empty());
  return std::nullopt;
}

inline std::string a_tuning_file(Random& r) {
  TuningFile file;
  file.measured = "2026-11-23";
  file.version = "0.1.0";
  file.fingerprint = {{0, 1}, {}, "a processor; tcp", "sockets:0", r.bits()};
  TunedRange range;
  range.algorithm = r.flag() ? "ring" : "";
  range.from = r.below(100);
  range.to = range.from + r.below(1000);
  range.segments = r.from(1, 256);
  range.with = "float32,sum,private";
  if (r.flag()) range.points = {{range.from, {2e-6, 1e-6, 3e-6}, "direct", 4, {}, r.from(1, 9)}};
  file.ranges = {range};
  file.links = some_link_settings(r);
  return print(file);
}

inline std::optional<std::string> read_tuning_file(std::string_view bytes) try {
  return print(parse_tuning_file(bytes));
} catch (const Error& error) {
  EXPECT_FALSE(error.cause.empty());
  return std::nullopt;
}

}  // namespace ringwood::testing
