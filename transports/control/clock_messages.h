// How a rank learns how far rank 0's clock is ahead of its own: a question and its answer over the
// control connection, as in NTP (Mills, RFC 5905, section 8). Of the answers in a while that with
// the shortest way there and back is the best.
#pragma once

#include <cstdint>

#include "transports/base/bytes.h"

namespace ringwood {

// A rank to the root, and back with the root's times in it. Nanoseconds of each one's Clock.
struct ClockQuestion {
  int64_t asked_ns = 0;
  int64_t heard_ns = 0, answered_ns = 0;  // 0 in the question
};

void fields(auto& io, ClockQuestion& question) {
  io.number(question.asked_ns);
  io.number(question.heard_ns);
  io.number(question.answered_ns);
}

// What a rank found: at `at_ns` of its own clock, that of rank 0 was `offset_ns` ahead, give or
// take `uncertainty_ns`.
struct ClockSample {
  int64_t at_ns = 0, offset_ns = 0, uncertainty_ns = 0;
};

// From an answer that came at `now_ns`. The root's bytes are not trusted: a sample with a negative
// uncertainty is none.
inline ClockSample sample_of(const ClockQuestion& answer, int64_t now_ns) {
  // Far from the ends, so that no sum overflows.
  constexpr int64_t kMost = int64_t{1} << 60;
  for (const int64_t time : {answer.asked_ns, answer.heard_ns, answer.answered_ns})
    if (time < 0 || time > kMost) return {0, 0, -1};
  const int64_t there_and_back = now_ns - answer.asked_ns - (answer.answered_ns - answer.heard_ns);
  const int64_t offset = ((answer.heard_ns - answer.asked_ns) + (answer.answered_ns - now_ns)) / 2;
  return {now_ns, offset, there_and_back < 0 ? -1 : there_and_back / 2};
}

}  // namespace ringwood
