// Handshakes, and what they say of a job, for the table of decoders (decoders.cc).
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "tests/fuzz/random.h"
#include "transports/base/bytes.h"
#include "transports/bootstrap/handshake_steps.h"

namespace ringwood::testing {

inline Identity somebody() {
  Identity me;
  me.key.fill(7);
  me.session.fill(9);
  me.size = 4;
  return me;
}

inline std::string hello_and_proof(Random& r) {
  const Greeting greeting{r.flag() ? Purpose::store : purpose_of(r.text()), uint16_t(r.bits()), 1,
                          0};
  const Bytes hello = DialSteps(somebody(), greeting).hello();
  return std::string(hello.begin(), hello.end()) + std::string(32, char(r.bits()));
}

inline std::string challenge_and_verdict(Random& r) {
  std::string challenge;
  ByteWriter(challenge).number(kProtocolVersion);
  challenge.resize(32);
  for (size_t i = 0; i < 32 + 249; ++i) challenge.push_back(static_cast<char>(r.bits()));
  return challenge;
}

template <class Steps>
std::optional<std::string> shake(Steps steps, std::string_view bytes) {
  while (steps.wanted() > 0 && steps.wanted() <= bytes.size()) {
    const Bytes message(bytes.begin(), bytes.begin() + ptrdiff_t(steps.wanted()));
    bytes.remove_prefix(message.size());
    EXPECT_LE(steps.take(message).size(), 249u);
  }
  return steps.result().ok() ? std::optional<std::string>("let in") : std::nullopt;
}

inline JobIdentity a_job(Random& r) {
  JobIdentity job;
  for (std::string& id : job.ids) id = r.flag() ? std::string(clip(r.text(), kMaxJobId)) : "";
  job.ranks = r.number();
  job.attempt = r.number();
  job.node = r.number();
  job.users = r.bits();
  job.user = uint32_t(r.bits());
  return job;
}

}  // namespace ringwood::testing
