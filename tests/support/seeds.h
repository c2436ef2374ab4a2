// Tests that draw what they do: a fixed number of seeds in the suite, as many as wanted by hand.
//
//   RINGWOOD_RANDOM_SECONDS=3600  each such test goes on for so long, with seeds of the clock, and
//                                 says every 10 s how far it is
//   RINGWOOD_RANDOM_SEED=n        begins with that one, which a finding prints
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>

#include <fmt/format.h>

#include "transports/base/clock.h"

namespace ringwood::testing {

inline uint64_t number_of(const char* name) {
  const char* const text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : 0;
}

// Calls `body` with one seed after another, until it has failed.
template <class Body>
void for_seeds(uint64_t by_default, Body body) {
  const uint64_t seconds = number_of("RINGWOOD_RANDOM_SECONDS");
  uint64_t seed = number_of("RINGWOOD_RANDOM_SEED");
  if (seconds > 0 && seed == 0)
    seed = static_cast<uint64_t>(Clock::now().time_since_epoch().count()) & 0xffffffff;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  auto told = Clock::now();
  uint64_t k = 0;
  const auto tell = [&] { fmt::print(stderr, "{} seeds, the last {}\n", k, seed); };
  for (; seconds > 0 ? Clock::now() < end : k < by_default; ++k, ++seed) {
    if (seconds > 0 && Clock::now() - told > std::chrono::seconds(10)) {
      told = Clock::now();
      tell();
    }
    body(seed);
    if (::testing::Test::HasFailure()) break;
  }
  if (seconds > 0) tell();
}

}  // namespace ringwood::testing
