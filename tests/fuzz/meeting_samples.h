// Messages of ranks that meet in a store, for the table of decoders (decoders.cc).
#pragma once

#include <optional>

#include "tests/fuzz/handshake_samples.h"
#include "tests/fuzz/random.h"
#include "transports/bootstrap/meet/bootstrap_messages.h"

namespace ringwood::testing {

inline Reason a_reason(Random& r) {
  return {r.from(ErrorCode::invalid_argument, ErrorCode::internal), r.number(), r.text(), r.text()};
}

inline Hello a_hello(Random& r) {
  return {r.number(), r.number(), r.text(), a_job(r), r.bytes<16>()};
}

inline Welcome a_welcome(Random& r) {
  Welcome welcome{r.flag(), a_job(r), r.bytes<16>(), std::nullopt, r.blob(40), std::nullopt};
  if (r.flag()) welcome.key = r.bytes<32>();
  if (r.flag()) welcome.reason = a_reason(r);
  return welcome;
}

inline Contribution a_contribution(Random& r) {
  Contribution one{std::nullopt, r.blob(40), r.text()};
  if (r.flag()) one.reason = a_reason(r);
  return one;
}

inline FirstPiece a_first_piece(Random& r) { return {r.from(1u, 1u << 16), r.blob(40)}; }

inline ValuesOfAll some_values(Random& r) {
  return {r.some(9, [&] { return r.blob(40); })};
}

inline RankIntroduction a_rank_introduction(Random& r) {
  return {r.text(),     r.text(),   r.some(9, [&] { return r.number(); }), r.from(-1, 9),
          r.from(1, 8), r.blob(40), r.some(9, [&] { return r.text(); })};
}

}  // namespace ringwood::testing
